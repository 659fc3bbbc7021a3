"""Large files read for a moment at a time, the most telling rows first."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.runs.history import History
from coterie.runs.rows import Rows
from coterie.runs.tracks import SCORES

__all__ = ["Evaluations", "Exchanges", "spread", "within"]

_AT_ONCE = 500


def spread(count: int) -> list[int]:
    """0 to count - 1: the last, the first, the middle, the quarters ..., so that any beginning is even.

    >>> spread(6)
    [5, 0, 2, 1, 3, 4]
    """
    order = dict.fromkeys([count - 1, 0] if count else [])
    parts = 1
    while len(order) < count:
        parts *= 2
        order |= dict.fromkeys((count - 1) * k // parts for k in range(1, parts, 2))
        if parts > 2 * count:
            order |= dict.fromkeys(range(count))
    return list(order)


class Evaluations:
    """metrics.jsonl by world and iteration: the last evaluations first, then ever more between."""

    def __init__(self, folder: Path) -> None:
        self.index = Rows(folder / "metrics.jsonl")
        self.rows: dict[int, dict[int, dict[str, Any]]] = {}
        self._known: set[int] = set()
        self.share = 1.0
        """Of all rows, how many have been read."""

    def read(self, enough: Callable[[], bool]) -> None:
        """Read on until it is enough; the last evaluation of every world always."""
        if not self.index.refresh():
            self.rows, self._known = {}, set()
        if len(self._known) == self.index.count:
            self.share = 1.0
            return
        ranked = sorted(
            (rank, world, int(numbers[k]))
            for world in self.index.worlds
            for numbers in [self.index.of(world)]
            for rank, k in enumerate(spread(len(numbers)))
        )
        missing = [(rank, number) for rank, _, number in ranked if number not in self._known]
        for (rank, number), row in zip(missing, self.index.read(n for _, n in missing), strict=True):
            self._keep(row)
            self._known.add(number)
            if rank and enough():
                break
        self.share = len(self._known) / self.index.count

    def _keep(self, row: dict[str, Any]) -> None:
        try:
            for score in SCORES:
                if row.get(score) is not None:
                    row[score] = np.array(row[score], dtype=np.float64)
            self.rows.setdefault(row["world"], {})[row["t"]] = row
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{self.index.path} is damaged: {error!r}") from None


class Exchanges:
    """exchanges.jsonl as a history of each world, from its beginning on."""

    def __init__(self, folder: Path) -> None:
        self.index = Rows(folder / "exchanges.jsonl")
        self._histories: dict[int, History] = {}

    def find(self, enough: Callable[[], bool]) -> list[int]:
        """The worlds that have exchanges, as far as rows have been found until it is enough."""
        if not self.index.refresh(enough):
            self._histories = {}
        return self.index.worlds

    def read(self, world: int, clients: int, enough: Callable[[], bool]) -> tuple[History, float]:
        """Read on until it is enough; the history so far, and which share of the whole that is."""
        self.find(enough)
        history = self._histories.setdefault(world, History(clients))
        numbers = self.index.of(world)
        rows = self.index.read(numbers[len(history.moments.t) :].tolist())
        new: list[dict[str, Any]] = []
        while some := list(islice(rows, _AT_ONCE)):
            new += some
            if enough():
                break
        history.add(new)
        return history, self.index.share * len(history.moments.t) / max(1, len(numbers))


def within(seconds: float) -> Callable[[], bool]:
    """Enough once so much time has passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
