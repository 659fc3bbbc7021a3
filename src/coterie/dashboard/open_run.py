"""A run folder opened for the page: the run, what has been read of it, and how to choose a world of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.dashboard.incremental import Evaluations, ExchangesRead, deadline
from coterie.runs import Run
from coterie.runs.exchanges import ExchangeHistory
from coterie.runs.facts import Recorded, recorded
from coterie.runs.metrics import Ints, WorldMetrics, build_world_metrics
from coterie.storage.files import finite

__all__ = ["PATIENCE", "OpenRun", "evenly", "number", "plain"]

PATIENCE = 0.5
"""Seconds that one answer may spend on reading; the page asks again for the rest."""


class OpenRun:
    """A run and what has been read of it: what the views of a run work on."""

    def __init__(self, path: Path) -> None:
        self.run = Run(path)
        self.evaluations = Evaluations(path)
        self.exchanges = ExchangesRead(path)
        self.cache: dict[Any, Any] = {}
        """Results of views that may be used again."""
        self._tracks: tuple[Any, int, list[WorldMetrics]] = (None, 0, [])

    def tracks(self, patience: float = PATIENCE) -> list[WorldMetrics]:
        """Assemble the evaluations of each world that can be read in `patience` seconds."""
        if not (self.run.path / "worlds.json").exists():
            return []
        self.evaluations.read(deadline(patience))
        run, rows = self.run, self.evaluations.rows
        known = sum(map(len, rows.values()))
        if rows is not self._tracks[0] or known != self._tracks[1]:
            found = build_world_metrics(run.path, run.config, run.worlds, run.clients, rows, run.task)
            self._tracks = rows, known, found
        return self._tracks[2]

    def world(self, query: Mapping[str, str]) -> WorldMetrics:
        """Find the world of the method and the seed that a page asks for."""
        method, seed = query.get("method", ""), query.get("seed", "")
        for track in self.tracks(patience=0):
            if track.name == method and str(track.seed) == seed:
                return track
        raise RunError(f"{self.run.path} has no evaluation of {method!r} with seed {seed!r} yet")

    def history(self, world: WorldMetrics, patience: float = PATIENCE) -> tuple[ExchangeHistory, float]:
        """Read on what the clients of a world heard: the history so far, and its share of the whole."""
        return self.exchanges.read(world.world, world.roster, deadline(patience))

    @property
    def large(self) -> bool:
        """Tell whether the exchanges are more than can be read in a moment."""
        return self.exchanges.large

    def latest(self, world: WorldMetrics) -> ExchangeHistory:
        """Read only what the clients of a world heard last."""
        return self.exchanges.latest(world.world, world.roster)

    def facts(self, world: WorldMetrics) -> tuple[Recorded, float]:
        """Read what may go with the gains of a world's clients, and the share of the exchanges known by then.

        Of a large run, what was heard last is enough.
        """
        history, share = (self.latest(world), 1.0) if self.large else self.history(world, 0.2 * PATIENCE)
        key, state = ("facts", world.world), len(history.moments.t)
        if self.cache.get(key, (None,))[0] != state:
            self.cache[key] = state, recorded(world, history)
        return self.cache[key][1], share


def number(query: Mapping[str, str], name: str, low: float = 0, high: float = np.inf) -> float | None:
    """Parse a number that a page sent, at least `low` and below `high`; None if it sent none."""
    if not (text := query.get(name, "")):
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not low <= value < high:
        raise RunError(f"{name} must be a number of at least {low:g}, got {text!r}")
    return value


def evenly(count: int, most: int) -> Ints:
    """Choose at most `most` of the numbers 0 to count - 1, evenly, the first and the last among them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def plain(values: Any, digits: int = 5) -> Any:
    """Turn arrays into lists with the digits that a screen can show, NaN into None."""
    return finite(values, digits)
