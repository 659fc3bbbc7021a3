"""Everything one world's clients heard and made of it, as columns that can be cut off at any iteration.

Clients are called by their numbers: those who report are recorded, those they heard may be anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.core.errors import RunError
from coterie.runs.graph import CollaborationGraph, Listening, newest
from coterie.runs.metrics import Floats, Ints
from coterie.runs.roster import Roster
from coterie.storage.files import DAMAGE

__all__ = ["ExchangeHistory", "NeighbourTable", "TurnTable"]


class TurnTable(NamedTuple):
    """Turns of clients, as stars or as neighbours, `[Q]`."""

    t: Ints
    client: Ints
    adopted: NDArray[np.bool_]
    """False: the client mixed."""
    confidence: Floats
    """NaN: not reported."""
    size: Ints
    """The pairs of a turn, which follow each other in the `NeighbourTable`."""


class NeighbourTable(NamedTuple):
    """Each neighbour at each of those moments, `[P]`."""

    t: Ints
    client: Ints
    neighbour: Ints
    weight: Floats
    """NaN: not reported."""
    distance: Floats
    """NaN: not reported."""
    heard: NDArray[np.bool_]


_MOMENTS: tuple[Any, ...] = (np.int64, np.int64, np.bool_, np.float64, np.int64)
_PAIRS: tuple[Any, ...] = (np.int64, np.int64, np.int64, np.float64, np.float64, np.bool_)


class ExchangeHistory:
    """Grows by `add`, in time's order."""

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self._reporting = frozenset(roster.numbers.tolist())
        self.moments = TurnTable(*_empty(_MOMENTS))
        self.pairs = NeighbourTable(*_empty(_PAIRS))
        self._weighed: NeighbourTable | None = None

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows of exchanges.jsonl, all of this world."""
        moments: list[tuple[Any, ...]] = []
        pairs: list[tuple[Any, ...]] = []
        try:
            for row in rows:
                t, client, others = row["t"], row["client"], row["neighbours"]
                k, nothing = len(others), [None] * len(others)
                if not all(0 <= c < self.roster.total for c in (client, *others)):
                    raise ValueError(f"it names more clients than the {self.roster.total} there are")
                if client not in self._reporting:
                    raise ValueError(f"client {client} reports, but is not described")
                moments.append((t, client, row["kind"] in ("adopt", "receive"), row.get("confidence"), k))
                weight, distance = row.get("weight", nothing), row.get("distance", nothing)
                heard = row.get("heard", [True] * k)
                pairs += zip([t] * k, [client] * k, others, weight, distance, heard, strict=True)
            self.moments = TurnTable(*_longer(self.moments, moments))
            self.pairs = NeighbourTable(*_longer(self.pairs, pairs))
            self._weighed = None if pairs else self._weighed
        except DAMAGE as error:
            raise RunError(f"exchanges.jsonl is damaged: {error}") from None

    def until(self, t: float | None) -> NeighbourTable:
        """Select the pairs up to iteration t that were heard and weighed."""
        if self._weighed is None:
            known = self.pairs.heard & ~np.isnan(self.pairs.weight)
            kept: list[Any] = [column[known] for column in self.pairs]
            self._weighed = NeighbourTable(*kept)
        if t is None:
            return self._weighed
        end = int(np.searchsorted(self._weighed.t, t, side="right"))
        columns: list[Any] = [column[:end] for column in self._weighed]
        return NeighbourTable(*columns)

    def newest(self, t: float | None = None) -> NeighbourTable:
        """Select what was last heard and weighed of each pair by iteration t."""
        known = self.until(t)
        last = newest(known.client, known.neighbour)
        columns: list[Any] = [column[last] for column in known]
        return NeighbourTable(*columns)

    def listening(self, t: float | None = None) -> Listening:
        """Find the last weight of each pair that met by iteration t."""
        last = self.newest(t)
        return Listening(last.client, last.neighbour, last.weight)

    def graph(self, t: float | None = None) -> CollaborationGraph:
        """Rebuild who of the recorded clients listens to whom by iteration t."""
        return self.listening(t).dense(self.roster)

    def mean_confidence(self) -> Floats:
        """Average the confidence of each recorded client over its turns, `[M]`; NaN: none was reported."""
        some, m = ~np.isnan(self.moments.confidence), len(self.roster)
        client, confidence = self.roster.places(self.moments.client[some]), self.moments.confidence[some]
        count, total = (np.bincount(client, weights, m) for weights in (None, confidence))
        mean: Floats = np.divide(total, count, out=np.full(m, np.nan), where=count > 0)
        return mean


def _empty(dtypes: Sequence[Any]) -> list[Any]:
    return [np.zeros(0, dtype) for dtype in dtypes]


def _longer(columns: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    if not rows:
        return list(columns)
    new = zip(*rows, strict=True)
    return [np.concatenate([old, np.array(c, dtype=old.dtype)]) for old, c in zip(columns, new, strict=True)]
