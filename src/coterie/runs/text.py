"""The result table, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

__all__ = ["Cell", "caption", "columns", "markdown", "table"]

_ABSENT = "–"


class _Column(NamedTuple):
    title: str
    value: Callable[[Mapping[str, Any]], float | None]
    """What is compared."""
    show: Callable[[Mapping[str, Any], float], str]
    better: Callable[..., float] | None
    """Which of all values is the best one: max, min, or none is."""


class Cell(NamedTuple):
    """One number of the result table."""

    value: float | None
    text: str
    best: bool
    """Whether it is the best one of its column."""


def _spread(score: str) -> Callable[[Mapping[str, Any], float], str]:
    def show(method: Mapping[str, Any], mean: float) -> str:
        std = method[score]["std_seeds"]
        return f"{mean:.1%}".rstrip("%") + (f" ± {100 * std:.1f}" if std is not None else "")

    return show


_COLUMNS = (
    _Column("personal %", lambda m: m["personal"]["mean"], _spread("personal"), max),
    _Column("global %", lambda m: m["global"]["mean"], _spread("global"), max),
    _Column("worst 10 %", lambda m: m["personal"]["worst10"], lambda _, v: f"{100 * v:.1f}", max),
    _Column("hurt vs Local", lambda m: m["personal"]["hurt_vs_local"], lambda _, v: f"{v:.0%}", min),
    _Column("MB sent", lambda m: m["bytes_sent"] / 1e6, lambda _, v: f"{v:,.1f}", None),
    _Column("graph AUC", lambda m: m["graph_auc"], lambda _, v: f"{v:.2f}", max),
)


def table(summary: Mapping[str, Any]) -> Table:
    """For rich; the best of every column is bold."""
    drawn = Table(
        title=escape(summary["name"]),
        title_justify="left",
        caption=escape(caption(summary)),
        caption_justify="left",
    )
    drawn.add_column("method", min_width=10)
    for column in _COLUMNS:  # titles on two lines, so that 80 columns are enough
        drawn.add_column(column.title.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for name, *cells in _cells(summary, "[bold]{}[/bold]"):
        drawn.add_row(escape(name), *cells)
    return drawn


def markdown(summary: Mapping[str, Any]) -> str:
    """For a README or an issue."""
    lines = [
        ["method", *(c.title for c in _COLUMNS)],
        ["---", *("---:" for _ in _COLUMNS)],
        *_cells(summary, "**{}**"),
    ]
    rows = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"{rows}\n\n{caption(summary)}\n"


def caption(summary: Mapping[str, Any]) -> str:
    """How many seeds and clients, and what the columns mean."""
    seeds, clients, missing = len(summary["seeds"]), summary["clients"], summary.get("missing", [])
    runs = "one seed" if seeds == 1 else f"{seeds} seeds (± is the standard deviation over them)"
    there = clients - sum(one["t"] < summary["t"] for one in missing)
    honest = f"{clients} clients" if there == clients else f"{there} of {clients} clients"
    honest = f"the honest of {honest}" if summary["attackers"] else honest
    text = (
        f"Test accuracy, mean over {honest} and {runs}. personal: tested on the client's own "
        "label distribution; global: on all labels equally. worst 10 % and hurt are of personal."
    )
    if summary["groups"] > 1:
        text += f" graph AUC: how well the weights find the {summary['groups']} true groups (0.5 = chance)."
    if summary["state"] != "done":
        text += f" {summary['state'].capitalize()} at iteration {summary['t']} of {summary['iterations']}."
    if missing:
        gone = "; ".join(f"{one['peer']} {one['why']} at iteration {one['t']}" for one in missing)
        text += f" Missing at the end: {gone}."
    lost = {name: m["diverged"] for name, m in summary["methods"].items() if m["diverged"]}
    for name, clients_ in lost.items():
        some = ", ".join(f"{d['client']} (seed {d['seed']})" for d in clients_[:5])
        more = f" and {len(clients_) - 5} more" if len(clients_) > 5 else ""
        text += f" {name}: left out as diverged: client {some}{more}."
    return text


def columns(summary: Mapping[str, Any]) -> dict[str, list[Cell]]:
    """The columns of the result table by their titles, with a cell for each method."""
    methods = summary["methods"]
    found = {}
    for column in _COLUMNS:
        values = [column.value(m) for m in methods.values()]
        if column.title == "hurt vs Local":  # Local cannot be worse than itself: no merit
            values = [
                None if name in summary["local"] else v for name, v in zip(methods, values, strict=True)
            ]
        there = [v for v in values if v is not None]
        top = column.better(there) if column.better and len(there) > 1 else None
        found[column.title] = [
            Cell(None, _ABSENT, False) if v is None else Cell(v, column.show(method, v), v == top)
            for method, v in zip(methods.values(), values, strict=True)
        ]
    return found


def _cells(summary: Mapping[str, Any], best: str) -> list[list[str]]:
    columns_ = columns(summary).values()
    return [
        [name, *(best.format(c.text) if c.best else c.text for c in cells)]
        for name, *cells in zip(summary["methods"], *columns_, strict=True)
    ]
