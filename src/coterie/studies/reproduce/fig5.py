"""Figure 5: the collaboration matrix under different values of mu1 and mu2.

Shown is how a client divides its attention, w_ij / Σ_j w_ij, which is what its model is mixed with; a
client whose weights are all 0 listens to nobody and keeps its own model. Clients stand in the order of a
clustering of their label proportions, so that those with like data are neighbours. The label AUC is the
probability that a pair with the same main label has more weight than a pair with two, among those that met.

With the step 1 / ‖∇h‖₂ only the ratio mu1 / mu2 matters, for scaling both scales the gradient alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from coterie.runs import Run
from coterie.runs.graph import auc, graph
from coterie.runs.metrics import Floats, Ints, WorldMetrics
from coterie.runs.plots.style import GREY, HEAT, label_colours
from coterie.studies.reproduce.settings import METHOD

__all__ = ["fig5", "picture"]

NOBODY = "#f6dcc4"
MU1, MU2 = f"methods.{METHOD}.mu1", f"methods.{METHOD}.mu2"


def fig5(run: Run) -> dict[str, Any]:
    """Collect for every mu1 and mu2 the weights of the first seed, and means over all seeds."""
    panels: dict[tuple[float, float], dict[str, Any]] = {}
    first = run.tracks[0]
    for track in run.tracks:
        found = graph(run.weighed.get(track.world, ()), track.roster)
        main = track.labels.argmax(axis=1)
        alike = main[:, None] == main[None, :]
        key = track.setting[MU1], track.setting[MU2]
        panel = panels.setdefault(key, {"personal": [], "silent": [], "auc": []})
        if track.seed == first.seed:
            panel["weight"] = found.weight.tolist()
        panel["personal"].append(float(track.means("personal")[-1]))
        panel["silent"].append(float((found.weight.sum(axis=1) == 0).mean()))
        panel["auc"].append(auc(found.weight[found.met & alike], found.weight[found.met & ~alike]))
    for panel in panels.values():
        for fact in ("personal", "silent", "auc"):
            there = [v for v in panel[fact] if v is not None and not np.isnan(v)]
            panel[fact] = float(np.mean(there)) if there else None
    return {
        "seed": first.seed,
        "order": _order(first).tolist(),
        "main_label": [first.classes[k] for k in first.labels.argmax(axis=1)],
        "panels": [{"mu1": a, "mu2": b, **panel} for (a, b), panel in panels.items()],
    }


def picture(values: Mapping[str, Any], first: WorldMetrics, name: str, seeds: int) -> Figure:
    """Draw a panel for each pair: mu1 grows downwards, mu2 to the right; one scale of colours for all."""
    order = np.array(values["order"])
    rows, columns = (sorted({p[key] for p in values["panels"]}) for key in ("mu1", "mu2"))
    shown = {(p["mu1"], p["mu2"]): _attention(np.array(p["weight"]), order) for p in values["panels"]}
    off = ~np.eye(len(order), dtype=bool)
    every = np.concatenate([s[off] for s in shown.values()])
    there = every[~np.isnan(every)]
    top = float(np.quantile(there, 0.98)) if len(there) else 1.0
    size = 2.35
    figure = Figure(figsize=(size * len(columns) + 1.2, (size + 0.3) * len(rows) + 1.7), layout="constrained")
    over = f"; numbers are means over {seeds} seeds" if seeds > 1 else ""
    figure.suptitle(
        f"Who listens to whom under μ₁ and μ₂\n{name}, {len(order)} clients, seed {values['seed']}{over}",
        x=0.012, ha="left", fontsize=11.5, fontweight="bold",
    )  # fmt: skip
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    main = first.labels.argmax(axis=1)
    used = sorted(set(main.tolist()))
    colours = label_colours(len(first.classes))
    image: Any = None
    for (a, b), panel in {(p["mu1"], p["mu2"]): p for p in values["panels"]}.items():
        ax = axes[rows.index(a), columns.index(b)]
        image = ax.imshow(np.ma.masked_invalid(shown[a, b]), cmap=HEAT, vmin=0, vmax=top)
        _edges(ax, [colours[k] for k in main[order]])
        for row in np.flatnonzero(np.isnan(shown[a, b]).all(axis=1)):
            ax.add_patch(Rectangle((-0.5, row - 0.5), len(order), 1, color=NOBODY, linewidth=0))
        ax.set_title(f"μ₁ = {a:g}, μ₂ = {b:g}", loc="left", fontsize=9, fontweight="bold", pad=22)
        ax.annotate(
            _facts(panel), (0, 1), (0, 12), "axes fraction", textcoords="offset points", fontsize=7,
            color="#555555",
        )  # fmt: skip
    bar = figure.colorbar(image, ax=axes, fraction=0.025, pad=0.02, aspect=40, extend="max")
    bar.set_label(
        "share of its attention that the client in this row\ngives to the client in this column", fontsize=8
    )
    bar.outline.set_visible(False)
    handles = [Patch(color=colours[k], label=first.classes[k]) for k in used]
    handles.append(Patch(color=NOBODY, label="listens to nobody"))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(handles), 6), fontsize=7.5,
        title=(
            "edges: the label a client has most of; clients are ordered by their labels\n"
            "label AUC: how well the weights find those with the same main label (0.5 = chance)"
        ),
        title_fontsize=8,
    )  # fmt: skip
    return figure


def _facts(panel: Mapping[str, Any]) -> str:
    accuracy, alike = panel["personal"], panel["auc"]
    parts = [] if accuracy is None else [f"{100 * accuracy:.1f} % accuracy"]
    return ", ".join(parts if alike is None else [*parts, f"label AUC {alike:.2f}"])


def _attention(weight: Floats, order: Ints) -> Floats:
    """Compute w_ij / Σ_j w_ij, NaN where a client listens to nobody and on the diagonal."""
    total = weight.sum(axis=1, keepdims=True)
    share = np.where(total > 0, weight / np.where(total > 0, total, 1), np.nan)
    np.fill_diagonal(share, np.nan)
    return share[np.ix_(order, order)]


def _order(track: WorldMetrics) -> Ints:
    """Order clients so that those with like label proportions are beside each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    share = track.labels / np.maximum(track.labels.sum(axis=1, keepdims=True), 1)
    tree = linkage(share, "average", metric="cityblock", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.int64)


def _edges(ax: Axes, colours: Sequence[Any]) -> None:
    """Draw the main label of every client along the left and upper edge."""
    m = len(colours)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_color(GREY)
        spine.set_linewidth(0.5)
    thick = 0.035 * m
    for k, colour in enumerate(colours):
        for corner, wide, high in (
            ((-0.5 - 1.3 * thick, k - 0.5), thick, 1),
            ((k - 0.5, -0.5 - 1.3 * thick), 1, thick),
        ):
            ax.add_patch(Rectangle(corner, wide, high, color=colour, linewidth=0, clip_on=False))
