"""A stand-in for the run folder in processes of a run that write nothing, since the lead does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from coterie.core.tasks.metric import TaskFacts

__all__ = ["NoFolder"]


class NoFolder:
    """Keeps nothing; `path` is the folder in which the lead writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keeps_exchanges = False

    def describe(
        self, worlds: Sequence[Mapping[str, Any]], clients: Sequence[Mapping[str, Any]], task: TaskFacts
    ) -> None:
        """Do nothing, as all others."""

    def metrics(self, row: Mapping[str, Any]) -> None: ...

    def exchange(self, row: Mapping[str, Any]) -> None: ...

    def checkpoint_offsets(self) -> dict[str, int]:
        return {}

    def truncate_to(self, offsets: Mapping[str, int]) -> None: ...

    def status(self, state: str, t: int, iterations: int, seconds: float, **more: Any) -> None: ...

    def discard(self) -> None: ...

    def summarize(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
