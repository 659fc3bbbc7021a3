"""Figure 4: accuracy against the number of peers that a star hears in one exchange.

The paper names "the number of connecting peers for each communication slot" and advises an upper limit
"even though the channel conditions are good enough to cover many neighbors at once". So every link is up,
and `exchange.cap` is the number of peers, drawn at random. Local hears nobody: its line is flat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from coterie.runs.metrics import Floats, WorldMetrics
from coterie.runs.plots.style import GREY, method_colours, title
from coterie.studies.reproduce.statistics import over_seeds

__all__ = ["fig4", "picture"]

PANELS = {
    "personal": ("Personal accuracy", "tested on the client's own label distribution", "accuracy (%)"),
    "global": ("Global accuracy", "tested on all labels equally often", "accuracy (%)"),
    "gain": ("Improvement over Local", "personal accuracy, same seed and clients", "gain (points)"),
}


def fig4(tracks: Sequence[WorldMetrics]) -> dict[str, Any]:
    """Compute each method's mean and standard deviation over seeds for every number of peers."""
    methods: dict[str, Any] = {}
    for label in dict.fromkeys(t.label for t in tracks):
        methods[label] = {"peers": sorted({t.setting["exchange.cap"] for t in tracks})}
        for score in PANELS:
            methods[label][score] = over_seeds(_values(tracks, label, score))
    return {"methods": methods}


def picture(values: Mapping[str, Any], tracks: Sequence[WorldMetrics], name: str) -> Figure:
    """Draw accuracy on both tests, and what is gained over Local, with a band over seeds."""
    seeds = len({t.seed for t in tracks})
    figure = Figure(figsize=(10.6, 4.4), layout="constrained")
    facts = f"{len(tracks[0].group)} clients, {seeds} seed{'s'[: seeds != 1]}"
    figure.suptitle(f"{name}: {facts}", x=0.012, ha="left", fontsize=12, fontweight="bold")
    looks = method_colours({t.label: [t] for t in tracks})
    lines: list[Any] = []
    for ax, (score, (text, below, unit)) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for label, method in values["methods"].items():
            colour, peers = looks[label][0], method["peers"]
            mean = 100 * np.array(method[score]["mean"])
            alone = colour == GREY
            (line,) = ax.plot(
                peers, mean, "--" if alone else "o-", color=colour, linewidth=1.6 if alone else 2,
                markersize=4.5, label=label, zorder=3,
            )  # fmt: skip
            lines += [line] if score == "personal" else []
            if method[score]["std"] is not None and not (alone and score == "gain"):
                std = 100 * np.array(method[score]["std"])
                ax.fill_between(
                    peers, mean - std, mean + std, color=colour, alpha=0.13, linewidth=0, zorder=2
                )
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(peers))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticklabels([str(k) for k in peers])
        ax.grid(axis="y")
        ax.set_xlabel("peers per exchange")
        ax.set_ylabel(unit)
        title(ax, text, below)
    band = ", band: ± one standard deviation over seeds" if seeds > 1 else ""
    figure.legend(
        handles=lines, loc="outside lower center", ncols=4, title=f"mean over seeds{band}", title_fontsize=8
    )
    return figure


def _values(tracks: Sequence[WorldMetrics], label: str, score: str) -> Floats:
    """Collect the values of a method, `[seeds, peers]`."""
    cells: dict[int, dict[int, float]] = {}
    for t in tracks:
        if t.label == label:
            cells.setdefault(t.seed, {})[t.setting["exchange.cap"]] = _value(t, score)
    return np.array([[row[k] for k in sorted(row)] for row in cells.values()])


def _value(track: WorldMetrics, score: str) -> float:
    """Compute the mean over the clients at the end; NaN if there is none."""
    if score != "gain":
        return float(track.means(score)[-1])
    gain = track.gain("personal")
    return float("nan") if gain is None or np.isnan(gain).all() else float(np.nanmean(gain))
