"""The pictures of a run for the screen.

curves.png      the metric over time
graph-NAME.png  who listens to whom, for each method with weights
labels.png      what each client has
gain.png        each client against itself alone
cost.png        the metric against bytes, if anything was sent
overview.png    the first three in one
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coterie.core.errors import RunError, UnknownNameError
from coterie.runs import wording
from coterie.runs.groups import grouping
from coterie.runs.metrics import WorldMetrics, by_name, closing_phase
from coterie.runs.plots.cost import costs, draw_costs, name_costs
from coterie.runs.plots.curves import tested
from coterie.runs.plots.gain import dots, gains
from coterie.runs.plots.graph import listening_clients, listening_groups, true_groups, weights
from coterie.runs.plots.labels import samples
from coterie.runs.plots.style import OTHERS, SCREEN, image, method_colours, others, shortened, title
from coterie.storage.files import file_names, publish

if TYPE_CHECKING:
    from coterie.runs.run import Run

__all__ = ["Pictures", "draw", "figure"]

_NAMES = ("overview", "curves", "labels", "gain", "cost", "graph")


def draw(run: Run, folder: Path) -> list[Path]:
    """Draw what the run has data for into files of `folder`."""
    if not run.tracks:
        raise RunError(f"{run.path} has nothing to draw yet: no evaluation has been recorded")
    with mpl.rc_context(SCREEN.rc):
        files = {folder / f"{name}.png": image(figure) for name, figure in Pictures(run).all().items()}
    publish(files, own=run.path / "plots")
    return list(files)


def figure(run: Run, name: str, method: str | None = None) -> Figure:
    """Draw one picture, to be shown or changed; `method`: whose graph, if several methods have one."""
    if name not in _NAMES:
        raise UnknownNameError("picture", name, _NAMES)
    if not run.tracks:
        raise RunError(f"{run.path} has nothing to draw yet: no evaluation has been recorded")
    with mpl.rc_context(SCREEN.rc):
        pictures = Pictures(run)
        if name == "graph":
            if method is None and len(pictures.graphs) == 1:
                method = pictures.graphs[0]
            if method not in pictures.graphs:
                raise UnknownNameError("method with a graph", method or "", pictures.graphs)
            found = pictures.graph(method)
        else:
            found = getattr(pictures, name)()
        if found is None:
            raise RunError(f"{run.path} has no numbers for the picture {name!r}")
        # A notebook shows it without pyplot, which keeps every figure.
        setattr(found, "_repr_png_", partial(image, found))  # noqa: B010 - matplotlib knows no such name
    drawn: Figure = found
    return drawn


class Pictures:
    """The figures of one run, each drawn when asked for."""

    def __init__(self, run: Run) -> None:
        self.weighed = run.weighed
        self.methods = by_name(run.tracks)
        self.summary = run.summary()
        self.name = run.config["name"]
        self.first: WorldMetrics = run.tracks[0]
        self.metric = self.first.metric()
        self.closing = closing_phase(run.tracks, run.config)
        self.sampled = self.first.roster.sampled
        self.grouping = grouping(self.first)
        self.graphs = [
            name
            for name, worlds in self.methods.items()
            if any(w.world in self.weighed for w in worlds) and (not self.sampled or self.grouping)
        ]

    def auc(self, name: str) -> float | None:
        found: float | None = self.summary["methods"][name]["graph_auc"]
        return found

    def all(self) -> dict[str, Figure]:
        pictures = {"overview": self.overview(), "curves": self.curves(), "labels": self.labels()}
        for name, file in zip(self.graphs, file_names(self.graphs), strict=True):
            pictures[f"graph-{file}"] = self.graph(name)
        if (picture := self.gain()) is not None:
            pictures["gain"] = picture
        if (picture := self.cost()) is not None:
            pictures["cost"] = picture
        return pictures

    def curves(self) -> Figure:
        figure = Figure(figsize=(10.4, 4.2), layout="constrained")
        for ax, score in zip(figure.subplots(1, 2), ("personal", "global"), strict=True):
            tested(ax, self.methods, score, self.closing)
        return figure

    def graph(self, name: str) -> Figure:
        if self.sampled:
            figure = Figure(figsize=(8, 6), layout="constrained")
            self._listening(figure.subplots(), name)
            return figure
        weight, group, seeds = weights(self.methods[name], self.weighed)
        if len(set(group.tolist())) == 1:
            figure = Figure(figsize=(8, 6), layout="constrained")
            ax = figure.subplots()
        else:
            figure = Figure(figsize=(9.6, 5.6), layout="constrained")
            ax, truth = figure.subplots(1, 2, width_ratios=(1, 0.36))
            true_groups(truth, group)
            truth.set_anchor("N")
        listening_clients(ax, name, self.auc(name), weight, group, seeds)
        return figure

    def _listening(self, ax: Axes, name: str) -> None:
        """Draw who listens to whom, by groups where only a sample of the clients is recorded."""
        if self.sampled and self.grouping:
            world = next(w for w in self.methods[name] if w.world in self.weighed)
            listening_groups(ax, name, self.auc(name), world, self.weighed[world.world], self.grouping)
        else:
            listening_clients(ax, name, self.auc(name), *weights(self.methods[name], self.weighed))

    def labels(self) -> Figure:
        figure = Figure(figsize=(9, 5.6), layout="constrained")
        samples(figure.subplots(), self.first)
        return figure

    def gain(self) -> Figure | None:
        every, looks = gains(self.methods), method_colours(self.methods)
        found = {name: g for name, g in every.items() if looks[name][0] != OTHERS}
        if not found:
            return None
        some = f" (the best {len(found)} of {len(every)} methods)" if len(found) < len(every) else ""
        some += f"\n({self.first.roster.said()})" if self.sampled else ""
        wide = min(len(found), 3)
        deep = -(-len(found) // wide)
        figure = Figure(figsize=(max(3.5 * wide, 5), 3.6 * deep + 0.4), layout="constrained")
        axes = figure.subplots(deep, wide, sharey=True, squeeze=False)
        for ax, (name, values) in zip(axes.flat, found.items(), strict=False):
            surely = self.summary["methods"][name]["surely_hurt"]
            dots(ax, shortened(name), looks[name][0], *values, surely, self.metric)
        for ax in axes.flat[len(found) :]:
            ax.set_axis_off()
        for ax in axes[:, 0]:
            ax.set_ylabel(f"gain over Local\n({wording.gain_of(self.metric)})")
        figure.suptitle(
            f"Each client against itself alone: does it gain by collaborating?{some}", x=0.01, ha="left",
            fontweight="bold", fontsize=11,
        )  # fmt: skip
        return figure

    def cost(self) -> Figure | None:
        found = costs(self.methods, self.summary["methods"])
        if not found:
            return None
        figure = Figure(figsize=(8, 5), layout="constrained")
        ax, seeds = figure.subplots(), len(self.summary["seeds"])
        ax.set(
            xlabel="sent by all clients together (MB)",
            ylabel=wording.axis(self.metric, "personal", " at the end"),
        )
        grey = others(method_colours(self.methods))
        bar = f"; bars: ± one standard deviation over {seeds} seeds" if seeds > 1 else ""
        better = "up" if self.metric.higher_is_better else "down"
        text = f"mean over clients and seeds, {better} and left is better{bar}{grey}"
        title(ax, f"{wording.title(self.metric)} against bytes", text)
        draw_costs(ax, found)
        name_costs(ax, found, 8.5)
        return figure

    def overview(self) -> Figure:
        figure = Figure(figsize=(10.6, 9.2), layout="constrained")
        counts = {
            "client": self.first.roster.total,
            "group": self.summary["groups"],
            "seed": len(self.summary["seeds"]),
        }
        facts = ", ".join(f"{n:,} {what}s" for what, n in counts.items() if n > 1)
        figure.suptitle(f"{self.name}: {facts}", x=0.012, ha="left", fontsize=13, fontweight="bold")
        above, below = figure.subfigures(2, 1, height_ratios=(0.44, 0.56), hspace=0.04, squeeze=False).flat
        for ax, score in zip(above.subplots(1, 2), ("personal", "global"), strict=True):
            tested(ax, self.methods, score, self.closing)
        if not self.graphs:
            samples(below.subplots(), self.first)
            return figure
        left, right = below.subplots(1, 2, width_ratios=(1, 0.85))
        name = max(self.graphs, key=lambda n: self.auc(n) or 0)
        self._listening(left, name)
        samples(right, self.first)
        return figure
