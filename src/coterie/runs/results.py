"""The result table of a run, a sweep or a swarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie.experiment.labels import called
from coterie.runs.tables import ABSENT, Cell, Table, percent, spread

__all__ = ["caption", "columns", "markdown", "table"]


class _Column(NamedTuple):
    title: str
    value: Callable[[Mapping[str, Any]], float | None]
    """The value that is compared."""
    show: Callable[[Mapping[str, Any], float], str]
    better: Callable[..., float] | None
    """The function that picks the best of all values, max or min; None: no value is the best."""


def _spread(score: str) -> Callable[[Mapping[str, Any], float], str]:
    return lambda method, mean: spread(mean, method[score]["std_seeds"])


_COLUMNS = (
    _Column("personal %", lambda m: m["personal"]["mean"], _spread("personal"), max),
    _Column("global %", lambda m: m["global"]["mean"], _spread("global"), max),
    _Column("worst 10 %", lambda m: m["personal"]["worst10"], lambda _, v: percent(v), max),
    _Column("hurt vs Local", lambda m: m["personal"]["hurt_vs_local"], lambda _, v: f"{v:.0%}", min),
    _Column("surely hurt", lambda m: m["surely_hurt"], lambda _, v: f"{v:.0%}", min),
    _Column("MB sent", lambda m: m["bytes_sent"] / 1e6, lambda _, v: f"{v:,.1f}", None),
    _Column("graph AUC", lambda m: m["graph_auc"], lambda _, v: f"{v:.2f}", max),
)
_AGAINST_LOCAL = ("hurt vs Local", "surely hurt")
_SPARE = ("MB sent", "graph AUC", "worst 10 %", *_AGAINST_LOCAL, "global %")
"""Columns that a narrow terminal goes without, the first one first."""


def table(summary: Mapping[str, Any]) -> Table:
    """Make the result table; the best of every column is bold."""
    keys, names = _names(summary)
    numbers = zip(*columns(summary).values(), strict=True)
    return Table(
        ("method", *keys, *(c.title for c in _COLUMNS)),
        [(*own, *cells) for own, cells in zip(names, numbers, strict=True)],
        title=summary["name"],
        note=caption(summary),
        words=("method", *keys),
        spare=_SPARE,
    )


def markdown(summary: Mapping[str, Any]) -> str:
    """Write the result table for a README or an issue."""
    return table(summary).markdown() + "\n"


def caption(summary: Mapping[str, Any]) -> str:
    """Tell how many seeds and clients there are, and what the columns mean."""
    seeds, clients, missing = len(summary["seeds"]), summary["clients"], summary.get("missing", [])
    runs = "one seed" if seeds == 1 else f"{seeds} seeds (± is the standard deviation over the seeds)"
    there = clients - sum(one["t"] < summary["t"] for one in missing)
    honest = f"{clients} clients" if there == clients else f"{there} of {clients} clients"
    honest = f"the honest of {honest}" if summary["attackers"] else honest
    text = (
        f"Test accuracy, mean over {honest} and {runs}. personal: tested on the client's own "
        "label distribution; global: on all labels equally. worst 10 % and hurt are of personal."
    )
    if any(m["surely_hurt"] is not None for m in summary["methods"].values()):
        text += " surely hurt: below Local with 95 % confidence; chance alone makes it up to about 5 %."
    if summary["groups"] > 1:
        text += f" graph AUC: how well the weights find the {summary['groups']} true groups (0.5 = chance)."
    if summary["state"] != "done":
        text += f" {summary['state'].capitalize()} at iteration {summary['t']} of {summary['iterations']}."
    if early := summary.get("stopped_early"):
        text += f" Stopped early: {early}."
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
    """Compute the columns of the result table by their titles, with a cell for each method."""
    methods = summary["methods"]
    found = {}
    for column in _COLUMNS:
        values = [column.value(m) for m in methods.values()]
        if column.title in _AGAINST_LOCAL:  # Local cannot be worse than itself: no merit
            values = [
                None if name in summary["local"] else v for name, v in zip(methods, values, strict=True)
            ]
        there = [v for v in values if v is not None]
        top = column.better(there) if column.better and len(there) > 1 else None
        found[column.title] = [
            Cell(ABSENT) if v is None else Cell(column.show(method, v), v == top, v)
            for method, v in zip(methods.values(), values, strict=True)
        ]
    return found


def _names(summary: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Name the keys of the grid, and for each row its method and its values of these."""
    methods, settings = summary["methods"], summary["settings"]
    paths = list(next(iter(settings.values()))["setting"]) if settings else []
    if not paths:
        return [], [(name,) for name in methods]
    last = [path.rpartition(".")[2] for path in paths]
    keys = [short if last.count(short) == 1 else path for short, path in zip(last, paths, strict=True)]
    labels = [settings[name]["method"] for name in methods]
    values = [[settings[name]["setting"][path] for name in methods] for path in paths]
    named = [[called(value, all_) for value in all_] for all_ in values]
    return keys, list(zip(labels, *named, strict=True))
