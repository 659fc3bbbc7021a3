"""Small tables for notebooks, as HTML that needs nothing else and lets no text act as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]

_CELL = "padding:2px 10px;border:none;"


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[tuple[str, bool]]],
    *,
    title: str = "",
    note: str = "",
    words: Sequence[str] = (),
) -> str:
    """Write a table; each cell is a text and whether it is bold, and the columns called `words` stand
    left.
    """
    left = [column in words for column in columns]

    def cell(tag: str, text: str, stands_left: bool, bold: bool = False) -> str:
        style = (
            f"{_CELL}text-align:{'left' if stands_left else 'right'};{'font-weight:bold;' if bold else ''}"
        )
        return f'<{tag} style="{style}">{escape(text)}</{tag}>'

    head = "".join(cell("th", c, at) for c, at in zip(columns, left, strict=True))
    body = "".join(
        f"<tr>{''.join(cell('td', text, at, bold) for (text, bold), at in zip(row, left, strict=True))}</tr>"
        for row in rows
    )
    above = f'<caption style="text-align:left;font-weight:bold;">{escape(title)}</caption>' if title else ""
    below = f'<p style="font-size:smaller;max-width:60em;">{escape(note)}</p>' if note else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    table = f'<table style="border-collapse:collapse;">{above}{top}<tbody>{body}</tbody></table>'
    return f"<div>{table}{below}</div>"
