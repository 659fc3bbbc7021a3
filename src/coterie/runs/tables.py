"""Tables for people: in the terminal, as Markdown, as LaTeX, in a notebook.

In the terminal no name is lost and no number is cut, however narrow it is: where there is too little room,
words fold, then the columns that matter least are left out and the note names them; where that is not
enough, every row becomes a list. A pipe is as wide as the table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.constrain import Constrain
from rich.measure import Measurement
from rich.table import Table as Drawn
from rich.text import Text

from coterie.core.support.html import html_table

__all__ = ["ABSENT", "Cell", "Table", "console", "percent"]

ABSENT = "–"
_GAPS = (2, 1)
"""Blanks between two columns, and where there is little room."""
_FOLDED = 20
"""Characters below which a column of words is not folded."""
_LINE = 100
"""Characters of the longest line of a note."""
_LATEX = {
    "\\": r"\textbackslash{}", "±": r"$\pm$", "<": "$<$", "–": "--", "μ": r"$\mu$",
    **{c: f"\\{c}" for c in "%_&#$"},
}  # fmt: skip


def console(*, stderr: bool = False, lines: bool = False) -> Console:
    """Make a console as wide as the terminal, or as COLUMNS says.

    A pipe has no edge; with `lines` that is so whatever COLUMNS says.
    """
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and (lines or "COLUMNS" not in os.environ):
        made.width = 10_000
    return made


def percent(value: float | None) -> str:
    """Write a share in percent."""
    return ABSENT if value is None else f"{100 * value:.1f}"


class Cell(NamedTuple):
    """A text, bold where it is the best of its kind."""

    text: str
    best: bool = False
    value: float | None = None
    """The number that the text shows."""
    colour: str = ""
    """That of the text in the terminal."""

    def drawn(self) -> Text:
        """Write for the terminal."""
        return Text(self.text, " ".join(filter(None, ["bold" if self.best else "", self.colour])))


@dataclass(frozen=True)
class Table:
    """A table that fits the console which prints it, and can be written as Markdown and LaTeX."""

    columns: Sequence[str]
    """The title of each."""
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    note: str = ""
    """A sentence on how to read the table."""
    words: Collection[str] = ("method",)
    """The columns that begin at the left and may be folded; all others are numbers, kept in one piece."""
    spare: Sequence[str] = ()
    """The columns that may be left out, the least important first."""
    parted: bool = False
    """True if a line is drawn wherever the first column changes."""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """All rows, of cells alone."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]

    def markdown(self, level: int = 0) -> str:
        """Write as Markdown; `level`: that of the title as a heading, 0 for none."""
        rule = ["---" if title in self.words else "---:" for title in self.columns]
        body = [[f"**{cell.text}**" if cell.best else cell.text for cell in row] for row in self.cells]
        lines = ([cell.replace("|", "\\|") for cell in row] for row in (self.columns, rule, *body))
        grid = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join(filter(None, [f"{'#' * level} {self.title}" if level else "", grid, self.note]))

    def _repr_html_(self) -> str:
        """Write for a notebook."""
        rows = [[(cell.text, cell.best) for cell in row] for row in self.cells]
        return html_table(self.columns, rows, title=self.title, note=self.note, words=tuple(self.words))

    def latex(self) -> str:
        """Write for a paper; needs the package booktabs."""
        lines = []
        for row, end in zip(self.cells, self._ends(), strict=False):
            texts = (rf"\textbf{{{_escaped(c.text)}}}" if c.best else _escaped(c.text) for c in row)
            lines.append(" & ".join(texts) + r" \\" + (r" \midrule" if end else ""))
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_escaped(self.title)}. {_escaped(self.note)}}}",
                rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}",
                r"\toprule",
                " & ".join(map(_escaped, self.columns)) + r" \\ \midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def _ends(self) -> list[bool]:
        """Tell for each row whether a part of the table ends with it."""
        return [self.parted and a[0] != b[0] for a, b in itertools.pairwise(self.cells)] + [False]

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
        """Find the columns to leave out, and the blanks between the others; None if it does not fit."""
        spare = [title for title in self.spare if title in self.columns]
        for count, gap in itertools.product(range(len(spare) + 1), _GAPS):
            left_out = spare[:count]
            needed = [self._least(i) + gap for i, title in enumerate(self.columns) if title not in left_out]
            if sum(needed) - gap <= width:
                return left_out, gap
        return None

    def _least(self, i: int) -> int:
        """Count the fewest characters that a column can do with."""
        widest = max(map(cell_len, [*self._heading(i), *self._texts(i)]), default=0)
        return min(widest, _FOLDED) if self.columns[i] in self.words else widest

    def _heading(self, i: int) -> list[str]:
        """Write the title, on two lines if the column is narrower."""
        title, texts = self.columns[i], self._texts(i)
        return [title] if max(map(cell_len, texts), default=0) >= cell_len(title) else title.split(" ", 1)

    def _texts(self, i: int) -> list[str]:
        return [row[i].text for row in self.cells]

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
        for row, end in zip(self.cells, self._ends(), strict=False):
            drawn.add_row(*(row[i].drawn() for i in shown), end_section=end)
        return drawn

    def _lists(self) -> Drawn:
        """Write one line for each column of each row."""
        drawn = Drawn.grid(padding=(0, 2, 0, 0))
        drawn.add_column(overflow="fold")
        drawn.add_column(overflow="fold")
        for row in self.cells:
            for title, cell in zip(self.columns, row, strict=True):
                drawn.add_row(Text(title), cell.drawn())
            drawn.add_row()
        return drawn


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)
