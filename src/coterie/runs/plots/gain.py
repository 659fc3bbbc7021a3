"""Gains and losses by listening: each client against itself alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from coterie.core.tasks.metric import Metric
from coterie.runs.metrics import Floats, WorldMetrics
from coterie.runs.plots.style import INK, title
from coterie.runs.wording import difference

__all__ = ["dots", "gains"]


def gains(methods: Mapping[str, Sequence[WorldMetrics]]) -> dict[str, tuple[Floats, Floats]]:
    """Sort the clients of all seeds by their gain over themselves in Local, for each method that has such.

    Share of the clients in percent, from 0 to 100, and gain in the personal metric as it is shown.
    """
    found = {}
    for name, worlds in methods.items():
        known = [g[~np.isnan(g)] for w in worlds if not w.alone and (g := w.gain("personal")) is not None]
        if any(map(len, known)):
            points = worlds[0].metric().scale * np.sort(np.concatenate(known))
            found[name] = 100 * (np.arange(len(points)) + 0.5) / len(points), points
    return found


def dots(
    ax: Axes, name: str, colour: str, share: Floats, points: Floats, surely: float | None, metric: Metric
) -> None:
    """Draw one dot for each client and seed, from the greatest loss to the greatest gain.

    `surely`: the share of clients that surely lose, where that is known.
    """
    size = float(np.clip(1500 / len(points), 3, 26))
    lost = points < 0
    ax.axhline(0, color=INK, linewidth=1)
    ax.vlines(share, 0, points, color=colour, alpha=0.2, linewidth=0.8)
    ax.scatter(
        share, points, size, np.where(lost, "white", colour), edgecolor=colour, linewidth=0.9, zorder=3
    )
    ax.grid(axis="y")
    ax.set_xlim(-1, 101)
    ax.set_xlabel("clients of all seeds, sorted (%)")
    text = f"{(points > 0).mean():.0%} gain, {lost.mean():.0%} lose"
    text += "" if surely is None else f" ({surely:.0%} surely)"
    title(ax, name, f"{text}; mean {difference(metric, points.mean() / metric.scale)}", colour)
