"""`coterie dashboard`: a local page over run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["dashboard"]


def dashboard(
    runs: Annotated[Path, typer.Argument(metavar="[RUNS_DIR]", help="Where the run folders lie.")] = Path(
        "runs"
    ),
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

    Examples:

      coterie dashboard

      coterie dashboard runs/table1 --port 0 --open

      coterie dashboard --host 0.0.0.0     (for others on the network: prints an address with a token)
    """
    import webbrowser

    from coterie.core.errors import ConfigError

    try:
        from coterie.dashboard.server import prepare
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the dashboard needs {error.name}, which is not installed: pip install 'coterie[dashboard]'"
        ) from None

    served = prepare(runs, host, port, token)
    typer.echo(f"dashboard  {served.address}   (Ctrl-C stops it)")
    if browser:
        webbrowser.open(served.address)
    served.serve()
