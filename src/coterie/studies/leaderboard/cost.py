"""The metric against bytes over all columns: how far behind the best, and how much more than FedAvg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from coterie.core.tasks.metric import Metric
from coterie.runs.plots.cost import Cost, draw_costs, name_costs
from coterie.runs.plots.looks import hue
from coterie.runs.plots.style import GREY, METHODS, STYLE
from coterie.runs.wording import behind

__all__ = ["UNIT", "cost_diagram", "costs_of_board"]

UNIT = "FedAvg"
"""The method whose bytes are one."""


def costs_of_board(values: Mapping[str, Any]) -> list[Cost]:
    """List the methods that ran in all columns; empty without FedAvg among them.

    What they are behind the column's best is a mean over the columns with the board's metric, and so are
    bytes as multiples of FedAvg's: a geometric one.
    """
    ranked = values["ranking"]
    if not ranked or UNIT not in ranked["mean_rank"]:
        return []
    metric = Metric.of(values)
    columns = [c for c in values["columns"] if c["name"] in ranked["columns"] and Metric.of(c) == metric]
    told = [c["cells"] for c in columns if c["cells"][UNIT]["megabytes"]]
    return [_cost(label, told, metric.scale) for label in ranked["mean_rank"]] if told else []


def _cost(label: str, columns: Sequence[Mapping[str, Any]], scale: float) -> Cost:
    ratios = [cells[label]["megabytes"] / cells[UNIT]["megabytes"] for cells in columns]
    sent = geometric_mean(ratios) if all(ratios) else 0.0
    colour = METHODS[hue(label)] if sent else GREY
    return Cost(label, (colour, "-"), sent, -scale * fmean(cells[label]["loss"] for cells in columns))


def cost_diagram(found: Sequence[Cost], columns: int, metric: Metric) -> Figure:
    """Draw what methods cost and how good they are, over so many columns."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.8, 5.6), layout="constrained")
        ax = figure.subplots()
        draw_costs(ax, found)
        ax.set(
            xlabel=f"megabytes sent, as a multiple of {UNIT}'s (geometric mean over {columns} columns)",
            ylabel=f"{behind(metric)} behind the column's best (mean)",
        )
        name_costs(ax, found, 7.5)
    return figure
