"""The figures of a run for a paper: one column wide, small type, no titles, fonts embedded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from coterie.core.errors import RunError
from coterie.runs import Run
from coterie.runs.metrics import WorldMetrics, by_name
from coterie.runs.plots.cost import Cost, costs, draw_costs
from coterie.runs.plots.curves import bands
from coterie.runs.plots.gain import gains
from coterie.runs.plots.graph import heat_map, weights
from coterie.runs.plots.labels import stacks
from coterie.runs.plots.style import FAINT, GREY, PAPER, image, method_colours, method_line
from coterie.runs.wording import axis, gain_axis
from coterie.storage.files import file_names

__all__ = ["FORMATS", "figures", "images"]

FORMATS = ("pdf", "png", "svg")
_COLUMN = 3.5
"""Inches."""
_SCORES = ("personal", "global", "loss")
_NAMED = 20
"""Most labels that are named, and half the most clients that are told apart by white lines."""

Methods = Mapping[str, Sequence[WorldMetrics]]


def images(run: Run) -> dict[str, bytes]:
    """Draw every figure in every format, by the name of its file."""
    if not run.tracks:
        raise RunError(f"{run.path} has nothing to draw yet: no evaluation has been recorded")
    with mpl.rc_context(PAPER.rc):
        drawn = figures(run)
        return {f"{name}.{kind}": image(figure, kind) for name, figure in drawn.items() for kind in FORMATS}


def figures(run: Run) -> dict[str, Figure]:
    """Draw curves, bytes, graphs, gains and labels, as far as the run has them."""
    methods = by_name(run.tracks)
    found = {f"curve-{score}": _curve(methods, score) for score in _SCORES}
    found["bytes"] = _lines(lambda ax: _bytes(ax, methods), "iteration", "sent by all clients (MB)")
    if price := costs(methods, run.summary()["methods"]):
        found["cost"] = _cost(price, _axis(methods, "personal"))
    weighed = {n: worlds for n, worlds in methods.items() if any(w.world in run.weighed for w in worlds)}
    for file, worlds in zip(file_names(weighed), weighed.values(), strict=True):
        found[f"graph-{file}"] = _graph(run, worlds)
    if gains(methods):
        label = f"gain over Local ({gain_axis(run.task.metric)})"
        found["gain"] = _lines(lambda ax: _gain(ax, methods), "clients, sorted (%)", label, 100)
    found["labels"] = _labels(run.tracks[0])
    return found


def _lines(draw: Callable[[Axes], object], x: str, y: str, right: float | None = None) -> Figure:
    """Draw lines of methods over an axis from 0 to `right`, with a legend."""
    figure = Figure(figsize=(_COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    draw(ax)
    ax.set(xlabel=x, ylabel=y)
    ax.set_xlim(0, right)
    ax.grid(axis="y")
    _legend(figure, ax)
    return figure


def _legend(figure: Figure, ax: Axes) -> None:
    """Place the legend in the picture if few short names fit, otherwise below, which makes it taller."""
    handles, names = ax.get_legend_handles_labels()
    longest = max(map(len, names), default=0)
    if len(names) <= 6 and longest <= 16:
        ax.legend(loc="best")
        return
    columns = 2 if longest <= 20 else 1
    figure.set_figheight(figure.get_figheight() + 0.15 * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside lower left", ncols=columns)


def _axis(methods: Methods, score: str) -> str:
    world = next(iter(methods.values()))[0]
    return world.metric(score).title if score == "loss" else axis(world.metric(score), score)


def _curve(methods: Methods, score: str) -> Figure:
    return _lines(lambda ax: bands(ax, methods, score, PAPER), "iteration", _axis(methods, score))


def _bytes(ax: Axes, methods: Methods) -> None:
    for name, look in method_colours(methods).items():
        world = methods[name][0]
        method_line(ax, world.t, world.bytes / 1e6, name, look, PAPER)
    ax.set_ylim(bottom=0)


def _cost(found: Sequence[Cost], label: str) -> Figure:
    figure = Figure(figsize=(_COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    draw_costs(ax, found)
    ax.set(xlabel="sent by all clients (MB)", ylabel=label)
    _legend(figure, ax)
    return figure


def _gain(ax: Axes, methods: Methods) -> None:
    ax.axhline(0, color=GREY, linewidth=0.8)
    colours = method_colours(methods)
    for name, (share, points) in gains(methods).items():
        method_line(ax, share, points, name, colours[name], PAPER)


def _graph(run: Run, worlds: Sequence[WorldMetrics]) -> Figure:
    weight, group, _ = weights(worlds, run.weighed)
    figure = Figure(figsize=(_COLUMN, 2.9), layout="constrained")
    ax = figure.subplots()
    shown = heat_map(ax, weight, group, PAPER)
    ax.set(xlabel="speaking client", ylabel="listening client")
    bar = figure.colorbar(shown, ax=ax, fraction=0.045, pad=0.03, extend="max")
    bar.set_label("weight $w_{ij}$", parse_math=True)
    bar.outline.set_visible(False)
    return figure


def _labels(world: WorldMetrics) -> Figure:
    figure = Figure(figsize=(_COLUMN, 2.6), layout="constrained")
    ax = figure.subplots()
    colours, m = stacks(ax, world, gaps=False), len(world.labels)
    if m <= 2 * _NAMED:
        ax.hlines(np.arange(1, m) - 0.5, *ax.get_xlim(), color="white", linewidth=0.8)
    ax.tick_params(axis="x", color=FAINT)
    if 0 < len(world.classes) <= _NAMED:
        handles = [Rectangle((0, 0), 1, 1, color=colour, linewidth=0) for colour in colours]
        figure.legend(handles, world.classes, loc="outside right center", handlelength=0.8, handleheight=0.8)
    return figure
