"""Accuracy over time, one line for each method, a band over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from coterie.runs.style import GREY, OTHERS, method_colours, others, shortened, title
from coterie.runs.summary import curve
from coterie.runs.tracks import Track

__all__ = ["TITLES", "curves"]

TITLES = {
    "personal": ("Personal accuracy", "tested on the client's own label distribution"),
    "global": ("Global accuracy", "tested on all labels equally often"),
}


class _End(NamedTuple):
    """Where a line ends."""

    y: float
    x: float
    """As a share of the axis: less than one while the run is going on."""
    name: str
    colour: str


def curves(
    ax: Axes, methods: Mapping[str, Sequence[Track]], score: str, closing: tuple[float, float]
) -> None:
    """Mean over clients and seeds in percent; the band is one standard deviation over seeds each way.

    Of many methods the best few have names and colours, the others are thin grey lines behind them.
    """
    start, end = closing
    ends: list[_End] = []
    colours = method_colours(methods)
    seeds = max((len(worlds) for worlds in methods.values()), default=0)
    banded = seeds > 1 and not others(colours)  # the bands of many methods would hide each other
    for name, (colour, dashes) in colours.items():
        t, means = curve(methods[name], score)
        mean = 100 * means.mean(axis=0)
        if colour == OTHERS:
            ax.plot(t, mean, color=colour, linewidth=0.8, zorder=1.5)
            continue
        wide = 2.0 if colour != GREY else 1.6
        ax.plot(t, mean, dashes, color=colour, linewidth=wide, label=name, solid_capstyle="round", zorder=3)
        if banded and len(means) > 1:
            std = 100 * means.std(axis=0, ddof=1)
            ax.fill_between(t, mean - std, mean + std, color=colour, alpha=0.16, linewidth=0, zorder=2)
        if len(mean) and np.isfinite(mean[-1]):
            ends.append(_End(float(mean[-1]), float(t[-1]) / end, name, colour))
    ax.set_xlim(0, end)
    if start < end:
        ax.axvspan(start, end, color="#f1f1f1", linewidth=0, zorder=0)
        ax.annotate(
            "closing phase: all learn alone",
            ((start + end) / 2, 0.03),
            xycoords=("data", "axes fraction"),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color="#777777",
        )
    ax.grid(axis="y")
    band = f" (band: ± one standard deviation over {seeds} seeds)" if banded else ""
    ax.set_xlabel(f"iteration{band}", loc="left")
    ax.set_ylabel("accuracy, mean over clients (%)")
    text, below = TITLES[score]
    title(ax, text, below + others(colours))
    _name_ends(ax, ends)


def _name_ends(ax: Axes, ends: list[_End]) -> None:
    """Names and last values beside the ends of the lines, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    ends = sorted(ends)
    gap = 0.058 * (high - low)
    right = max((end.x for end in ends), default=1.0) + 0.035
    places = [end.y for end in ends]
    for _ in range(100):
        for k in range(len(places) - 1):
            if (short := gap - (places[k + 1] - places[k])) > 1e-9:
                places[k] -= short / 2
                places[k + 1] += short / 2
        if places:
            places[0], places[-1] = max(places[0], low), min(places[-1], high)
    for place, (y, x, name, colour) in zip(places, ends, strict=True):
        ax.annotate(
            f"{shortened(name)}  {y:.1f}",
            (x, y),
            (right, place),
            xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"),
            color=colour,
            fontweight="bold",
            fontsize=8.5,
            va="center",
            # Thin and grey: in the colour of the curve it would read as a forecast.
            arrowprops={
                "arrowstyle": "-",
                "color": "#b0b0b0",
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
