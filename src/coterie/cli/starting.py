"""A sign of life from the first moment: what a command needs takes seconds to load."""

from __future__ import annotations

from contextlib import AbstractContextManager

__all__ = ["starting"]


def starting(text: str) -> AbstractContextManager[object]:
    """Say in a terminal what is going on, for as long as the block lasts."""
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(f"{escape(text)} ...")
