"""`coterie dashboard`: a local page over run folders and live peers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from coterie.dashboard.sources import PageSource

__all__ = ["dashboard"]


def dashboard(
    runs: Annotated[
        Path, typer.Argument(metavar="[RUNS_DIR]", help="Where the run folders lie, or a leaderboard.")
    ] = Path("runs"),
    peers: Annotated[
        list[str] | None,
        typer.Option(
            "--peer",
            metavar="ADDR | FOLDER",
            help="Show a live swarm through this peer: its status address on this machine, or its state "
            "folder, which tells more; repeatable.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen at; any but a loopback one needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(envvar="COTERIE_DASHBOARD_TOKEN", help="The token; by default a new one where needed."),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show runs as a page: curves, the learned graph over time, every client, live while a run goes on.

    Of a leaderboard, show its table, to sort and filter, and the ranks of the methods.

    With --peer, show a live swarm: members, exchanges as they happen, weights, refusals.

    Examples:

      coterie dashboard

      coterie dashboard runs/table1 --port 0 --open

      coterie dashboard leaderboard

      coterie dashboard --peer 127.0.0.1:41873 --peer ./state

      coterie dashboard --host 0.0.0.0     (for others on the network: prints an address with a token)
    """
    import webbrowser

    from coterie.core.errors import RunError
    from coterie.dashboard.app import prepare
    from coterie.dashboard.sources import RunIndex

    if not runs.exists() and runs != Path("runs"):  # which is there from the first run on
        raise RunError(f"{runs}: no such folder; name the one that holds the run folders")

    def show(swarm: PageSource | None = None) -> None:
        index = RunIndex(runs, swarm)
        served = prepare(index, host, port, token)
        typer.echo(f"dashboard  {served.address}{index.home}   (Ctrl-C stops it)")
        if browser:
            webbrowser.open(served.address + index.home)
        served.serve()

    if peers:
        from coterie.dashboard.live import SwarmSource, peer_location

        with contextlib.closing(SwarmSource([peer_location(peer) for peer in peers])) as swarm:
            show(swarm)
    else:
        show()
