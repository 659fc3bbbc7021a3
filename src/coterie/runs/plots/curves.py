"""The metric over time: one line for each method, a band over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from coterie.runs import wording
from coterie.runs.metrics import Floats, WorldMetrics
from coterie.runs.plots.style import SCREEN, Style, method_colours, method_line, others, shortened, title
from coterie.runs.summary import curve

__all__ = ["bands", "tested"]

# Thin and grey: in the colour of the curve it would read as a forecast.
_TIE = {
    "arrowstyle": "-", "color": "#b0b0b0", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)
}  # fmt: skip

_AWAY: dict[bool, tuple[float, Literal["bottom", "top"]]] = {True: (0.03, "bottom"), False: (0.97, "top")}
"""Height of words in a picture, where the ends of the curves are not; True: of a metric that goes up."""


class _Line(NamedTuple):
    """A named line: the metric as it is shown `[E]` over iterations `[E]`."""

    name: str
    colour: str
    t: Floats
    mean: Floats


def bands(ax: Axes, methods: Mapping[str, Sequence[WorldMetrics]], score: str, style: Style) -> list[_Line]:
    """Draw each method's mean over clients and seeds, within one standard deviation over seeds each way.

    Values are as they are shown: accuracies in percent. Of many methods the best few have names and colours,
    the others are thin grey lines behind them, all without bands, which would hide each other.
    """
    colours = method_colours(methods)
    lines = []
    for name, look in colours.items():
        t, means = curve(methods[name], score)
        scale = methods[name][0].metric(score).scale
        mean = scale * means.mean(axis=0)
        if method_line(ax, t, mean, name, look, style):
            lines.append(_Line(name, look[0], t, mean))
        if len(means) > 1 and not others(colours):
            std = scale * means.std(axis=0, ddof=1)
            ax.fill_between(t, mean - std, mean + std, color=look[0], alpha=style.band, linewidth=0, zorder=2)
    return lines


def tested(
    ax: Axes, methods: Mapping[str, Sequence[WorldMetrics]], score: str, closing: tuple[float, float]
) -> None:
    """Draw the personal or global metric for the screen, each line named at its end; `closing`: from, to."""
    start, end = closing
    task = next(iter(methods.values()))[0].task
    lines = bands(ax, methods, score, SCREEN)
    ax.set_xlim(0, end)
    if start < end:
        at, side = _AWAY[task.metric.higher_is_better]
        ax.axvspan(start, end, color="#f1f1f1", linewidth=0, zorder=0)
        ax.annotate(
            "closing phase: all learn alone", ((start + end) / 2, at), xycoords=("data", "axes fraction"),
            rotation=90, ha="center", va=side, fontsize=7.5, color="#777777",
        )  # fmt: skip
    ax.grid(axis="y")
    seeds, grey = max(map(len, methods.values()), default=0), others(method_colours(methods))
    band = f" (band: ± one standard deviation over {seeds} seeds)" if seeds > 1 and not grey else ""
    ax.set_xlabel(f"iteration{band}", loc="left")
    ax.set_ylabel(wording.axis(task.metric, after=", mean over clients"))
    title(ax, wording.title(task.metric, score), wording.tested(task, score) + grey)
    finite = [line for line in lines if len(line.t) and np.isfinite(line.mean[-1])]
    _name_ends(ax, finite, end, task.metric.digits)


def _name_ends(ax: Axes, lines: list[_Line], end: float, digits: int) -> None:
    """Write names and last values beside the ends of the lines, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    lines = sorted(lines, key=lambda line: (line.mean[-1], line.t[-1], line.name))
    gap = 0.058 * (high - low)
    right = max((float(line.t[-1]) / end for line in lines), default=1.0) + 0.035
    places = [float(line.mean[-1]) for line in lines]
    for _ in range(100):
        for k in range(len(places) - 1):
            if (short := gap - (places[k + 1] - places[k])) > 1e-9:
                places[k] -= short / 2
                places[k + 1] += short / 2
        if places:
            places[0], places[-1] = max(places[0], low), min(places[-1], high)
    for place, (name, colour, t, mean) in zip(places, lines, strict=True):
        ax.annotate(
            f"{shortened(name)}  {mean[-1]:,.{digits}f}", (t[-1] / end, mean[-1]), (right, place),
            xycoords=("axes fraction", "data"), textcoords=("axes fraction", "data"), color=colour,
            fontweight="bold", fontsize=8.5, va="center", arrowprops=_TIE,
        )  # fmt: skip
