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

__all__ = ["CollaborationGraph", "auc", "graph", "graph_auc", "rebuild_graph"]


class CollaborationGraph(NamedTuple):
    """The collaboration graph at some iteration."""

    weight: Floats
    """`[M, M]` w_ij: how much i listens to j; the diagonal is 0."""
    met: NDArray[np.bool_]
    """`[M, M]` whether i ever heard j."""


def graph(weighed: Sequence[WeightUpdate], clients: int, t: int | None = None) -> CollaborationGraph:
    """Build the graph of the weights that were reported, up to iteration t."""
    known = [one for one in weighed if t is None or one.t <= t]
    nobody = np.zeros(0, dtype=np.int64)
    listener = np.concatenate([nobody, *(np.full_like(one.neighbours, one.client) for one in known)])
    speaker = np.concatenate([nobody, *(one.neighbours for one in known)])
    if max(listener.max(initial=0), speaker.max(initial=0)) >= clients:
        raise RunError(f"exchanges.jsonl is damaged: it names more clients than the {clients} there are")
    return rebuild_graph(
        clients, listener, speaker, np.concatenate([np.zeros(0), *(one.weight for one in known)])
    )


def rebuild_graph(clients: int, listener: Ints, speaker: Ints, weights: Floats) -> CollaborationGraph:
    """Rebuild W `[M, M]`: from w_ij = 1/M on, every reported weight replaces the one before."""
    weight = np.full((clients, clients), 1 / clients)
    np.fill_diagonal(weight, 0)
    met = np.zeros((clients, clients), dtype=bool)
    weight[listener, speaker] = weights  # of a pair that comes twice the last one stays
    met[listener, speaker] = True
    return CollaborationGraph(weight, met)


def graph_auc(found: CollaborationGraph, group: Ints) -> float | None:
    """Measure how well the graph tells the own `group` `[M]` from others; None unless pairs of both met."""
    same = group[:, None] == group[None, :]
    met = found.met & ~np.eye(len(group), dtype=bool)
    return auc(found.weight[met & same], found.weight[met & ~same])


def auc(inside: Floats, outside: Floats) -> float | None:
    """Compute the probability that one of `inside` is larger than one of `outside`, ties counting half."""
    n, m = len(inside), len(outside)
    if not n or not m:
        return None
    _, order, count = np.unique(np.concatenate([inside, outside]), return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[order]  # from 1, ties share their mean
    return float((rank[:n].sum() - n * (n + 1) / 2) / (n * m))
