"""Mean ranks of methods on one axis, the best at the left; bars join those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.runs.plots.looks import hue
from coterie.runs.plots.style import GREY, INK, METHODS, STYLE, shortened

__all__ = ["critical_difference_diagram"]

_LINE, _BAR = 0.24, 0.14
"""Inches between two names, and between two bars."""
_WIDTH = 7.8


def critical_difference_diagram(
    mean_rank: Mapping[str, float], cliques: Sequence[Sequence[str]], difference: float, below: str
) -> Figure:
    """Draw methods, the best first, at their mean ranks; `below` says how to read it."""
    half = -(-len(mean_rank) // 2)
    bars = 0.25 + _BAR * len(cliques)
    height = 1.1 + bars + _LINE * half
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, height))
        ax = figure.add_axes((0.22, 0, 0.56, 1))
        ax.set_xlim(1 - 0.1, len(mean_rank) + 0.1)
        ax.set_ylim(height, 0)  # inches from the top
        ax.axis("off")
        _scale(ax, len(mean_rank), difference)
        for number, (name, rank) in enumerate(mean_rank.items()):
            left = number < half
            line = number if left else len(mean_rank) - 1 - number
            _name(ax, name, rank, 0.75 + bars + _LINE * line, left)
        for number, clique in enumerate(cliques):
            ends = [mean_rank[clique[0]], mean_rank[clique[-1]]]
            at = 0.75 + 0.15 + _BAR * number
            ax.plot(
                [ends[0] - 0.05, ends[1] + 0.05], [at, at], color=INK, linewidth=3, solid_capstyle="round"
            )
        figure.text(0.02, 0.12 / height, below, fontsize=8, color="#555555")
    return figure


def _scale(ax: Axes, methods: int, difference: float) -> None:
    """Draw the axis of ranks, and above it how long the critical difference is."""
    ax.plot([1, methods], [0.75, 0.75], color=INK, linewidth=1)
    step = max(1, -(-methods // 12))
    for rank in range(1, methods + 1, step):
        ax.plot([rank, rank], [0.69, 0.75], color=INK, linewidth=1)
        ax.text(rank, 0.65, str(rank), ha="center", va="bottom", fontsize=8)
    end = min(1.0 + difference, float(methods))
    ax.plot([1, end], [0.3, 0.3], color=INK, linewidth=1.5)
    for at in (1.0, end) if 1 + difference <= methods else (1.0,):
        ax.plot([at, at], [0.26, 0.34], color=INK, linewidth=1.5)
    ax.text(
        (1 + end) / 2, 0.22, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8
    )


def _name(ax: Axes, name: str, rank: float, at: float, left: bool) -> None:
    """Write a method beside the axis, joined to its rank by a line."""
    colour = GREY if name == "Local" else METHODS[hue(name)]
    low, high = ax.get_xlim()
    edge = low if left else high
    ax.plot([rank, rank, edge], [0.75, at, at], color=colour, linewidth=1, clip_on=False)
    ax.plot([rank], [0.75], "o", color=colour, markersize=4)
    text = f"{shortened(name)}  {rank:.1f}" if left else f"{rank:.1f}  {shortened(name)}"
    shift = (-4, 0) if left else (4, 0)
    ax.annotate(
        text,
        (edge, at),
        shift,
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        color=INK,
    )
