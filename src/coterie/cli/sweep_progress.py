"""How a sweep is getting on: a bar for each job that runs in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from coterie.studies.sweep.runner import View
from coterie.studies.sweep.worker import Event

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
        columns = (BarColumn(bar_width=None), TextColumn("{task.fields[count]}", justify="right"))
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self.progress = Progress(
            TextColumn("{task.description}"), *columns, *times, TextColumn("{task.fields[note]}"),
            console=console, refresh_per_second=8,
        )  # fmt: skip
        self.whole = self._bar("[bold]jobs[/bold]")
        self.jobs: dict[str, TaskID] = {}
        self.parts: dict[str, float] = {}
        """How much of each job that runs is done."""
        self.done, self.steps, self.began = 0, 0, 0.0

    def count(self, done: int, total: int) -> None:
        self.done = done
        self.progress.update(self.whole, total=total, count=f"{done}/{total}")
        self._update_whole()

    def show(self, event: Event) -> None:
        if event.notice:
            self.notice(f"job {event.job} on {event.where}: {event.notice}")
            return
        if event.job not in self.jobs:
            self.jobs[event.job] = self._bar(f"  {event.job}")
        task, done, total = self.jobs[event.job], event.done, event.total
        if not total:
            self.progress.update(task, note=f"{event.where}: {event.stage}")
            return
        self.began = self.began or time.monotonic()
        self.steps += event.client_steps
        self.parts[event.job] = done / total
        self.progress.update(task, completed=done, total=total, count=f"{done}/{total}", note=event.where)
        self._update_whole()

    def ended(self, job: str, state: str) -> None:
        self.parts.pop(job, None)
        if job in self.jobs:
            self.progress.remove_task(self.jobs.pop(job))

    def notice(self, text: str) -> None:
        self.progress.console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def _bar(self, text: str) -> TaskID:
        return self.progress.add_task(text, total=None, count="", note="")

    def _update_whole(self) -> None:
        rate = self.steps / (time.monotonic() - self.began) if self.steps and self.began else 0.0
        note = f"{rate:,.0f} client-steps/s" if rate else ""
        self.progress.update(self.whole, completed=self.done + sum(self.parts.values()), note=note)


class _Lines(View):
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
