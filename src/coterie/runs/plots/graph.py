"""The graph of who listens to whom, as a heat map ordered by the clients' true groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from coterie.runs.graph import graph, listening
from coterie.runs.groups import Grouping, mean_weights
from coterie.runs.metrics import Floats, Ints, WeightUpdate, WorldMetrics
from coterie.runs.plots.looks import ceiling
from coterie.runs.plots.style import FAINT, HEAT, INK, SCREEN, Style, group_bars, shortened, title

__all__ = ["heat_map", "listening_clients", "listening_groups", "true_groups", "weights"]

_FEW = 40
"""Most clients that can be told apart by number."""


def weights(
    worlds: Sequence[WorldMetrics], weighed: dict[int, list[WeightUpdate]]
) -> tuple[Floats, Ints, int]:
    """Average W over the seeds, or take the first if groups differ: W, the groups, the number of seeds.

    `[M, M]` with NaN for pairs that never met.
    """
    first = worlds[0]
    alike = [w for w in worlds if w.world in weighed and np.array_equal(w.group, first.group)]
    if len(alike) < len(worlds):
        alike = [next(w for w in worlds if w.world in weighed)]
    found = [graph(weighed[w.world], w.roster) for w in alike]
    met = np.sum([g.met for g in found], axis=0)
    total = np.sum([np.where(g.met, g.weight, 0.0) for g in found], axis=0)
    return np.where(met > 0, total / np.maximum(met, 1), np.nan), alike[0].group, len(alike)


def heat_map(ax: Axes, weight: Floats, group: Ints, style: Style, top: float | None = None) -> AxesImage:
    """Draw W ordered by group, with lines between the groups, colours ending at `top`.

    Pairs that never met are grey, so that they differ from those of weight 0.
    """
    order = np.argsort(group, kind="stable")
    shown = np.ma.masked_invalid(weight[np.ix_(order, order)])
    top = ceiling(weight[np.isfinite(weight)]) if top is None else top
    image = ax.imshow(shown, cmap=HEAT, vmin=0, vmax=top)
    for border in np.flatnonzero(np.diff(group[order])) + 0.5:
        ax.axvline(border, color=INK, linewidth=style.rule)
        ax.axhline(border, color=INK, linewidth=style.rule)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
    return image


def listening_clients(
    ax: Axes, name: str, auc: float | None, weight: Floats, group: Ints, seeds: int
) -> None:
    """Draw W for the screen, with client numbers, groups, title and colour bar."""
    image = heat_map(ax, weight, group, SCREEN)
    _dress(ax, group, numbers=True)
    ax.set(xlabel="speaking client", ylabel="listening client")
    over = f"mean over {seeds} seeds" if seeds > 1 else "one seed"
    title(ax, f"Who listens to whom: {shortened(name)}", ", ".join([*_found(auc), over]))
    _scale(ax, image, "how much the client in this row\nlistens to the client in this column")


def listening_groups(
    ax: Axes, name: str, auc: float | None, world: WorldMetrics, weighed: Sequence[WeightUpdate], by: Grouping
) -> None:
    """Draw the mean weight between each two groups for the screen, where clients are too many to be shown."""
    mean, count = mean_weights(by, listening(weighed, world.roster.total))
    image = heat_map(ax, np.where(count > 0, mean, np.nan), np.arange(len(mean)), SCREEN, top=mean.max())
    if len(mean) <= _FEW:
        ax.set_xticks(range(len(mean)), by.names, fontsize=6.5, rotation=90)
        ax.set_yticks(range(len(mean)), by.names, fontsize=6.5)
    ax.set(xlabel="speaking clients, all", ylabel=f"listening clients, {len(world.roster):,} of all")
    title(ax, f"Who listens to whom: {shortened(name)}", ", ".join([*_found(auc), "one seed"]))
    _scale(ax, image, "mean weight that clients of this row\ngive to those of this column")


def _found(auc: float | None) -> list[str]:
    return [] if auc is None else [f"graph AUC {auc:.2f} (1 = finds the true groups, 0.5 = chance)"]


def _scale(ax: Axes, image: AxesImage, text: str) -> None:
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, aspect=32, extend="max")
    bar.set_label(f"{text}\n(grey: they never met)", fontsize=8)
    bar.outline.set_visible(False)


def true_groups(ax: Axes, group: Ints) -> None:
    """Draw what the heat map would be if every client listened to its own group alone."""
    same = np.where(group[:, None] == group[None, :], 1.0, 0.0)
    np.fill_diagonal(same, np.nan)
    heat_map(ax, same, group, SCREEN, top=1.6)
    _dress(ax, group, numbers=False)
    title(ax, "The truth", "dark: same group")


def _dress(ax: Axes, group: Ints, numbers: bool) -> None:
    """Add client numbers, the unused diagonal, and the groups as coloured bars along the edge."""
    order, m = np.argsort(group, kind="stable"), len(group)
    named = [str(c) for c in order] if numbers and m <= _FEW else []
    ax.set_xticks(range(len(named)), named, fontsize=6.5, rotation=90 if m > 25 else 0)
    ax.set_yticks(range(len(named)), named, fontsize=6.5)
    ax.tick_params(length=0, pad=2)
    if m <= _FEW:
        for k in range(m):
            square = Rectangle((k - 0.5, k - 0.5), 1, 1, facecolor=FAINT, edgecolor="#bbbbbb", hatch="////")
            square.set_linewidth(0)
            ax.add_patch(square)
    group_bars(ax, group[order])
