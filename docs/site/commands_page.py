"""The page of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pieces import code, page, table
from typer.main import get_command

from coterie.cli import app


def commands_page() -> str:
    """Make the page of the command line: what `--help` of each command says."""
    parts = []
    for path, command in _commands(get_command(app), "coterie"):
        parts += [
            f"## {path}",
            inspect.cleandoc(command.help or "").replace("<", "&lt;"),
            _parameters(command),
        ]
    return page("Commands", "Every command and option, as `--help` shows them.", *filter(None, parts))


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, f"{path} {name}")
    if not getattr(command, "commands", {}):
        yield path, command


def _parameters(command: Any) -> str:
    rows = []
    for p in command.params:
        if getattr(p, "hidden", False):
            continue
        shown = (
            (p.metavar or p.name.upper())
            if p.param_type_name == "argument"
            else ", ".join([*p.opts, *p.secondary_opts])
        )
        default = "" if p.default in (None, False, ()) or callable(p.default) else str(p.default)
        rows.append((code(shown), code(default), getattr(p, "help", "") or ""))
    return table(("", "default", "meaning"), rows) if rows else ""
