"""Figure 3: how accuracy and training loss go over the iterations, with the switch of FedAvg+."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from coterie.experiment import Experiment
from coterie.runs.metrics import WorldMetrics, by_name, closing_phase
from coterie.runs.plots.curves import tested
from coterie.runs.plots.style import INK, method_colours, title
from coterie.runs.summary import curve
from coterie.studies.reproduce.statistics import over_seeds

__all__ = ["fig3", "picture"]


def fig3(tracks: Sequence[WorldMetrics], experiment: Experiment) -> dict[str, Any]:
    """Compute each method's curves, mean and standard deviation over seeds, and where phases begin."""
    methods: dict[str, Any] = {}
    for name, worlds in by_name(tracks).items():
        methods[name] = {"t": curve(worlds, "personal")[0].tolist()}
        for score in ("personal", "global", "loss"):
            methods[name][score] = over_seeds(curve(worlds, score)[1])
    start, end = closing_phase(tracks, experiment.plain())
    return {"switch": _switch(experiment), "closing": start, "iterations": end, "methods": methods}


def picture(parts: Mapping[str, tuple[Sequence[WorldMetrics], Experiment]]) -> Figure:
    """Draw one row for each data set."""
    figure = Figure(figsize=(10.4, 4.5 * len(parts)), layout="constrained")
    rows = figure.subfigures(len(parts), 1, squeeze=False, hspace=0.05)[:, 0]
    for row, (name, (tracks, experiment)) in zip(rows, parts.items(), strict=True):
        methods = by_name(tracks)
        seeds = len({t.seed for t in tracks})
        facts = f"{experiment.data.clients} clients, {seeds} seed{'s'[: seeds != 1]}"
        row.suptitle(f"{name}: {facts}", x=0.012, ha="left", fontsize=12, fontweight="bold")
        left, right = row.subplots(1, 2)
        left.set_ylim(*_range(methods))
        closing = closing_phase(tracks, experiment.plain())
        tested(left, methods, "personal", closing)
        _losses(right, methods, closing)
        _mark_switch(left, _switch(experiment), experiment.train.iterations, "bottom")
        _mark_switch(right, _switch(experiment), experiment.train.iterations, "top")
    return figure


def _losses(ax: Axes, methods: Mapping[str, Sequence[WorldMetrics]], closing: tuple[int, int]) -> None:
    start, end = closing
    ax.axvspan(start, end, color="#f1f1f1", linewidth=0, zorder=0)
    for name, (colour, dashes) in method_colours(methods).items():
        t, values = curve(methods[name], "loss")
        there = np.isfinite(values).all(axis=0)  # not where nobody has learned since the evaluation before
        t, values = t[there], values[:, there]
        mean = values.mean(axis=0)
        ax.plot(t, mean, dashes, color=colour, linewidth=2, label=name, zorder=3)
        if len(values) > 1:
            std = values.std(axis=0, ddof=1)
            low = np.maximum(mean - std, mean / 10)  # a band that reaches 0 has no end on this scale
            ax.fill_between(t, low, mean + std, color=colour, alpha=0.16, linewidth=0, zorder=2)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xlim(0, end)
    ax.grid(axis="y")
    ax.set_xlabel("iteration")
    ax.set_ylabel("cross-entropy, mean over clients")
    ax.legend(loc="upper right", fontsize=8.5)
    title(ax, "Training loss", "on the mini-batches of the clients, logarithmic")


def _range(methods: Mapping[str, Sequence[WorldMetrics]]) -> tuple[float, float]:
    """Find the percents in which the curves lie after their first rise, the first tenth of the iterations."""
    means = []
    for worlds in methods.values():
        t, values = curve(worlds, "personal")
        means.append(100 * values[:, t >= t[-1] / 10].mean(axis=0))
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    room = max(0.15 * (high - low), 1.0)
    return max(low - 2 * room, 0.0), min(high + room, 100.0)


def _mark_switch(ax: Axes, switch: int | None, end: int, side: Literal["bottom", "top"]) -> None:
    if switch is not None and switch < end:
        ax.axvline(switch, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            "FedAvg+ switches to Reptile", (switch, 0.03 if side == "bottom" else 0.97), (-4, 0),
            ("data", "axes fraction"), textcoords="offset points", rotation=90, ha="right", va=side,
            fontsize=7.5, color="#555555",
            bbox={"facecolor": "white", "alpha": 0.8, "pad": 0.5, "linewidth": 0},
        )  # fmt: skip


def _switch(experiment: Experiment) -> int | None:
    return next((m.options["switch"] for m in experiment.methods.values() if "switch" in m.options), None)
