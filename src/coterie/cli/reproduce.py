"""`coterie reproduce`: the paper's table and figures, our numbers beside the paper's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Data, Device, Json, starting

__all__ = ["reproduce"]


def reproduce(
    target: Annotated[
        str, typer.Argument(metavar="table1 | fig3 | fig4 | fig5 | regimes", help="What to reproduce.")
    ],
    dataset: Annotated[
        str | None, typer.Option(metavar="iot | emnist", help="One data set; by default all that are there.")
    ] = None,
    data: Data = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many; by default 10 for iot, 5 for emnist, 3 for fig5."),
    ] = None,
    device: Device = None,
    out: Annotated[Path | None, typer.Option(help="Where results go; by default runs/<target>.")] = None,
    reading: Annotated[
        str | None,
        typer.Option(
            metavar="best | paper",
            help="How KD-PDFL's open points are read; by default best, paper for fig5.",
        ),
    ] = None,
    stars: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="N | SHARE",
            help="Clients that wake in an exchange: a number, or below 1 a share of them (0.1: one in ten); "
            "by default 1, 5 for regimes.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny version, to see that all works.")] = False,
    as_json: Json = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue where it was stopped or killed.")
    ] = False,
) -> None:
    """Reproduce the paper's Table I or one of its Figures 3 to 5, or compare the methods in four regimes.

    All of it is classification, measured by accuracy.

    Examples:

      coterie reproduce table1 --dataset iot

      coterie reproduce fig4 --device cuda --seeds 5

      coterie reproduce table1 --stars 0.1 --out runs/table1-stars

      coterie reproduce table1 --resume     (after Ctrl-C, a crash or a power cut)
    """
    from coterie.cli.common import leave
    from coterie.runs import tables
    from coterie.storage.files import to_json_bytes

    with starting(f"reading {target}"):
        from coterie.api import Stopped
        from coterie.cli.progress.run import progress
        from coterie.studies.reproduce import reproduction

    console = tables.console(stderr=as_json)
    try:
        report = reproduction.reproduce(
            target,
            dataset,
            data=data,
            seeds=seeds,
            device=device,
            out=out,
            quick=quick,
            resume=resume,
            reading=reading,
            stars=stars,
            view=lambda experiment: progress(console, experiment),
        )
    except (Stopped, KeyboardInterrupt) as stopped:
        leave(console, stopped, [*(word for word in sys.argv[1:] if word != "--resume"), "--resume"])
    if as_json:
        typer.echo(to_json_bytes(report.values, indent=2), nl=False)
        return
    for header in report.headers:
        console.print(header, highlight=False, markup=False, soft_wrap=True)
    for table in report.tables:
        console.print(table, "")
    if report.values["left_out"]:
        console.print(
            f"left out, for its files are not there: {', '.join(report.values['left_out'])}", style="yellow"
        )
    for file in report.files:
        typer.echo(f"wrote     {file}")
