"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def page(title: str, about: str, *parts: str) -> str:
    """Put a title, an introduction and the parts below each other."""
    return "\n\n".join([f"# {title}", about, *parts]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table; cells may have bars and line breaks."""
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Mark text as code, if there is any."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
