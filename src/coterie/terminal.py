"""Tables for the terminal, which lose no name and cut no number, however narrow it is.

Where there is too little room, words fold, then the columns that matter least are left out and the note
names them; where that is not enough, every row becomes a list. A pipe is as wide as the table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.constrain import Constrain
from rich.measure import Measurement
from rich.table import Table as Drawn
from rich.text import Text

__all__ = ["Cell", "Table", "console"]

Cell: TypeAlias = str | Text
_GAPS = (2, 1)
"""Blanks between two columns, and where there is little room."""
_FOLDED = 20
"""Characters below which a column of words is not folded."""
_LINE = 100
"""Characters of the longest line of a note."""


def console(*, stderr: bool = False, lines: bool = False) -> Console:
    """Make a console as wide as the terminal, or as COLUMNS says.

    A pipe has no edge; with `lines` that is so whatever COLUMNS says.
    """
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and (lines or "COLUMNS" not in os.environ):
        made.width = 10_000
    return made


@dataclass(frozen=True)
class Table:
    """A table that fits the console which prints it."""

    columns: Sequence[str]
    """The title of each."""
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    """How to read it."""
    words: Collection[str] = ("method",)
    """The columns that begin at the left and may be folded; all others are numbers, kept in one piece."""
    spare: Sequence[str] = ()
    """The columns that may be left out, the least important first."""
    ends: Sequence[bool] = ()
    """Whether a part of the table ends with each row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        fit = self._fit(options.max_width)
        if self.title:
            yield Text(self.title, style="table.title")
        yield self._drawn(*fit) if fit else self._lists()
        room = [f"Left out for want of room: {', '.join(fit[0])}."] if fit and fit[0] else []
        if note := " ".join([self.note, *room]).strip():
            yield Constrain(Text(note, style="table.caption"), _LINE)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        fit = self._fit(options.max_width)
        return Measurement.get(console, options, self._drawn(*fit) if fit else self._lists())

    def _fit(self, width: int) -> tuple[list[str], int] | None:
        """The columns without which it fits, and the blanks between the others; None: it does not fit."""
        spare = [title for title in self.spare if title in self.columns]
        for count, gap in itertools.product(range(len(spare) + 1), _GAPS):
            left_out = spare[:count]
            needed = [self._least(i) + gap for i, title in enumerate(self.columns) if title not in left_out]
            if sum(needed) - gap <= width:
                return left_out, gap
        return None

    def _least(self, i: int) -> int:
        """The fewest characters that a column can do with."""
        widest = max(map(cell_len, [*self._heading(i), *self._texts(i)]), default=0)
        return min(widest, _FOLDED) if self.columns[i] in self.words else widest

    def _heading(self, i: int) -> list[str]:
        """The title, on two lines if the column is narrower."""
        title, texts = self.columns[i], self._texts(i)
        return [title] if max(map(cell_len, texts), default=0) >= cell_len(title) else title.split(" ", 1)

    def _texts(self, i: int) -> list[str]:
        return [str(row[i]) for row in self.rows]

    def _drawn(self, left_out: Collection[str], gap: int) -> Drawn:
        drawn = Drawn(
            box=box.SIMPLE_HEAD,
            padding=(0, gap - 1, 0, 0),  # the box has one blank, too
            pad_edge=False,
            show_edge=False,
            show_header=any(self.columns),
        )
        shown = [i for i, title in enumerate(self.columns) if title not in left_out]
        for i in shown:
            words = self.columns[i] in self.words
            drawn.add_column(
                Text("\n".join(self._heading(i))),
                justify="left" if words else "right",
                no_wrap=not words,
                overflow="fold",
            )
        for row, end in zip(self.rows, self.ends or itertools.repeat(False), strict=False):
            drawn.add_row(*(_text(row[i]) for i in shown), end_section=end)
        return drawn

    def _lists(self) -> Drawn:
        """One line for each column of each row."""
        drawn = Drawn.grid(padding=(0, 2, 0, 0))
        drawn.add_column(overflow="fold")
        drawn.add_column(overflow="fold")
        for row in self.rows:
            for title, cell in zip(self.columns, row, strict=True):
                drawn.add_row(Text(title), _text(cell))
            drawn.add_row()
        return drawn


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
