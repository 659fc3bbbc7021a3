"""`coterie show`: the result table of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.common import Json

__all__ = ["show"]


def show(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A folder of a run or a sweep, or its name in runs/ or sweeps/."),
    ],
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table as Markdown.")] = False,
) -> None:
    """Show the result table of a run or a sweep, also of one that is still going on.

    Examples:

      coterie show runs/quickstart

      coterie show quickstart --json | jq '.methods["KD-PDFL"].personal.mean'
    """
    from coterie.cli.common import found
    from coterie.core.errors import ConfigError
    from coterie.runs import Run, results, tables
    from coterie.studies.sweep.folder import Sweep

    if as_json and markdown:
        raise ConfigError("--json and --markdown are two forms of the same table; choose one")
    path = found(run)
    one = Sweep(path) if Sweep.there(path) else Run(path)
    summary = one.summary()
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    elif markdown:
        typer.echo(results.markdown(summary))
    else:
        tables.console().print(results.table(summary))
        if isinstance(one, Run) and one.continue_with:
            typer.echo(f"continue with: {one.continue_with}")
