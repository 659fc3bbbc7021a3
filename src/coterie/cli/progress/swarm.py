"""Progress of a swarm: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from coterie.core.tasks.metric import Metric
from coterie.experiment import Experiment
from coterie.progress import Lines
from coterie.runs.wording import compact
from coterie.swarm.monitor import SwarmProgress
from coterie.swarm.process import PeerProcess

__all__ = ["progress"]

Status = dict[str, Any]


@contextmanager
def progress(console: Console, experiment: Experiment, label: str) -> Iterator[SwarmProgress]:
    """Show what suits the console, for as long as the swarm lives."""
    console.print(
        f"[bold]swarm[/bold]: {experiment.data.clients} peers, {label}, "
        f"{experiment.train.iterations} iterations each, mutual TLS on loopback",
        highlight=False,
    )
    metric = experiment.task_kind.metrics[0]
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield _Table(live, metric)
    else:
        yield _Lines(console, experiment.train.iterations, metric)


class _Table:
    def __init__(self, live: Live, metric: Metric) -> None:
        self.live, self.metric, self.text = live, metric, ""

    def stage(self, text: str) -> None:
        self.text = text
        self.live.console.print(f"{text} ...", highlight=False, style="dim")

    def peers(
        self, processes: Sequence[PeerProcess], status: Sequence[Status | None], wrong: Sequence[str | None]
    ) -> None:
        drawn = _table(processes, status, self.metric)
        drawn.caption = escape("; ".join(filter(None, wrong))) or None
        self.live.update(drawn, refresh=True)


class _Lines(Lines):
    """Lines with what is wrong, exchanges and how good the peers are."""

    def __init__(self, console: Console, iterations: int, metric: Metric) -> None:
        super().__init__(console)
        self.iterations, self.metric = iterations, metric
        self.wrong: set[str] = set()

    def peers(
        self, processes: Sequence[PeerProcess], status: Sequence[Status | None], wrong: Sequence[str | None]
    ) -> None:
        for text in sorted(set(filter(None, wrong)) - self.wrong):
            self.wrong.add(text)
            self.say(text)
        sound = [s for s, text in zip(status, wrong, strict=True) if not text]
        there = [s for s in sound if s is not None]
        if not there:
            return
        slowest = min(s["t"] for s in there) if len(there) == len(sound) else 0
        if self.passed_tenth(slowest, self.iterations):
            scores = [s["evaluated"]["personal"] for s in there if s["evaluated"].get("personal") is not None]
            mean = compact(self.metric, sum(scores) / len(scores) if scores else None)
            exchanges = sum(s["exchanges"] for s in there)
            self.say(f"{slowest}/{self.iterations}  {exchanges} exchanges  {self.metric.title} {mean}")


def _table(processes: Sequence[PeerProcess], status: Sequence[Status | None], metric: Metric) -> Table:
    drawn = Table(box=SIMPLE_HEAD, padding=0)  # for 80 columns
    drawn.add_column("peer", no_wrap=True)
    for title in ("process", "port", "iteration", metric.title.replace(" ", "\n"), "exchanges", "knows"):
        drawn.add_column(title, justify="right", no_wrap=True)
    drawn.add_column("listens to", justify="right")
    drawn.add_column("refused", justify="right", no_wrap=True)
    for process, one in zip(processes, status, strict=True):
        if one is None:
            drawn.add_row(process.name, str(process.pid), *["–"] * 3, style="dim")
            continue
        alive = [m for m in one["members"] if m["state"] == "alive"]
        trusted = sorted((m for m in alive if m["weight"]), key=lambda m: -m["weight"])[:3]
        drawn.add_row(
            process.name,
            str(process.pid),
            one["address"].rpartition(":")[2],
            f"{one['t']}" + (" ✓" if one["state"] == "finished" else ""),
            compact(metric, one["evaluated"].get("personal")),
            str(one["exchanges"]),
            str(len(alive)),
            " ".join(m["id"] for m in trusted) or "–",
            str(sum(one["refusals"].values())),
        )
    return drawn
