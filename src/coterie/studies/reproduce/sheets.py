"""Tables for people: in the terminal, as Markdown, as LaTeX."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from rich.text import Text

from coterie.terminal import Table

__all__ = ["ABSENT", "Cell", "Sheet", "latex", "markdown", "percent", "spread", "terminal"]

ABSENT = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "±": r"$\pm$", "<": "$<$", "–": "--", "μ": r"$\mu$",
    **{c: f"\\{c}" for c in "%_&#$"},
}  # fmt: skip

_SPARE = (
    "nearer", "± clients", "graph AUC", "hurt", "worst 10 %", "global %", "d_z", "p (Wilcoxon)", "p (t)",
    "ours - paper",
)  # fmt: skip
"""The columns that a narrow terminal goes without, the first one first."""


class Cell(NamedTuple):
    """A text, bold where it is the best of its kind."""

    text: str
    best: bool = False


class Sheet(NamedTuple):
    """A table; a line is drawn wherever the first column changes."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Cell]]
    note: str

    def ends(self) -> list[bool]:
        """Whether a part of the table ends with each row."""
        return [a[0] != b[0] for a, b in pairwise(self.rows)] + [False]


def terminal(sheet: Sheet) -> Table:
    """For rich."""
    return Table(
        sheet.columns,
        [[Text(text, "bold" if best else "") for text, best in row] for row in sheet.rows],
        title=sheet.title,
        note=sheet.note,
        words=("method", "against", "score", "regime"),
        spare=_SPARE,
        ends=sheet.ends(),
    )


def markdown(sheet: Sheet) -> str:
    """For a report or an issue."""
    body = [[f"**{text}**" if best else text for text, best in row] for row in sheet.rows]
    lines = [list(sheet.columns), ["---"] * len(sheet.columns), *body]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {sheet.title}\n\n{table}\n\n{sheet.note}\n"


def latex(sheet: Sheet) -> str:
    """For a paper; needs the package booktabs."""
    lines = []
    for row, end in zip(sheet.rows, sheet.ends(), strict=True):
        cells = (rf"\textbf{{{_escaped(text)}}}" if best else _escaped(text) for text, best in row)
        lines.append(" & ".join(cells) + r" \\" + (r" \midrule" if end else ""))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escaped(sheet.title)}. {_escaped(sheet.note)}}}",
            rf"\begin{{tabular}}{{{'l' * len(sheet.columns)}}}",
            r"\toprule",
            " & ".join(map(_escaped, sheet.columns)) + r" \\ \midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def percent(value: float | None) -> str:
    """A share in percent."""
    return ABSENT if value is None else f"{100 * value:.1f}"


def spread(mean: float | None, std: float | None) -> str:
    """A mean and its standard deviation, in percent."""
    return percent(mean) + (f" ± {percent(std)}" if mean is not None and std is not None else "")
