"""What a command says when it was asked to stop: that everything is saved, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["leave"]


def leave(console: Console, stopped: BaseException, again: Sequence[str]) -> NoReturn:
    """Say so, and exit as an interrupted command does."""
    console.print(
        f"{str(stopped) or 'interrupted'}.\nContinue with: {shlex.join(['coterie', *again])}",
        style="yellow",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    raise typer.Exit(130) from None
