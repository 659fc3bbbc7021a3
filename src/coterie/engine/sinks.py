"""Where results go: the engine only knows this protocol, the run folder implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Progress", "RunSink"]


class RunSink(Protocol):
    """Takes down what happens in a run; rows are described in `coterie.runs`."""

    @property
    def path(self) -> Path:
        """A folder for checkpoints."""
        ...

    def describe(self, worlds: Sequence[Mapping[str, Any]], clients: Sequence[Mapping[str, Any]]) -> None:
        """All worlds of the run, and the clients of each federation."""
        ...

    def metrics(self, row: Mapping[str, Any]) -> None:
        """One world at an evaluation."""
        ...

    def exchange(self, row: Mapping[str, Any]) -> None:
        """One client that learned something about others."""
        ...

    def checkpoint_offsets(self) -> dict[str, int]:
        """Make everything so far durable, and say how far it reaches."""
        ...

    def truncate_to(self, mark: Mapping[str, int]) -> None:
        """Forget what was taken down after the mark."""
        ...


class Progress(Protocol):
    """Shows how a run is getting on."""

    def stage(self, text: str) -> None:
        """Something that takes a while begins, such as loading data or compiling."""
        ...

    def notice(self, text: str) -> None:
        """Something the user should know."""
        ...

    def advance(self, done: int, total: int, client_steps: int) -> None:
        """Iterations done of all stacks together, and client-steps since the last call."""
        ...

    def evaluated(self, accuracy: Mapping[str, float]) -> None:
        """Mean personal accuracy of each row of the table, as of now."""
        ...
