"""Progress of a sweep: a bar for each job that runs in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from coterie.progress import Lines, rate
from coterie.studies.sweep.runner import View
from coterie.studies.sweep.worker import JobEvent

__all__ = ["progress"]


@contextmanager
def progress(console: Console) -> Iterator[View]:
    """Show what suits the console, for as long as the sweep lasts."""
    if console.is_terminal:
        bars = _Bars(console)
        with bars.progress:
            yield bars
    else:
        yield _Lines(console)


class _Bars(View):
    """One bar for the sweep, and below it one for each job that runs."""

    def __init__(self, console: Console) -> None:
        text, bar, count = TextColumn("{task.description}"), BarColumn(bar_width=None), "{task.fields[count]}"
        times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
        columns = text, bar, TextColumn(count, justify="right"), *times, TextColumn("{task.fields[note]}")
        self.progress = Progress(*columns, console=console, refresh_per_second=8)
        self.whole = self._bar("[bold]jobs[/bold]")
        self.jobs: dict[str, TaskID] = {}
        self.done, self.steps, self.began = 0, 0, 0.0

    def count(self, done: int, total: int) -> None:
        self.done = done
        self.progress.update(self.whole, total=total, count=f"{done}/{total}")
        self._update_whole()

    def show(self, event: JobEvent) -> None:
        if event.job not in self.jobs:
            self.jobs[event.job] = self._bar(f"  {event.job}")
        task, done, total = self.jobs[event.job], event.done, event.total
        if not total:
            self.progress.update(task, note=f"{event.where}: {event.stage}")
            return
        self.began = self.began or time.monotonic()
        self.steps += event.client_steps
        self.progress.update(task, completed=done, total=total, count=f"{done}/{total}", note=event.where)
        self._update_whole()

    def ended(self, job: str, state: str) -> None:
        if job in self.jobs:
            self.progress.remove_task(self.jobs.pop(job))

    def notice(self, text: str) -> None:
        self.progress.console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def _bar(self, text: str) -> TaskID:
        return self.progress.add_task(text, total=None, count="", note="")

    def _update_whole(self) -> None:
        parts = sum(task.percentage / 100 for task in self.progress.tasks if task.id in self.jobs.values())
        note = rate(self.steps, time.monotonic() - self.began) if self.steps else ""
        self.progress.update(self.whole, completed=self.done + parts, note=note)


class _Lines(Lines, View):
    """One line at the beginning and one at the end of each job."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.running: set[str] = set()
        self.counted = ""

    def count(self, done: int, total: int) -> None:
        if (text := f"{done} of {total} jobs done") != self.counted:
            self.counted = text
            self.say(text)

    def show(self, event: JobEvent) -> None:
        if event.job not in self.running:
            self.running.add(event.job)
            self.say(f"job {event.job} on {event.where} ...")

    def ended(self, job: str, state: str) -> None:
        self.running.discard(job)
        self.say(f"job {job}: {state}")
