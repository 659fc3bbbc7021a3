"""Where results go in tests: the engine's protocols kept in lists."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.tasks.metric import TaskFacts

__all__ = ["Recording", "Watcher"]


class Recording:
    """A run's rows in memory; only checkpoints need the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.worlds: list[Mapping[str, Any]] = []
        self.clients: list[Mapping[str, Any]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {"metrics": [], "exchanges": []}

    def describe(
        self, worlds: Sequence[Mapping[str, Any]], clients: Sequence[Mapping[str, Any]], task: TaskFacts
    ) -> None:
        self.worlds, self.clients, self.task = list(worlds), list(clients), task

    def metrics(self, row: Mapping[str, Any]) -> None:
        self.rows["metrics"].append(copy.deepcopy(dict(row)))

    def exchange(self, row: Mapping[str, Any]) -> None:
        self.rows["exchanges"].append(copy.deepcopy(dict(row)))

    def checkpoint_offsets(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.rows.items()}

    def truncate_to(self, mark: Mapping[str, int]) -> None:
        for name, rows in self.rows.items():
            del rows[mark.get(name, 0) :]


class Watcher:
    """A run's progress in memory."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notices: list[str] = []
        self.steps: list[tuple[int, int, int]] = []
        self.accuracy: list[dict[str, float]] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def advance(self, done: int, total: int, client_steps: int) -> None:
        self.steps.append((done, total, client_steps))

    def evaluated(self, personal: Mapping[str, float]) -> None:
        self.accuracy.append(dict(personal))
