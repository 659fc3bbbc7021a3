"""Protocols for results and progress: the engine only knows these, the run folder implements one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from coterie.core.tasks.metric import TaskFacts

__all__ = ["Progress", "RunSink", "Watcher"]


class RunSink(Protocol):
    """A keeper of what happens in a run; rows are described in `coterie.runs`."""

    @property
    def path(self) -> Path:
        """A folder for checkpoints."""
        ...

    def describe(
        self, worlds: Sequence[Mapping[str, Any]], clients: Sequence[Mapping[str, Any]], task: TaskFacts
    ) -> None:
        """Keep all worlds of the run, the clients of each federation, and what is learned."""
        ...

    def metrics(self, row: Mapping[str, Any]) -> None:
        """Keep a row of one world at an evaluation."""
        ...

    def exchange(self, row: Mapping[str, Any]) -> None:
        """Keep a row of one client that learned something about others."""
        ...

    def checkpoint_offsets(self) -> dict[str, int]:
        """Make all rows so far durable; the sizes of the files by name."""
        ...

    def truncate_to(self, offsets: Mapping[str, int]) -> None:
        """Forget all rows beyond these sizes."""
        ...


class Progress(Protocol):
    """A display of how a run is getting on."""

    def stage(self, text: str) -> None:
        """Show that something begins that takes a while, such as loading data or compiling."""
        ...

    def notice(self, text: str) -> None:
        """Show a sentence that the user should know."""
        ...

    def advance(self, done: int, total: int, client_steps: int) -> None:
        """Show the iterations done of all stacks together; `client_steps`: since the last call."""
        ...

    def evaluated(self, personal: Mapping[str, float]) -> None:
        """Show the mean of the task's first metric, on personal test samples, of each row of the table."""
        ...


class Watcher(Protocol):
    """Somebody who is told what happens, as rows that are described in `coterie.runs`, and may end a run
    early.
    """

    def begun(self) -> None:
        """Take note that the run is about to begin, or to go on from its last checkpoint."""
        ...

    def exchanged(self, t: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take note of what clients heard at t, and made of it."""
        ...

    def evaluated(self, t: int, iterations: int, rows: Sequence[Mapping[str, Any]]) -> str | None:
        """Take note of an evaluation; a sentence is the reason why these worlds end here."""
        ...
