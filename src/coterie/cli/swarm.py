"""`coterie swarm`: run real peers on this machine, in one command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Data, Json, Sets, overrides, starting

__all__ = ["swarm"]


def swarm(
    n: Annotated[int, typer.Option("-n", min=2, max=200, help="How many peers.")] = 8,
    preset: Annotated[
        str,
        typer.Option(
            metavar="FILE.toml | PRESET",
            autocompletion=complete.experiments,
            help="The experiment whose data are dealt to them.",
        ),
    ] = "quickstart",
    method: Annotated[str, typer.Option(help="The method of that experiment.")] = "KD-PDFL",
    iterations: Annotated[int, typer.Option(min=1, help="Local iterations of each peer.")] = 500,
    rate: Annotated[
        float,
        typer.Option(
            min=0, help="At most this many iterations a second, so that exchanges keep up; 0: no limit."
        ),
    ] = 25.0,
    sets: Sets = None,
    data: Data = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/swarm.")] = None,
    plots: Annotated[bool, typer.Option(help="Draw the pictures at the end.")] = True,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Show it as a page, live, and then its results until Ctrl-C.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of the page; 0 takes any free one.")
    ] = 8765,
    as_json: Json = False,
) -> None:
    """See real peers learn from each other: n processes on loopback, mutual TLS, a throw-away CA, no server.

    Each peer has the data of one client of the experiment, learns on its own clock, finds the others by
    gossip and exchanges models with them. The results are an ordinary run folder, and `coterie replay`
    computes them again in the simulator.

    Examples:

      coterie swarm

      coterie swarm --dashboard

      coterie swarm -n 4 --preset mixture --iterations 200 --set exchange.loss=0.2
    """
    from coterie.core.errors import ConfigError, UnknownNameError
    from coterie.core.support.signals import stop_on_signal
    from coterie.runs import free_name, tables
    from coterie.runs.results import table
    from coterie.storage.files import to_json_bytes

    changes = {"data.clients": n, "train.iterations": iterations, "seeds": 1, "grid": {}, "name": "swarm"}
    changes |= overrides(sets or [])
    with starting(f"reading {preset}"):
        from coterie.cli.progress.swarm import progress
        from coterie.experiment import Experiment
        from coterie.swarm import swarm as fly

        chosen = Experiment.load(preset, changes)
    if chosen.grid or len(chosen.seeds) > 1:
        raise ConfigError(
            "a swarm is one run: one setting, one seed; leave out --set grid=…, and name one seed, such as "
            "seeds=[7]"
        )
    if method not in chosen.methods:
        raise UnknownNameError(f"method of {preset}", method, chosen.methods)
    console = tables.console(stderr=as_json)
    folder = out or free_name(Path("runs") / "swarm")
    with contextlib.ExitStack() as beside:
        page = beside.enter_context(_page(folder, chosen.data.clients, port, as_json)) if dashboard else None
        with stop_on_signal() as asked, progress(console, chosen, method) as shown:
            result = fly(
                chosen,
                method,
                folder,
                data=data,
                progress=shown,
                asked=asked,
                rate=rate or None,
                plots=plots,
            )
        if as_json:
            typer.echo(to_json_bytes(result.summary(), indent=2), nl=False)
        else:
            console.print(table(result.summary()))
        typer.echo(f"results   {result.path}", err=as_json)
        for picture in sorted((result.path / "plots").glob("*.png")):
            typer.echo(f"picture   {picture}", err=as_json)
        typer.echo(f"check it  coterie replay {result.path}", err=as_json)
        if page is not None and not asked.is_set():
            typer.echo("dashboard  it stays until Ctrl-C", err=as_json)
            with contextlib.suppress(KeyboardInterrupt):
                page.join()


@contextlib.contextmanager
def _page(folder: Path, peers: int, port: int, as_json: bool) -> Iterator[Thread]:
    """Serve the live page over the peers that are about to start, and over their results."""
    from coterie.dashboard.app import prepare
    from coterie.dashboard.live import SwarmSource
    from coterie.dashboard.sources import SWARM_PAGE, RunIndex
    from coterie.swarm.plan import states

    with contextlib.closing(SwarmSource(states(folder, peers), run=folder.resolve().name)) as swarm:
        served = prepare(RunIndex(folder, swarm), port=port)
        typer.echo(f"dashboard  {served.address}{SWARM_PAGE}", err=as_json)
        with served.meanwhile() as thread:
            yield thread
