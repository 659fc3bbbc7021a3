"""`coterie doctor`: what this machine has for coterie, what is slow or missing, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.common import Json, starting

__all__ = ["doctor"]


def doctor(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", envvar="COTERIE_DATA", help="Where data sets lie."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look over this machine: versions, device, compiler, memory, data, extras; what is slow, and why.

    Example:  coterie doctor
    """
    import json

    from coterie.runs import tables

    with starting("looking around"):
        from coterie.cli import examination

        facts = examination.facts(data)
        remarks = examination.remarks(facts)
    if as_json:
        typer.echo(json.dumps({**facts, "remarks": [one._asdict() for one in remarks]}, indent=2))
        return
    console = tables.console()
    for what, value in facts.items():
        console.print(f"{what:15} {_said(value)}", markup=False, soft_wrap=not console.is_terminal)
    for remark in remarks:
        console.print(f"\n{remark.what}", style="yellow", markup=False, soft_wrap=not console.is_terminal)
        console.print(f"  {remark.remedy}", markup=False, soft_wrap=not console.is_terminal)
    if not remarks:
        console.print("\nnothing to mend")


def _said(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(one, bool | dict) for one in value.values()):
        states: dict[str, list[str]] = {}
        for name, one in value.items():
            state = one["state"] if isinstance(one, dict) else "installed" if one else "absent"
            states.setdefault(state, []).append(name)
        return "; ".join(f"{state}: {', '.join(names)}" for state, names in states.items())
    if isinstance(value, dict):
        return ", ".join(f"{key} {one or 'absent'}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
