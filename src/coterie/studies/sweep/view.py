"""How all jobs are getting on: a bar for each that runs in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from coterie.studies.sweep.work import Event

__all__ = ["Silent", "View", "view"]


class View(Protocol):
    """Shows how a sweep is getting on."""

    def count(self, done: int, total: int) -> None:
        """How many jobs are done, of all there are as of now."""
        ...

    def show(self, event: Event) -> None:
        """One job has come further."""
        ...

    def ended(self, job: str, state: str) -> None:
        """One job is over, or this attempt at it."""
        ...

    def notice(self, text: str) -> None:
        """Something the user should know."""
        ...


class Silent:
    """Shows nothing."""

    def count(self, done: int, total: int) -> None: ...

    def show(self, event: Event) -> None: ...

    def ended(self, job: str, state: str) -> None: ...

    def notice(self, text: str) -> None: ...


@contextmanager
def view(console: Console) -> Iterator[View]:
    """The one that suits the console, for as long as the sweep lasts."""
    if console.is_terminal:
        bars = _Bars(console)
        with bars.progress:
            yield bars
    else:
        yield _Lines(console)


class _Bars:
    """One bar for the sweep, and below it one for each job that runs."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[count]}", justify="right"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            refresh_per_second=8,
        )
        self.whole: TaskID = self.progress.add_task("[bold]jobs[/bold]", total=None, count="", note="")
        self.jobs: dict[str, TaskID] = {}
        self.parts: dict[str, float] = {}
        self.done, self.steps, self.began = 0, 0, 0.0

    def count(self, done: int, total: int) -> None:
        self.done = done
        self.progress.update(self.whole, total=total, count=f"{done}/{total}")
        self._whole()

    def show(self, event: Event) -> None:
        if event.notice:
            self.notice(f"job {event.job} on {event.where}: {event.notice}")
            return
        if event.job not in self.jobs:
            self.jobs[event.job] = self.progress.add_task(f"  {event.job}", total=None, count="", note="")
        task, note = self.jobs[event.job], event.where
        if event.total:
            self.began = self.began or time.monotonic()
            self.steps += event.client_steps
            self.parts[event.job] = event.done / event.total
            self.progress.update(
                task, completed=event.done, total=event.total, count=f"{event.done}/{event.total}", note=note
            )
            self._whole()
        else:
            self.progress.update(task, note=f"{note}: {event.stage}")

    def ended(self, job: str, state: str) -> None:
        self.parts.pop(job, None)
        if job in self.jobs:
            self.progress.remove_task(self.jobs.pop(job))

    def notice(self, text: str) -> None:
        self.progress.console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def _whole(self) -> None:
        rate = self.steps / (time.monotonic() - self.began) if self.steps and self.began else 0.0
        note = f"{rate:,.0f} client-steps/s" if rate else ""
        self.progress.update(self.whole, completed=self.done + sum(self.parts.values()), note=note)


class _Lines:
    """One line at the beginning and one at the end of each job."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.known: set[str] = set()
        self.counted = ""

    def count(self, done: int, total: int) -> None:
        if (text := f"{done} of {total} jobs done") != self.counted:
            self.counted = text
            self._say(text)

    def show(self, event: Event) -> None:
        if event.notice:
            self.notice(f"job {event.job} on {event.where}: {event.notice}")
        elif event.job not in self.known:
            self.known.add(event.job)
            self._say(f"job {event.job} on {event.where} ...")

    def ended(self, job: str, state: str) -> None:
        self.known.discard(job)
        self._say(f"job {job}: {state}")

    def notice(self, text: str) -> None:
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
