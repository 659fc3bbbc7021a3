"""`coterie explain`: what a kind of error means, and what can be done about it."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli import complete
from coterie.cli.common import Json

__all__ = ["explain"]


def explain(
    error: Annotated[
        str | None,
        typer.Argument(
            metavar="ERROR",
            autocompletion=complete.errors,
            help="A kind of error, such as DataError; without one, all are listed.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a kind of error means, and what can be done about it.

    Examples:

      coterie explain

      coterie explain DataError
    """
    import json

    from coterie.core.errors import UnknownNameError
    from coterie.core.support.error_texts import error_texts
    from coterie.runs.tables import Cell, Table, console

    there = error_texts()
    if error is not None and error not in there:
        raise UnknownNameError("kind of error", error, there)
    chosen = there if error is None else {error: there[error]}
    if as_json:
        typer.echo(json.dumps({name: text._asdict() for name, text in chosen.items()}, indent=2))
    elif error is None:
        rows = [(Cell(name, colour="cyan"), text.meaning) for name, text in there.items()]
        console(lines=True).print(Table(("", ""), rows, words=("",)))
    else:
        shown = console()
        shown.print(f"{error}: {there[error].meaning}", markup=False)
        shown.print(f"\nRemedy: {there[error].remedy}", markup=False)
