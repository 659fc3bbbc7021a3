"""A run folder opened for the page: the run, what has been read of it, and how to choose a world of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.errors import RunError
from coterie.dashboard.reading import Evaluations, Exchanges, within
from coterie.runs import Run
from coterie.runs.history import History
from coterie.runs.tracks import Track, assembled

__all__ = ["PATIENCE", "Opened", "number", "plain"]

PATIENCE = 0.5
"""Seconds that one answer may spend on reading; the page asks again for the rest."""


class Opened:
    """What the views work on."""

    def __init__(self, path: Path) -> None:
        self.run = Run(path)
        self.evaluations = Evaluations(path)
        self.exchanges = Exchanges(path)
        self.kept: dict[Any, Any] = {}
        """What views computed and may use again."""
        self._tracks: tuple[Any, int, list[Track]] = (None, 0, [])

    def tracks(self, patience: float = PATIENCE) -> list[Track]:
        """How each world went, by the evaluations read so far; none before the first."""
        if not (self.run.path / "worlds.json").exists():
            return []
        self.evaluations.read(within(patience))
        run, rows = self.run, self.evaluations.rows
        known = sum(map(len, rows.values()))
        if rows is not self._tracks[0] or known != self._tracks[1]:
            found = assembled(run.path, run.config, run.worlds, run.clients, rows)
            self._tracks = rows, known, found
        return self._tracks[2]

    def world(self, query: Mapping[str, str]) -> Track:
        """The world of the method and the seed that a page asks for."""
        method, seed = query.get("method", ""), query.get("seed", "")
        for track in self.tracks(patience=0):
            if track.name == method and str(track.seed) == seed:
                return track
        raise RunError(f"{self.run.path} has no evaluation of {method!r} with seed {seed!r} yet")

    def history(self, world: Track, patience: float = PATIENCE) -> tuple[History, float]:
        """What its clients heard, as far as it has been read, and which share of the whole that is."""
        return self.exchanges.read(world.world, len(world.group), within(patience))

    @property
    def large(self) -> bool:
        """Whether its exchanges are more than can be read in a moment."""
        return self.exchanges.large

    def latest(self, world: Track) -> History:
        """What its clients heard last."""
        return self.exchanges.latest(world.world, len(world.group))


def number(query: Mapping[str, str], name: str, low: float = 0, high: float = np.inf) -> float | None:
    """A number that a page sent; None if it sent none."""
    if not (text := query.get(name, "")):
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not low <= value < high:
        raise RunError(f"{name} must be a number of at least {low:g}, got {text!r}")
    return value


def plain(values: Any, digits: int = 5) -> Any:
    """Arrays as lists with the digits that a screen can show, NaN as None."""
    if isinstance(values, dict):
        return {k: plain(v, digits) for k, v in values.items()}
    if isinstance(values, list | tuple):
        return [plain(v, digits) for v in values]
    if isinstance(values, np.ndarray):
        return plain(values.tolist(), digits)
    if isinstance(values, float | np.floating):
        return float(f"{values:.{digits}g}") if np.isfinite(values) else None
    return values.item() if isinstance(values, np.generic) else values
