"""A part of a sweep that is one batched run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes torch along, which a reader of sweep folders does not need
    from coterie.experiment import Experiment

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """Which part of the grid, and what has become of it."""

    name: str
    """Its folder."""
    setting: dict[str, Any]
    """The values of keys in which the worlds of one experiment cannot differ, such as device."""
    grid: dict[str, list[Any]]
    """The values of all other keys: the grid of its own experiment."""
    seeds: list[int]
    state: str = "waiting"
    """waiting, done, failed, or split: it did not fit into memory, its halves have taken its place."""
    attempts: int = 0
    """How often it was begun, by this sweep as it runs now."""
    where: str = ""
    """The machine, and the folder there if that is not the sweep's own."""
    seconds: float = 0.0
    error: str = ""

    def experiment(self, base: Experiment) -> Experiment:
        """What to run, complete."""
        return base.replace(**{**self.setting, "seeds": self.seeds, "grid": self.grid})

    def worlds(self, methods: int) -> int:
        return math.prod([methods, len(self.seeds), *map(len, self.grid.values())])

    def halves(self) -> tuple[Job, Job] | None:
        """The same in two parts, by seeds or else by the key with the most values; None for one world."""
        longest = max(self.grid, key=lambda key: len(self.grid[key]), default=None)
        fresh = replace(self, state="waiting", attempts=0, where="", seconds=0.0, error="")
        if len(self.seeds) > 1:
            parts = [replace(fresh, seeds=part) for part in _halved(self.seeds)]
        elif longest is not None and len(self.grid[longest]) > 1:
            parts = [
                replace(fresh, grid={**self.grid, longest: part}) for part in _halved(self.grid[longest])
            ]
        else:
            return None
        first, second = (
            replace(part, name=f"{self.name}{letter}") for part, letter in zip(parts, "ab", strict=True)
        )
        return first, second

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def _halved(values: list[Any]) -> tuple[list[Any], list[Any]]:
    half = (len(values) + 1) // 2
    return values[:half], values[half:]
