"""Everything one world's clients heard and made of it, as columns that can be cut off at any iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.core.errors import RunError
from coterie.runs.graph import CollaborationGraph, rebuild_graph
from coterie.runs.metrics import Floats, Ints
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

    def __init__(self, clients: int) -> None:
        self.clients = clients
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
                if not all(0 <= c < self.clients for c in (client, *others)):
                    raise ValueError(f"it names more clients than the {self.clients} there are")
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

    def graph(self, t: float | None = None) -> CollaborationGraph:
        """Rebuild who listens to whom by iteration t."""
        known = self.until(t)
        return rebuild_graph(self.clients, known.client, known.neighbour, known.weight)

    def distances(self) -> Floats:
        """Collect the last distance that client i reported of neighbour j, `[M, M]`; NaN: none."""
        known = self.until(None)
        last = np.full((self.clients, self.clients), np.nan)
        last[known.client, known.neighbour] = known.distance
        return last

    def mean_confidence(self) -> Floats:
        """Average the confidence of each client over its turns, `[M]`; NaN: none was reported."""
        some = ~np.isnan(self.moments.confidence)
        client, confidence = self.moments.client[some], self.moments.confidence[some]
        count, total = (np.bincount(client, weights, self.clients) for weights in (None, confidence))
        mean: Floats = np.divide(total, count, out=np.full(self.clients, np.nan), where=count > 0)
        return mean


def _empty(dtypes: Sequence[Any]) -> list[Any]:
    return [np.zeros(0, dtype) for dtype in dtypes]


def _longer(columns: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    if not rows:
        return list(columns)
    new = zip(*rows, strict=True)
    return [np.concatenate([old, np.array(c, dtype=old.dtype)]) for old, c in zip(columns, new, strict=True)]
