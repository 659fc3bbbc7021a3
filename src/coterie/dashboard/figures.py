"""The figures of a run for a paper: one column wide, small type, no titles, fonts embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.core.errors import RunError
from coterie.runs import Run
from coterie.runs.image import image
from coterie.runs.plot_gain import gains
from coterie.runs.plot_graph import ceiling, weights
from coterie.runs.style import (
    FAINT,
    GREY,
    HEAT,
    INK,
    OTHERS,
    STYLE,
    label_colours,
    method_colours,
    others,
    shortened,
)
from coterie.runs.summary import curve
from coterie.runs.tracks import Floats, Ints, Track, by_name
from coterie.storage.files import file_names

__all__ = ["FORMATS", "figures", "images"]

FORMATS = ("pdf", "png", "svg")
_COLUMN = 3.5
_PAPER = STYLE | {
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "figure.dpi": 300,
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.handlelength": 1.6,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,
    "svg.hashsalt": "coterie",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}
_SCORES = {
    "personal": ("personal accuracy (%)", 100.0),
    "global": ("global accuracy (%)", 100.0),
    "loss": ("training loss", 1.0),
}
_NAMED = 20


def images(run: Run) -> dict[str, bytes]:
    """Every figure in every format, by the name of its file."""
    if not run.tracks:
        raise RunError(f"{run.path} has nothing to draw yet: no evaluation has been recorded")
    with mpl.rc_context(_PAPER):
        drawn = figures(run)
        return {f"{name}.{kind}": image(figure, kind) for name, figure in drawn.items() for kind in FORMATS}


def figures(run: Run) -> dict[str, Figure]:
    """Curves, graphs, gains and labels, as far as the run has them."""
    methods = by_name(run.tracks)
    found = {f"curve-{score}": _curve(methods, score) for score in _SCORES}
    found["bytes"] = _bytes(methods)
    weighed = {n: worlds for n, worlds in methods.items() if any(w.world in run.weighed for w in worlds)}
    for file, worlds in zip(file_names(weighed), weighed.values(), strict=True):
        found[f"graph-{file}"] = _graph(run, worlds)
    if (figure := _gain(methods)) is not None:
        found["gain"] = figure
    found["labels"] = _labels(run.tracks[0])
    return found


def _curve(methods: Mapping[str, Sequence[Track]], score: str) -> Figure:
    label, scale = _SCORES[score]
    figure = Figure(figsize=(_COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    colours = method_colours(methods)
    for name, (colour, dashes) in colours.items():
        t, means = curve(methods[name], score)
        mean = scale * means.mean(axis=0)
        _line(ax, t, mean, dashes, colour, name)
        if len(means) > 1 and not others(colours):
            std = scale * means.std(axis=0, ddof=1)
            ax.fill_between(t, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)
    ax.set_xlabel("iteration")
    ax.set_ylabel(label)
    ax.set_xlim(left=0)
    ax.grid(axis="y", linewidth=0.5)
    _legend(figure, ax)
    return figure


def _line(ax: Axes, x: Floats | Ints, y: Floats, dashes: str, colour: str, name: str) -> None:
    """A line of a method; one that is not named is thin, behind the others, and not in the legend."""
    if colour == OTHERS:
        ax.plot(x, y, color=colour, linewidth=0.5, zorder=1.5)
    else:
        ax.plot(x, y, dashes, color=colour, label=shortened(name))


def _legend(figure: Figure, ax: Axes) -> None:
    """In the picture where there is room for few short names, otherwise below it, which makes it taller."""
    handles, names = ax.get_legend_handles_labels()
    longest = max(map(len, names), default=0)
    if len(names) <= 6 and longest <= 16:
        ax.legend(loc="best")
        return
    columns = 2 if longest <= 20 else 1
    figure.set_figheight(figure.get_figheight() + 0.15 * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside lower left", ncols=columns)


def _bytes(methods: Mapping[str, Sequence[Track]]) -> Figure:
    figure = Figure(figsize=(_COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    for name, (colour, dashes) in method_colours(methods).items():
        world = methods[name][0]
        _line(ax, world.t, world.bytes / 1e6, dashes, colour, name)
    ax.set_xlabel("iteration")
    ax.set_ylabel("sent by all clients (MB)")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.grid(axis="y", linewidth=0.5)
    _legend(figure, ax)
    return figure


def _graph(run: Run, worlds: Sequence[Track]) -> Figure:
    weight, group, _ = weights(worlds, run.weighed)
    order = np.argsort(group, kind="stable")
    shown = np.ma.masked_invalid(weight[np.ix_(order, order)])
    figure = Figure(figsize=(_COLUMN, 2.9), layout="constrained")
    ax = figure.subplots()
    image = ax.imshow(shown, cmap=HEAT, vmin=0, vmax=ceiling(weight), interpolation="nearest")
    for start in np.flatnonzero(np.diff(group[order])) + 0.5:
        ax.axhline(start, color=INK, linewidth=0.6)
        ax.axvline(start, color=INK, linewidth=0.6)
    ax.set_xlabel("speaking client")
    ax.set_ylabel("listening client")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=ax, fraction=0.045, pad=0.03, extend="max")
    bar.set_label("weight $w_{ij}$", parse_math=True)
    bar.outline.set_visible(False)
    return figure


def _gain(methods: Mapping[str, Sequence[Track]]) -> Figure | None:
    found = {name: g for name, worlds in methods.items() if (g := gains(worlds)) is not None}
    if not found:
        return None
    figure = Figure(figsize=(_COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    looks = method_colours(methods)
    ax.axhline(0, color=GREY, linewidth=0.8)
    for name, values in found.items():
        share = 100 * (np.arange(len(values)) + 0.5) / len(values)
        _line(ax, share, 100 * values, looks[name][1], looks[name][0], name)
    ax.set_xlabel("clients, sorted (%)")
    ax.set_ylabel("gain over Local (points)")
    ax.set_xlim(0, 100)
    ax.grid(axis="y", linewidth=0.5)
    _legend(figure, ax)
    return figure


def _labels(world: Track) -> Figure:
    order = np.argsort(world.group, kind="stable")
    counts, m = world.labels[order], len(order)
    ends = np.cumsum(counts, axis=1)
    rows = np.arange(m)
    edges = np.stack([rows - 0.5, rows + 0.5], axis=1).ravel()
    figure = Figure(figsize=(_COLUMN, 2.6), layout="constrained")
    ax = figure.subplots()
    colours = label_colours(counts.shape[1])
    for count, end, colour, name in zip(counts.T, ends.T, colours, world.classes, strict=True):
        low, high = np.repeat(end - count, 2), np.repeat(end, 2)
        shown = name if len(world.classes) <= _NAMED else None
        ax.fill_betweenx(edges, low, high, color=colour, linewidth=0, label=shown)
    if m <= 2 * _NAMED:
        ax.hlines(rows[1:] - 0.5, 0, ends[:, -1].max(), color="white", linewidth=0.8)
    ax.set_ylim(m - 0.5, -0.5)
    ax.set_xlim(0, ends[:, -1].max())
    ax.set_yticks([])
    ax.set_xlabel("training samples")
    ax.set_ylabel("client")
    ax.tick_params(axis="x", color=FAINT)
    if len(world.classes) <= _NAMED:
        figure.legend(loc="outside right center", handlelength=0.8, handleheight=0.8)
    return figure
