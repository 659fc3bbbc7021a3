"""`coterie show`: the result table of a run, also by architecture, or what one client gained by joining."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coterie.cli import complete
from coterie.cli.common import Json

if TYPE_CHECKING:
    from coterie.runs import Run

__all__ = ["show"]


def show(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            autocompletion=complete.runs,
            help="A folder of a run or a sweep, or its name in runs/ or sweeps/.",
        ),
    ],
    as_json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The table as Markdown.")] = False,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Whether client N gained by joining, and what goes with that; or the client of that owner.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The seed of that client; by default the first.")
    ] = None,
    by: Annotated[
        Literal["model"] | None,
        typer.Option(help="A row for each method and model, where clients have several."),
    ] = None,
) -> None:
    """Show the result table of a run or a sweep, also of one that is still going on.

    Examples:

      coterie show runs/quickstart

      coterie show quickstart --client 9

      coterie show hospitals --client Cleveland

      coterie show phones --by model

      coterie show quickstart --json | jq '.methods["KD-PDFL"].personal.mean'
    """
    from coterie.cli.common import found
    from coterie.core.errors import ConfigError
    from coterie.runs import Run, results, tables
    from coterie.studies.sweep.folder import Sweep

    if as_json and markdown:
        raise ConfigError("--json and --markdown are two forms of the same table; choose one")
    if client is None and seed is not None:
        raise ConfigError("--seed says which client is meant; name the client, too: --client N")
    path = found(run)
    one = Sweep(path) if Sweep.there(path) else Run(path)
    if by:
        if client is not None or isinstance(one, Sweep):
            raise ConfigError(
                "--by model is about all clients of a run; leave out --client, and name no sweep"
            )
        _by_model(one, as_json, markdown)
        return
    if client is not None:
        if markdown or isinstance(one, Sweep):
            raise ConfigError(
                "--client is about one client of a run; leave out --markdown, and name no sweep"
            )
        _client(one, client, seed, as_json)
        return
    summary = one.summary()
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    elif markdown:
        typer.echo(results.markdown(summary))
    else:
        tables.console().print(results.table(summary))
        if isinstance(one, Run) and one.continue_with:
            typer.echo(f"continue with: {one.continue_with}")


def _client(run: Run, client: str, seed: int | None, as_json: bool) -> None:
    from coterie.runs import tables
    from coterie.runs.gains import accounts

    found = accounts(run, client, seed)
    if as_json:
        typer.echo(json.dumps([account.plain() for account in found], indent=2))
        return
    for account in found:
        tables.console().print(
            f"{account.method}, seed {account.seed}: {account.text}", markup=False, emoji=False
        )


def _by_model(run: Run, as_json: bool, markdown: bool) -> None:
    from coterie.core.errors import ConfigError
    from coterie.runs import tables
    from coterie.runs.by_model import by_model, model_table

    numbers = by_model(run.tracks)
    if not numbers:
        raise ConfigError(
            f"{run.path} has no clients with different models to tell apart, or none was tested yet; "
            "leave out --by"
        )
    if as_json:
        facts = {"name": run.config["name"], "task": run.task.plain(), "methods": numbers}
        typer.echo(json.dumps(facts, indent=2))
        return
    table = model_table(numbers, run.task, run.config["name"])
    if markdown:
        typer.echo(table.markdown())
    else:
        tables.console().print(table)
