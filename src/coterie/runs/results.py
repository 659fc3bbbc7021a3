"""The result table of a run, a sweep or a swarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie.core.tasks.metric import ACCURACY, Metric, TaskFacts
from coterie.experiment.labels import called
from coterie.runs.tables import ABSENT, Cell, Table
from coterie.runs.wording import heading, spread, tested

__all__ = ["best_are_lowest", "caption", "columns", "markdown", "table"]


class _Column(NamedTuple):
    title: str
    value: Callable[[Mapping[str, Any]], float | None]
    """The value that is compared."""
    show: Callable[[Mapping[str, Any], float], str]
    better: Callable[..., float] | None
    """The function that picks the best of all values, max or min; None: no value is the best."""


_AGAINST_LOCAL = (
    _Column("hurt vs Local", lambda m: m["personal"]["hurt_vs_local"], lambda _, v: f"{v:.0%}", min),
    _Column("surely hurt", lambda m: m["surely_hurt"], lambda _, v: f"{v:.0%}", min),
)
_OTHERS = (
    _Column("MB sent", lambda m: m["bytes_sent"] / 1e6, lambda _, v: f"{v:,.1f}", None),
    _Column("graph AUC", lambda m: m["graph_auc"], lambda _, v: f"{v:.2f}", max),
)
_WORST = "worst 10 %"


def _columns(task: TaskFacts) -> list[_Column]:
    """List the columns of a task: its metric, and what others it has."""
    first, *further = task.metrics
    return [
        _measured(task, first, "personal"),
        _measured(task, first, "global"),
        _measured(task, first, "personal", number="worst10")._replace(title=_WORST),
        *(_measured(task, one, "personal", f".{one.name}") for one in further),
        *_AGAINST_LOCAL,
        *_OTHERS,
    ]


def _spare(task: TaskFacts) -> list[str]:
    """Name the columns that a narrow terminal goes without, the first one first."""
    first, *further = task.metrics
    others = [heading(one, "personal") for one in further]
    mb, auc = (one.title for one in _OTHERS)
    return [mb, auc, *others, _WORST, *(one.title for one in _AGAINST_LOCAL), heading(first, "global")]


def _measured(task: TaskFacts, metric: Metric, kind: str, which: str = "", number: str = "mean") -> _Column:
    """Make a column of a number of one metric of a task, a mean with its deviation over seeds."""
    key = kind + which
    return _Column(
        heading(metric, kind),
        lambda m: m[key][number] if _is_of(m, task) else None,
        lambda m, v: spread(metric, v, m[key]["std_seeds"] if number == "mean" else None),
        max if metric.higher_is_better else min,
    )


def table(summary: Mapping[str, Any]) -> Table:
    """Make the result table; the best of every column is bold."""
    keys, names = _names(summary)
    found, task = columns(summary), TaskFacts.of(summary)
    numbers = zip(*found.values(), strict=True)
    return Table(
        ("method", *keys, *found),
        [(*own, *cells) for own, cells in zip(names, numbers, strict=True)],
        title=summary["name"],
        note=caption(summary),
        words=("method", *keys),
        spare=_spare(task),
    )


def markdown(summary: Mapping[str, Any]) -> str:
    """Write the result table for a README or an issue."""
    return table(summary).markdown() + "\n"


def caption(summary: Mapping[str, Any]) -> str:
    """Tell how many seeds and clients there are, and what the columns mean."""
    seeds, clients, missing = len(summary["seeds"]), summary["clients"], summary.get("missing", [])
    runs = "one seed" if seeds == 1 else f"{seeds} seeds (± is the standard deviation over the seeds)"
    there = clients - sum(one["t"] < summary["t"] for one in missing)
    honest = f"{clients:,} clients" if there == clients else f"{there:,} of {clients:,} clients"
    honest = f"the honest of {honest}" if summary["attackers"] else honest
    task = TaskFacts.of(summary)
    said = f"{_measure(task)}, mean over {honest} and {runs}. {_kinds(task)}"
    said += " worst 10 % and hurt are of personal."
    if summary.get("recorded", clients) < clients:
        said += f" hurt{' and graph AUC' if summary['groups'] > 1 else ''}: of a sample of "
        said += f"{summary['recorded']:,} clients, all else over all of them."
    if any(m["surely_hurt"] is not None for m in summary["methods"].values()):
        below = "below" if task.metric.higher_is_better else "worse than"
        said += f" surely hurt: {below} Local with 95 % confidence; chance alone makes it up to about 5 %."
    if summary["groups"] > 1:
        said += f" graph AUC: how well the weights find the {summary['groups']} true groups (0.5 = chance)."
    if others := [name for name, m in summary["methods"].items() if not _is_of(m, task)]:
        said += f" Measured otherwise, so without these numbers here: {', '.join(others)}."
    if summary["state"] != "done":
        said += f" {summary['state'].capitalize()} at iteration {summary['t']} of {summary['iterations']}."
    if early := summary.get("stopped_early"):
        said += f" Stopped early: {early}."
    if missing:
        gone = "; ".join(f"{one['peer']} {one['why']} at iteration {one['t']}" for one in missing)
        said += f" Missing at the end: {gone}."
    for name, method in summary["methods"].items():
        named = method["diverged"][:5]
        if not (lost := method.get("diverged_clients", len(method["diverged"]))):
            continue
        some = ", ".join(f"{d['client']} (seed {d['seed']})" for d in named)
        more = f" and {lost - len(named):,} more" if lost > len(named) else ""
        said += f" {name}: left out as diverged: " + (
            f"client {some}{more}." if named else f"{lost:,} clients."
        )
    return said


def _is_of(method: Mapping[str, Any], task: TaskFacts) -> bool:
    """Tell whether a method was measured as a task says: a sweep over data sets may have several tasks."""
    return Metric.of(method) == task.metric


def _measure(task: TaskFacts) -> str:
    """Name what is measured: `Test accuracy`, `Test RMSE (lower is better)`."""
    metric = task.metric
    return f"Test {metric.title}" + ("" if metric == ACCURACY else f" ({metric.direction})")


def _kinds(task: TaskFacts) -> str:
    if task.has_classes:
        return "personal: tested on the client's own label distribution; global: on all labels equally."
    return f"personal: {tested(task, 'personal')}; global: {tested(task, 'global').removeprefix('tested ')}."


def columns(summary: Mapping[str, Any]) -> dict[str, list[Cell]]:
    """Compute the columns of the result table by their titles, with a cell for each method."""
    methods = summary["methods"]
    found = {}
    for one in _columns(TaskFacts.of(summary)):
        values = [one.value(m) for m in methods.values()]
        if one in _AGAINST_LOCAL:  # Local cannot be worse than itself: no merit
            values = [
                None if name in summary["local"] else v for name, v in zip(methods, values, strict=True)
            ]
        there = [v for v in values if v is not None]
        top = one.better(there) if one.better and len(there) > 1 else None
        found[one.title] = [
            Cell(ABSENT) if v is None else Cell(one.show(method, v), v == top, v)
            for method, v in zip(methods.values(), values, strict=True)
        ]
    return found


def best_are_lowest(summary: Mapping[str, Any]) -> list[str]:
    """Name the columns of a metric of which less is better."""
    shown = _columns(TaskFacts.of(summary))
    return [one.title for one in shown if one.better is min and one not in _AGAINST_LOCAL]


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
