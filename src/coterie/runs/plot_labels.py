"""What every client has: training samples by label."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from coterie.runs.style import GREY, group_bars, label_colours, title
from coterie.runs.tracks import Track

__all__ = ["labels"]

_FEW = 40
"""So many clients get a bar and a number each; more are drawn without gaps."""
_NAMED = 16
"""So many labels are named one by one."""


def labels(ax: Axes, world: Track) -> None:
    """One stacked bar for each client, ordered by group."""
    order = np.argsort(world.group, kind="stable")
    counts, group, m = world.labels[order], world.group[order], len(order)
    ends = np.cumsum(counts, axis=1)
    colours = label_colours(counts.shape[1])
    rows = np.arange(m)
    edges = np.stack([rows - 0.5, rows + 0.5], axis=1).ravel()
    for count, end, colour in zip(counts.T, ends.T, colours, strict=True):
        if m <= _FEW:
            ax.barh(rows, count, 0.82, end - count, color=colour, linewidth=0)
        else:  # one polygon for each label instead of one bar for each client: quick for thousands
            ax.fill_betweenx(edges, np.repeat(end - count, 2), np.repeat(end, 2), color=colour, linewidth=0)
    ax.set_ylim(m - 0.5, -0.5)
    ax.set_xlim(0, ends[:, -1].max() * 1.02)
    ax.set_xlabel("training samples")
    ax.set_ylabel("client")
    named = m if m <= _FEW else 0
    ax.set_yticks(rows[:named], [str(c) for c in order[:named]], fontsize=6.5)
    ax.tick_params(axis="y", length=0, pad=2)
    ax.spines["left"].set_visible(False)
    for start in group_bars(ax, group)[1:]:
        ax.axhline(start - 0.5, color=GREY, linewidth=0.8)
    _legend(ax, world.classes, colours)
    ordered = ", clients ordered by group" if len(np.unique(group)) > 1 else ""
    title(ax, "What each client has", f"training samples by label{ordered}")


def _legend(ax: Axes, classes: tuple[str, ...], colours: list[Any]) -> None:
    shown = range(len(classes))
    if len(classes) > _NAMED:  # a few along the scale are enough to read it
        shown = np.unique(np.linspace(0, len(classes) - 1, _NAMED).round().astype(int)).tolist()
    handles = [Rectangle((0, 0), 1, 1, color=colours[k]) for k in shown]
    ax.legend(
        handles,
        [classes[k] for k in shown],
        title="label",
        loc="upper left",
        bbox_to_anchor=(1.08, 1.0),
        fontsize=7.5,
        title_fontsize=7.5,
        handlelength=0.9,
        handleheight=0.9,
        labelspacing=0.35,
    )
