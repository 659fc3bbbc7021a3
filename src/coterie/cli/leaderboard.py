"""`coterie leaderboard`: every method on every column under one protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Data, Device, Jobs, Json, starting

__all__ = ["leaderboard"]

_FEW = 2
"""Columns up to which the terminal shows the details of each."""


def leaderboard(
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COLUMN ...]", help="By default all; see docs/leaderboard.md."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...", help="Methods, also mine:Mine; Local, FedAvg and Oracle are always in."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Fresh seeds of the figures; by default 10.")
    ] = None,
    device: Device = None,
    data: Data = None,
    out: Annotated[Path, typer.Option(help="The folder.")] = Path("leaderboard"),
    quick: Annotated[bool, typer.Option("--quick", help="A small board: ten minutes on two cores.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where it was stopped, or add columns and methods.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Ray cluster: auto, HOST:PORT, ray://HOST:PORT, or local."),
    ] = None,
    jobs: Jobs = 1,
    own: Annotated[
        Path | None, typer.Option("--columns", metavar="FILE.toml", help="Columns of your own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare all methods on all columns: each tuned alike on validation data, then run with fresh seeds.

    Examples:

      coterie leaderboard --quick

      coterie leaderboard digits-label heart --methods KD-PDFL,Ditto,mine:Mine

      coterie leaderboard --device cuda --jobs 4 --data ~/data

      coterie leaderboard --resume     (after Ctrl-C, a crash or a power cut; or to print it again)
    """
    from coterie.cli.common import leave
    from coterie.runs import tables
    from coterie.storage.files import to_json_bytes

    with starting("reading the columns"):
        from coterie.cli.progress.sweep import progress
        from coterie.studies.leaderboard import board, report
        from coterie.studies.sweep.runner import SweepStopped

    console = tables.console(stderr=as_json)
    names = [name.strip() for text in methods or [] for name in text.split(",") if name.strip()]
    try:
        with progress(console) as view:
            found = board.leaderboard(
                columns or [], out, entrants=names, seeds=seeds, device=device, quick=quick, resume=resume,
                ray=ray, jobs=jobs, data=data, own_columns=own, view=view,
            )  # fmt: skip
    except SweepStopped as stopped:
        leave(console, stopped, [*(word for word in sys.argv[1:] if word != "--resume"), "--resume"])
    if as_json:
        typer.echo(to_json_bytes(found.values, indent=2), nl=False)
        return
    done = sum(column["best"] is not None for column in found.values["columns"])
    for table in (*report.tables(found.values), *(report.details(found.values) if done <= _FEW else ())):
        console.print(table, "")
    for gap in report.missing(found.values):
        console.print(gap, style="yellow", highlight=False, markup=False, soft_wrap=True)
    for file in found.files:
        typer.echo(f"wrote     {file}")
