"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Data", "Device", "Json", "Seeds", "Sets"]

Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as train.lr=0.1; repeatable."),
]
Seeds = Annotated[int | None, typer.Option(min=1, help="Run seeds 0 to N-1.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...")]
Data = Annotated[Path | None, typer.Option(envvar="COTERIE_DATA", help="Where data sets lie.")]
Json = Annotated[bool, typer.Option("--json", help="All numbers, for programs.")]
