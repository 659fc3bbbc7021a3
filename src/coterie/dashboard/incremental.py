"""Large files, read for a moment at a time, the most telling rows first."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.jsonl_index import JsonlIndex
from coterie.runs.metrics import SCORES
from coterie.runs.roster import Roster
from coterie.storage.files import as_run_error

__all__ = ["Evaluations", "ExchangesRead", "bisection_order", "deadline"]

_AT_ONCE = 500
"""Rows between two looks at the clock."""
_LARGE = 1 << 23
"""Bytes of exchanges that are read in a moment."""
_END = 1 << 25
"""Bytes at the end of a large file in which the latest rows of a world are looked for ..."""
_LATEST = 8000
"""... so many of which make a first picture of it."""


def bisection_order(count: int) -> list[int]:
    """Order 0 to count - 1: the last, the first, the middle, the quarters ..., so that any beginning is even.

    >>> bisection_order(6)
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
        self.index = JsonlIndex(folder / "metrics.jsonl")
        self.rows: dict[int, dict[int, dict[str, Any]]] = {}
        self._known: set[int] = set()
        self.share = 1.0
        """Share of all rows that have been read, from 0 to 1."""

    def read(self, enough: Callable[[], bool]) -> None:
        """Read on until `enough` says so; the last evaluation of every world always."""
        if not self.index.refresh():
            self.rows, self._known = {}, set()
        if len(self._known) == self.index.count:
            self.share = 1.0
            return
        ranked = sorted(
            (rank, world, int(numbers[k]))
            for world in self.index.worlds
            for numbers in [self.index.of(world)]
            for rank, k in enumerate(bisection_order(len(numbers)))
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


class ExchangesRead:
    """exchanges.jsonl as a history of each world; of a large file, at first what was written last."""

    def __init__(self, folder: Path) -> None:
        self.index = JsonlIndex(folder / "exchanges.jsonl")
        self._forget()

    def _forget(self) -> None:
        self._histories: dict[int, ExchangeHistory] = {}
        self._whole: set[int] = set()
        self._latest: dict[int, tuple[int, ExchangeHistory]] = {}
        self._end: JsonlIndex | None = None

    @property
    def large(self) -> bool:
        """Tell whether reading it all takes longer than somebody wants to wait for a first picture."""
        file = self.index.path
        return file.exists() and file.stat().st_size > _LARGE

    def find(self, enough: Callable[[], bool]) -> list[int]:
        """List the worlds that have exchanges, as far as rows are found until `enough` says so."""
        if not self.index.refresh(enough):
            self._forget()
        return self.index.worlds

    def read(self, world: int, clients: Roster, enough: Callable[[], bool]) -> tuple[ExchangeHistory, float]:
        """Read on until `enough` says so: the history so far, and which share of the whole that is."""
        if world not in self._histories and self.large:
            self._histories[world] = ExchangeHistory(clients)
            return self.latest(world, clients), 0.0
        self.find(enough)
        history = self._histories.setdefault(world, ExchangeHistory(clients))
        numbers = self.index.of(world)
        rows = self.index.read(numbers[len(history.moments.t) :].tolist())
        new: list[dict[str, Any]] = []
        while some := list(islice(rows, _AT_ONCE)):
            new += some
            if enough():
                break
        history.add(new)
        share = self.index.share * (len(history.moments.t) / len(numbers) if len(numbers) else 1)
        if share >= 1:
            self._whole.add(world)
        if self.large and world not in self._whole:
            return self.latest(world, clients), share
        return history, share

    def latest(self, world: int, clients: Roster) -> ExchangeHistory:
        """Give what was written last, until there is much more."""
        size, history = self._latest.get(world, (0, ExchangeHistory(clients)))
        end = self._last_rows()
        if end.size > size:
            history = ExchangeHistory(clients)
            # Whatever is damaged is told with the number of its line when all is read.
            with suppress(RunError):
                history.add(list(end.read(end.of(world)[-_LATEST:].tolist())))
            self._latest[world] = end.size, history
        return history

    def _last_rows(self) -> JsonlIndex:
        """Index the last rows of the file, again once it has grown by a tenth."""
        with as_run_error(self.index.path, "read"), open(self.index.path, "rb") as file:
            size = file.seek(0, 2)
            if self._end is None or size > 1.1 * self._end.size:
                file.seek(max(0, size - _END))
                file.readline()
                self._end = JsonlIndex(self.index.path)
                self._end.end = file.tell()
                with suppress(RunError):
                    self._end.refresh()
        return self._end


def deadline(seconds: float) -> Callable[[], bool]:
    """Make a question that is answered with True once so many seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end
