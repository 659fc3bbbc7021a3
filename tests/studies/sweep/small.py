"""A small grid, what a sweep shows on the way, and when two job folders are the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.studies.sweep.grid import Grid, read
from coterie.studies.sweep.runner import View
from coterie.studies.sweep.worker import JobEvent
from tests.cli.conftest import SMALL

__all__ = ["PYTHONPATH", "TEXT", "Shown", "at_the_gate", "equal", "gated", "grid", "own_data", "pipe"]

TEXT = SMALL.replace("[data]", '[grid]\n"model.hidden" = [[5], [7]]\n"train.lr" = [0.05, 0.2]\n\n[data]')
SAME = ("metrics.jsonl", "exchanges.jsonl", "worlds.json", "clients.json", "summary.json", "experiment.toml")
"""Files that are the same to the byte wherever a job ran."""
PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
"""With which other processes find the gate."""


def equal(got: Path, want: Path) -> None:
    """Two folders of a job."""
    for name in SAME:
        assert (got / name).read_bytes() == (want / name).read_bytes(), name


def grid(folder: Path, **changes: Any) -> Grid:
    """`__` stands for the dot of a path."""
    file = folder / "grid.toml"
    file.write_text(TEXT)
    return read(file, {path.replace("__", "."): value for path, value in changes.items()})


def own_data(folder: Path, fourth: str = "3,3,0") -> dict[str, str]:
    """Write a table of samples, the fourth of them as said, and name it."""
    rows = [f"{i % 7},{i % 5},{i % 3}" for i in range(200)]
    (folder / "mine.csv").write_text("\n".join(["a,b,label", *rows[:3], fourth, *rows[4:]]))
    return {"name": "csv", "path": "mine.csv", "label": "label"}


def gated(folder: Path, **changes: Any) -> Grid:
    """Jobs that stand still half-way until somebody opens the pipe to write."""
    os.mkfifo(pipe(folder))
    gate = {"name": "tests.studies.sweep.gate:Gate", "pipe": str(pipe(folder))}
    return grid(folder, methods={"Local": {}, "KD-PDFL": {}, "Gate": gate}, **changes)


def pipe(folder: Path) -> Path:
    """The gate of those jobs."""
    return folder / "pipe"


def at_the_gate(gate: Path, process: subprocess.Popen[bytes]) -> int:
    """Wait until a job of a command stands at the gate, which is open as long as the file given back is."""
    while True:
        try:
            return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            assert process.returncode is None, "it ended before it came to the gate"


class Shown(View):
    """A view that remembers everything, and does something at the first sign of progress."""

    def __init__(self, at_first: Callable[[JobEvent], None] = lambda _: None) -> None:
        self.at_first = at_first
        self.events: list[JobEvent] = []
        self.counts: list[tuple[int, int]] = []
        self.ends: list[tuple[str, str]] = []
        self.notices: list[str] = []

    def count(self, done: int, total: int) -> None:
        self.counts.append((done, total))

    def show(self, event: JobEvent) -> None:
        first = event.done > 0 and not any(e.done for e in self.events)
        self.events.append(event)
        if first:
            self.at_first(event)

    def ended(self, job: str, state: str) -> None:
        self.ends.append((job, state))

    def notice(self, text: str) -> None:
        self.notices.append(text)
