"""The metric against bytes: one dot for each method, over what it sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from coterie.runs.metrics import WorldMetrics
from coterie.runs.plots.names import NamedPoint, name_points
from coterie.runs.plots.style import GREY, OTHERS, method_colours, shortened

__all__ = ["Cost", "costs", "draw_costs", "name_costs"]

_MARKERS = {"-": "o", "--": "s", ":": "^", "-.": "D"}
"""Dots for the dashes that tell methods of one colour apart."""
_NARROWEST = 6.0
"""Least ratio of the ends of the axis of bytes."""


class Cost(NamedTuple):
    """How good one method is, and its price."""

    name: str
    look: tuple[str, str]
    """Colour, OTHERS for a method that is not named, and dashes."""
    sent: float
    """Megabytes, or a multiple of another method's; 0: the method sends nothing."""
    score: float
    """Personal metric as it is shown, or points behind the best, which are negative."""
    spread: float = 0.0
    """Standard deviation over seeds; 0 where there is none."""
    up: bool = True
    """True if a higher score is better."""

    @property
    def named(self) -> bool:
        return self.look[0] != OTHERS

    @property
    def merit(self) -> float:
        """The score, turned round where a lower one is better."""
        return self.score if self.up else -self.score


def costs(methods: Mapping[str, Sequence[WorldMetrics]], summary: Mapping[str, Any]) -> list[Cost]:
    """List the personal metric at the end and megabytes that all clients sent, of all methods of a run.

    Empty if nobody sent anything. Settings of one method that sends nothing are one if they come to the same.
    """
    found: dict[tuple[str, float], Cost] = {}
    for name, look in method_colours(methods).items():
        own, sent = summary[name]["personal"], summary[name]["bytes_sent"] / 1e6
        if own["mean"] is not None:
            called = name if sent else methods[name][0].label
            metric = methods[name][0].metric()
            mean, spread = metric.scale * own["mean"], metric.scale * (own["std_seeds"] or 0.0)
            cost = Cost(called, look, sent, mean, spread, metric.higher_is_better)
            if cost.named or (called, cost.score) not in found:
                found[called, cost.score] = cost
    return [*found.values()] if any(cost.sent for cost in found.values()) else []


def draw_costs(ax: Axes, found: Sequence[Cost]) -> None:
    """Draw methods that send something as dots over a logarithmic axis, the others as lines across."""
    ax.set_xscale("log")
    ax.set_xlim(*_limits([cost.sent for cost in found if cost.sent]))
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y")
    for cost in sorted(found, key=lambda cost: cost.merit):  # the best in front
        (colour, dashes), label = cost.look, shortened(cost.name) if cost.named else None
        if not cost.sent:
            ax.axhline(cost.score, color=colour, linewidth=1, linestyle="--", label=label, zorder=1.5)
        elif cost.named:
            ax.errorbar(
                [cost.sent], [cost.score], [cost.spread], fmt=_MARKERS[dashes], color=colour, markersize=6,
                markeredgecolor="white", markeredgewidth=0.6, elinewidth=1, label=label, zorder=3,
            )  # fmt: skip
        else:
            ax.plot([cost.sent], [cost.score], "o", color=colour, markersize=4, zorder=2)
    ax.margins(y=0.12)


def name_costs(ax: Axes, found: Sequence[Cost], size: float) -> None:
    """Write the names beside the dots and lines, in letters of that size; all else must have its place."""
    for cost in found:
        if cost.named and not cost.sent:
            ax.annotate(
                f"{shortened(cost.name)}\n(sends nothing)", (1, cost.score), (4, 0),
                ("axes fraction", "data"), textcoords="offset points", color=GREY, fontsize=size, va="center",
            )  # fmt: skip
    best_first = sorted((cost for cost in found if cost.sent), key=lambda cost: -cost.merit)
    name_points(ax, [_point(cost) for cost in best_first], size)


def _point(cost: Cost) -> NamedPoint:
    if not cost.named:
        return NamedPoint("", cost.sent, cost.score, 0.0)
    return NamedPoint(shortened(cost.name), cost.sent, cost.score, cost.spread)


def _limits(sent: Sequence[float]) -> tuple[float, float]:
    """Choose the ends of the axis, with room for names and never too narrow."""
    low, high = min(sent) / 1.5, max(sent) * 1.5
    wider = max(1.0, _NARROWEST / (high / low)) ** 0.5
    return low / wider, high * wider
