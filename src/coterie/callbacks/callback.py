"""The contract of a callback, and what it is given: plain values that cannot be changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from coterie.runs import Run

__all__ = ["Callback", "Evaluation", "ExchangeRows", "Score", "WorldScores"]

Score: TypeAlias = Literal["personal", "global", "validation", "loss"]
"""Personal, global and validation accuracy as shares of one, and the mean training loss since the last
time."""


@dataclass(frozen=True)
class WorldScores:
    """One method, seed and setting at one evaluation."""

    name: str
    """The row of the result table: the method's label, with the setting if there is a grid."""
    label: str
    seed: int
    setting: Mapping[str, Any]
    clients: Mapping[str, tuple[float, ...]]
    """Scores of every client `[M]`, by the name of the score; NaN where there is none."""
    honest: tuple[bool, ...]
    """The clients that do not attack, `[M]`."""
    bytes: int
    """Bytes sent by all clients so far."""
    gradients: int
    """Gradients taken by all clients so far."""
    diverged: tuple[int, ...]
    """Clients that were left out, as their model is not finite."""

    def mean(self, score: Score) -> float:
        """Average a score over the honest clients that have one; NaN if none has."""
        there = [v for v, counts in zip(self.clients[score], self.honest, strict=True) if counts and v == v]
        return fmean(there) if there else math.nan


@dataclass(frozen=True)
class Evaluation:
    """All worlds that are computed together, at one iteration."""

    t: int
    iterations: int
    worlds: tuple[WorldScores, ...]

    def means(self, score: Score) -> dict[str, float]:
        """Average a score over clients and then over seeds, for each row of the result table."""
        seeds: dict[str, list[float]] = {}
        for world in self.worlds:
            seeds.setdefault(world.name, []).append(world.mean(score))
        return {name: fmean(values) for name, values in seeds.items()}


@dataclass(frozen=True)
class ExchangeRows:
    """Messages that clients heard at one iteration, and what they made of them."""

    t: int
    rows: tuple[Mapping[str, Any], ...]
    """One for each client that mixed or adopted, as in `exchanges.jsonl` (`coterie.runs`), with `name` and
    `seed` of its world."""


class Callback:
    """Somebody who is told how a run is getting on; override what is of interest.

    What a callback raises ends the run, which is saved and can be resumed.
    """

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        """Take note that the run begins; `earlier`: the evaluations before, of a run that is resumed."""

    def after_exchange(self, exchanges: ExchangeRows) -> None:
        """Take note of an exchange, or of the broadcasts that follow it."""

    def after_evaluation(self, evaluation: Evaluation) -> str | None:
        """Take note of an evaluation; a sentence that is given back is the reason to end the run here."""

    def on_end(self, run: Run) -> None:
        """Take note that the run has ended; `run.status` says how: done, stopped or failed."""
