"""Training samples of every client, by label where there are labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from coterie.runs import wording
from coterie.runs.metrics import WorldMetrics
from coterie.runs.plots.style import GREY, group_bars, label_colours, title

__all__ = ["samples", "stacks"]

_FEW = 40
"""Most clients that get a bar and a number each; more are drawn without gaps."""
_NAMED = 16
"""Most labels that are named one by one."""


def stacks(ax: Axes, world: WorldMetrics, gaps: bool) -> list[Any]:
    """Draw one stacked bar for each client, ordered by group; the colours of the labels.

    Where targets are not one class each, a bar is of one colour.
    """
    samples = world.labels if world.task.has_classes else world.train[:, None]
    counts = samples[np.argsort(world.group, kind="stable")]
    ends, rows = np.cumsum(counts, axis=1), np.arange(len(counts))
    edges = np.stack([rows - 0.5, rows + 0.5], axis=1).ravel()
    colours = label_colours(counts.shape[1])
    for count, end, colour in zip(counts.T, ends.T, colours, strict=True):
        if gaps:
            ax.barh(rows, count, 0.82, end - count, color=colour, linewidth=0)
        else:  # one polygon for each label instead of one bar for each client: quick for thousands
            ax.fill_betweenx(edges, np.repeat(end - count, 2), np.repeat(end, 2), color=colour, linewidth=0)
    ax.set_ylim(len(counts) - 0.5, -0.5)
    ax.set_xlim(0, ends[:, -1].max())
    ax.set(xlabel="training samples", ylabel="client", yticks=[])
    return colours


def samples(ax: Axes, world: WorldMetrics) -> None:
    """Draw the samples of every client for the screen, with client numbers, groups, legend and title."""
    order = np.argsort(world.group, kind="stable")
    group, m = world.group[order], len(order)
    colours = stacks(ax, world, gaps=m <= _FEW)
    ax.set_xlim(0, ax.get_xlim()[1] * 1.02)
    named = m if m <= _FEW else 0
    ax.set_yticks(range(named), [str(world.roster.numbers[c]) for c in order[:named]], fontsize=6.5)
    ax.tick_params(axis="y", length=0, pad=2)
    ax.spines["left"].set_visible(False)
    for start in group_bars(ax, group)[1:]:
        ax.axhline(start - 0.5, color=GREY, linewidth=0.8)
    if world.classes:
        _legend(ax, world.classes, colours)
    said = ", clients ordered by group" if len(np.unique(group)) > 1 else ""
    if world.roster.sampled:
        said = f", {m:,} of {world.roster.total:,} clients"
    title(ax, "What each client has", f"{wording.samples(world.task)}{said}")


def _legend(ax: Axes, classes: tuple[str, ...], colours: list[Any]) -> None:
    shown = range(len(classes))
    if len(classes) > _NAMED:  # a few along the scale are enough to read it
        shown = np.unique(np.linspace(0, len(classes) - 1, _NAMED).round().astype(int)).tolist()
    ax.legend(
        [Rectangle((0, 0), 1, 1, color=colours[k]) for k in shown], [classes[k] for k in shown],
        title="label", loc="upper left", bbox_to_anchor=(1.08, 1.0), fontsize=7.5, title_fontsize=7.5,
        handlelength=0.9, handleheight=0.9, labelspacing=0.35,
    )  # fmt: skip
