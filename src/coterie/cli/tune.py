"""`coterie tune`: the same number of settings tried for every method, chosen on validation data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Data, Device, Json, Sets, overrides, starting

__all__ = ["tune"]


def tune(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="FILE.toml | PRESET",
            autocompletion=complete.experiments,
            help="What to tune; its \\[search] says over what.",
        ),
    ],
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Settings to try of every method.")],
    seeds: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Seeds to try each with, others than the experiment's own."),
    ] = 3,
    sets: Sets = None,
    data: Data = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="The folder; by default tuning/<name>.")] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="The tuned experiment; by default tuned.toml in the folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Give every method the same chances: try as many settings of each, choose on validation data.

    The experiment with the chosen values, a report and all numbers are written; test data are not used.

    Examples:

      coterie tune quickstart --budget 6

      coterie tune mine.toml --budget 20 --seeds 5 --write tuned.toml && coterie run tuned.toml

      coterie tune mine.toml --budget 9 --set search='{"train.lr"=[0.01,0.1],"methods.KD-PDFL.tau"=[0.1,1]}'
    """
    import json

    from coterie.runs import tables

    changes = overrides(sets or []) | ({"device": device} if device is not None else {})
    with starting(f"reading {experiment}"):
        from coterie.experiment import Experiment
        from coterie.progress import progress
        from coterie.studies.tuning import report
        from coterie.studies.tuning import tune as search

        chosen = Experiment.load(experiment, changes)
    to = report.places(chosen.name, out, write)
    console = tables.console(stderr=as_json)
    console.print(f"tuning with {budget} settings of every method", highlight=False)
    try:
        with progress(console, chosen.replace(seeds=seeds, search={})) as shown:
            found = search(chosen, budget, seeds=seeds, data=data, progress=shown)
    except KeyboardInterrupt:
        console.print("interrupted; nothing was written", style="yellow")
        raise typer.Exit(130) from None
    facts = report.numbers(found)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    for table in () if as_json else report.tables(found):
        console.print(table, "")
    report.write(found, facts, to)
    for what, path in to._asdict().items():
        typer.echo(f"{what:10}  {path}", err=as_json)
    typer.echo(f"run it:     coterie run {shlex.quote(str(to.experiment))}", err=as_json)
