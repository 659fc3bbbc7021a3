r"""The graph of who listens to whom: W rebuilt from reports, and how well W finds the true groups.

$\mathrm{AUC} = P(w_{ij} > w_{kl}) + \tfrac12 P(w_{ij} = w_{kl})$ for a random pair (i, j) of one group and a
random pair (k, l) of two groups, among the pairs that met.

Only pairs that met count: the weight of all others is still what it was at the start and says nothing
about what was learned.

Mann, Whitney: On a test of whether one of two random variables is stochastically larger than the
other. Annals of Mathematical Statistics 18, 1947.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.core.errors import RunError
from coterie.runs.metrics import Floats, Ints, WeightUpdate
from coterie.runs.roster import Roster

__all__ = ["CollaborationGraph", "Listening", "auc", "graph", "graph_auc", "listening", "newest"]


class CollaborationGraph(NamedTuple):
    """The collaboration graph at some iteration, of the clients that are recorded."""

    weight: Floats
    """`[M, M]` w_ij: how much i listens to j; the diagonal is 0."""
    met: NDArray[np.bool_]
    """`[M, M]` whether i ever heard j."""


class Listening(NamedTuple):
    """The last weight of each pair that met, `[P]`; of very many clients few pairs have."""

    listener: Ints
    """The number of a recorded client."""
    speaker: Ints
    """The number of any client."""
    weight: Floats

    def dense(self, roster: Roster) -> CollaborationGraph:
        """Lay out W of the recorded clients; w_ij is 1/M where i never heard j, M being all clients."""
        m = len(roster)
        weight = np.full((m, m), 1 / roster.total)
        np.fill_diagonal(weight, 0)
        met = np.zeros((m, m), dtype=bool)
        i, j = roster.places(self.listener), roster.places(self.speaker)
        known = (i >= 0) & (j >= 0)
        weight[i[known], j[known]] = self.weight[known]
        met[i[known], j[known]] = True
        return CollaborationGraph(weight, met)


def listening(weighed: Sequence[WeightUpdate], clients: int, t: int | None = None) -> Listening:
    """Find the last weight of each pair that was reported, up to iteration t; `clients`: all of the world."""
    known = [one for one in weighed if t is None or one.t <= t]
    nobody = np.zeros(0, dtype=np.int64)
    listener = np.concatenate([nobody, *(np.full_like(one.neighbours, one.client) for one in known)])
    speaker = np.concatenate([nobody, *(one.neighbours for one in known)])
    if max(listener.max(initial=0), speaker.max(initial=0)) >= clients:
        raise RunError(f"exchanges.jsonl is damaged: it names more clients than the {clients} there are")
    weight = np.concatenate([np.zeros(0), *(one.weight for one in known)])
    last = newest(listener, speaker)
    return Listening(listener[last], speaker[last], weight[last])


def newest(listener: Ints, speaker: Ints) -> Ints:
    """Find where each pair of `[P]` in time's order comes last, by listener and then speaker."""
    backwards = (listener << 32 | speaker)[::-1]
    first: Ints = np.unique(backwards, return_index=True)[1]
    return len(listener) - 1 - first


def graph(weighed: Sequence[WeightUpdate], roster: Roster, t: int | None = None) -> CollaborationGraph:
    """Rebuild W up to iteration t: from w_ij = 1/M on, every reported weight replaces the one before."""
    return listening(weighed, roster.total, t).dense(roster)


def graph_auc(found: Listening, roster: Roster) -> float | None:
    """Measure how well weights tell the listeners' own true group from others; None unless both were met."""
    same = roster.groups(found.listener) == roster.groups(found.speaker)
    return auc(found.weight[same], found.weight[~same])


def auc(inside: Floats, outside: Floats) -> float | None:
    """Compute the probability that one of `inside` is larger than one of `outside`, ties counting half."""
    n, m = len(inside), len(outside)
    if not n or not m:
        return None
    _, order, count = np.unique(np.concatenate([inside, outside]), return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[order]  # from 1, ties share their mean
    return float((rank[:n].sum() - n * (n + 1) / 2) / (n * m))
