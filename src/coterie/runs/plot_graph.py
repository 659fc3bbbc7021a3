"""Who listens to whom, as a heat map ordered by the clients' true groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from coterie.runs.graph import graph
from coterie.runs.style import FAINT, HEAT, INK, group_bars, shortened, title
from coterie.runs.tracks import Floats, Ints, Track, Weighed

__all__ = ["ceiling", "colour_bar", "heat_map", "true_groups", "weights"]

_FEW = 40
"""So many clients can be told apart by number."""


def weights(worlds: Sequence[Track], weighed: dict[int, list[Weighed]]) -> tuple[Floats, Ints, int]:
    """W with NaN for pairs that never met, the groups, and the number of seeds that W is the mean of.

    That is all of them, or only the first if groups differ.
    """
    first = worlds[0]
    alike = [w for w in worlds if w.world in weighed and np.array_equal(w.group, first.group)]
    if len(alike) < len(worlds):
        alike = [next(w for w in worlds if w.world in weighed)]
    found = [graph(weighed[w.world], len(w.group)) for w in alike]
    met = np.sum([g.met for g in found], axis=0)
    total = np.sum([np.where(g.met, g.weight, 0.0) for g in found], axis=0)
    return np.where(met > 0, total / np.maximum(met, 1), np.nan), alike[0].group, len(alike)


def ceiling(weight: Floats) -> float:
    """Weight at which the colours end: only a twentieth of those of pairs that met is larger."""
    known = weight[np.isfinite(weight)]
    return (float(np.quantile(known, 0.95)) or float(known.max()) if len(known) else 0.0) or 1.0


def heat_map(ax: Axes, weight: Floats, group: Ints, name: str, auc: float | None, seeds: int) -> AxesImage:
    """W itself; pairs that never met are grey, so that they differ from those of weight 0."""
    order = np.argsort(group, kind="stable")
    shown = np.ma.masked_invalid(weight[np.ix_(order, order)])
    image = ax.imshow(shown, cmap=HEAT, vmin=0, vmax=ceiling(weight))
    _frame(ax, group[order], order, numbers=True)
    ax.set_xlabel("speaking client")
    ax.set_ylabel("listening client")
    found = [] if auc is None else [f"graph AUC {auc:.2f} (1 = finds the true groups, 0.5 = chance)"]
    over = f"mean over {seeds} seeds" if seeds > 1 else "one seed"
    title(ax, f"Who listens to whom: {shortened(name)}", ", ".join([*found, over]))
    return image


def colour_bar(image: AxesImage, ax: Axes) -> None:
    """Beside the heat map, with the label in plain words."""
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, aspect=32, extend="max")
    bar.set_label(
        "how much the client in this row\nlistens to the client in this column\n(grey: they never met)",
        fontsize=8,
    )
    bar.outline.set_visible(False)


def true_groups(ax: Axes, group: Ints) -> None:
    """What the heat map would be if every client listened to its own group alone."""
    order = np.argsort(group, kind="stable")
    same = (group[order][:, None] == group[order][None, :]).astype(float)
    np.fill_diagonal(same, np.nan)
    ax.imshow(np.ma.masked_invalid(same), cmap=HEAT, vmin=0, vmax=1.6)
    _frame(ax, group[order], order, numbers=False)
    title(ax, "The truth", "dark: same group")


def _frame(ax: Axes, group: Ints, order: Ints, numbers: bool) -> None:
    """Client numbers, the unused diagonal, and the groups as lines and coloured bars along the edges."""
    m = len(group)
    ax.set_xlim(-0.5, m - 0.5)
    ax.set_ylim(m - 0.5, -0.5)
    for spine in ax.spines.values():
        spine.set_visible(False)
    named = [str(c) for c in order] if numbers and m <= _FEW else []
    ax.set_xticks(range(len(named)), named, fontsize=6.5, rotation=90 if m > 25 else 0)
    ax.set_yticks(range(len(named)), named, fontsize=6.5)
    ax.tick_params(length=0, pad=2)
    if m <= _FEW:
        for k in range(m):
            square = Rectangle((k - 0.5, k - 0.5), 1, 1, facecolor=FAINT, edgecolor="#bbbbbb", hatch="////")
            square.set_linewidth(0)
            ax.add_patch(square)
    for start in group_bars(ax, group)[1:]:
        ax.axvline(start - 0.5, color=INK, linewidth=0.8)
        ax.axhline(start - 0.5, color=INK, linewidth=0.8)
