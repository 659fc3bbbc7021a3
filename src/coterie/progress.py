"""Progress of a run: a live bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.engine import sinks
from coterie.experiment import Experiment
from coterie.runs.wording import compact

__all__ = ["Lines", "automatic", "progress", "rate"]

SHOWN = 40
"""Most methods and settings whose scores are shown while a run goes on."""


class Lines:
    """Plain lines, for a pipe or a log: one for each stage and for about every tenth of the way."""

    def __init__(self, console: Console) -> None:
        self.console, self._tenth = console, 0

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        self.say(f"{text} ...")

    def notice(self, text: str) -> None:
        self.say(f"note: {text}")

    def passed_tenth(self, done: int, total: int) -> bool:
        """Tell whether another tenth of the way is done since this was true last."""
        passed = done * 10 // total > self._tenth
        self._tenth = max(self._tenth, done * 10 // total)
        return passed


def rate(steps: int, seconds: float) -> str:
    """Write client-steps per second."""
    per_second = steps / max(seconds, 1e-9)
    number = f"{per_second / 1000:.1f}k" if per_second >= 1000 else f"{per_second:.0f}"
    return f"{number} client-steps/s"


@contextmanager
def automatic(experiment: Experiment) -> Iterator[sinks.Progress | None]:
    """Show progress where somebody looks, in a terminal or a notebook, and none anywhere else."""
    console = Console(stderr=True)
    if console.is_jupyter:  # rich takes 115 columns, of which a page beside a list of files cuts the last
        console.width = min(console.width, 80)
    if console.is_terminal or console.is_jupyter:
        with progress(console, experiment) as shown:
            yield shown
    else:
        yield None


@contextmanager
def progress(console: Console, experiment: Experiment) -> Iterator[sinks.Progress]:
    """Show what suits the console, for as long as the run lasts."""
    methods, seeds = len(experiment.methods), len(experiment.seeds)
    settings = len(experiment.worlds()) // (methods * seeds)
    counts = {"method": methods, "seed": seeds} | ({"setting": settings} if settings > 1 else {})
    numbers = sorted({w.experiment.data.clients for w in experiment.worlds()})
    clients = " or ".join(", ".join(map(str, numbers)).rsplit(", ", 1))
    many = " x ".join(f"{n} {what}{'s'[: n != 1]}" for what, n in counts.items())
    console.print(
        f"[bold]{experiment.name}[/bold]: {clients} clients, {many}, "
        f"{experiment.train.iterations} iterations on {experiment.device}",
        highlight=False,
    )
    metric = experiment.task_kind.metrics[0]
    if _redraws(console):
        bar = _Bar(console, metric)
        with bar.live:
            yield bar
    else:
        yield _Lines(console, metric)


def _redraws(console: Console) -> bool:
    """Tell whether what is shown can be drawn anew; in a notebook that takes ipywidgets."""
    return find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal


def _scores(metric: Metric, personal: Mapping[str, float]) -> list[str]:
    """Write how good methods and settings are, of very many the best few and the range of the others."""
    order = sorted(personal, key=lambda name: metric.gain(personal[name], 0.0), reverse=True)
    best, others = set(order[:SHOWN]), order[SHOWN:]
    texts = [f"{name} {compact(metric, value)}" for name, value in personal.items() if name in best]
    if others:
        ends = " to ".join(compact(metric, personal[name]) for name in (others[-1], others[0]))
        texts.append(f"and {len(others)} more, {ends}")
    return texts


class _TimeLeft(TimeRemainingColumn):
    """The time that is left, once that can be told."""

    def render(self, task: Task) -> Text:
        return Text(
            "" if task.time_remaining is None else f"{super().render(task)} left", "progress.remaining"
        )


class _Bar:
    """A bar with rate and time left, and under it how good every method is by now."""

    def __init__(self, console: Console, metric: Metric) -> None:
        self.metric = metric
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            *([TimeElapsedColumn()] if console.width >= 60 else []),
            _TimeLeft(),
            *([TextColumn("{task.fields[rate]}")] if console.width >= 80 else []),
            console=console,
        )
        self.task: TaskID = self.bar.add_task("starting", total=None, rate="")
        self.scores = Columns(padding=(0, 2))
        self.live = Live(Group(self.bar, self.scores), console=console, refresh_per_second=8, transient=True)
        self.steps, self.began = 0, 0.0

    def stage(self, text: str) -> None:
        self.bar.update(self.task, description=text)

    def notice(self, text: str) -> None:
        self.live.console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def advance(self, done: int, total: int, client_steps: int) -> None:
        self.live.transient = False  # from here on there is something to leave behind
        now = time.monotonic()
        self.began = self.began or now
        shown = rate(self.steps, now - self.began) if self.steps else ""
        self.steps += client_steps
        self.bar.update(self.task, description="learning", completed=done, total=total, rate=shown)

    def evaluated(self, personal: Mapping[str, float]) -> None:
        self.scores.title = Text(f"{self.metric.title} so far", justify="left")
        texts = _scores(self.metric, personal)
        self.scores.renderables = [Text(score, "cyan", overflow="fold") for score in texts]


class _Lines(Lines):
    """Lines with rate and how good every method is."""

    def __init__(self, console: Console, metric: Metric) -> None:
        super().__init__(console)
        self.metric = metric
        self.steps, self.began, self.scores = 0, 0.0, ""

    def advance(self, done: int, total: int, client_steps: int) -> None:
        now = time.monotonic()
        self.began = self.began or now
        self.steps += client_steps
        if self.passed_tenth(done, total):
            speed = rate(self.steps, now - self.began) if now > self.began else ""
            self.say(f"{done}/{total}  {speed}  {self.scores}")

    def evaluated(self, personal: Mapping[str, float]) -> None:
        named = [] if self.metric == ACCURACY else [f"{self.metric.title}:"]
        self.scores = "  ".join([*named, *_scores(self.metric, personal)])
