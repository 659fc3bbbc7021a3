r"""Places for the clients such that those who listen to each other lie near each other.

Each pair is pushed apart by $k^2 / d$ and pulled together by $a_{ij}\, d^2 / k$.

Fruchterman, Reingold: Graph drawing by force-directed placement. Software: Practice and
Experience 21, 1991.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from coterie.runs.graph import Graph
from coterie.runs.tracks import Floats, Ints

__all__ = ["affinity", "clustered", "places"]

_STEPS, _FEWER = 60, 24
_MANY = 300
"""More clients than this get fewer steps: each costs M² operations."""


def affinity(found: Graph) -> Floats:
    """`[M, M]` how much two clients listen to each other, from 0 to 1; pairs that never met count 0."""
    weight = np.where(found.met, found.weight, 0.0)
    weight = weight / np.maximum(weight.max(axis=1, keepdims=True), 1e-12)
    both: Floats = (weight + weight.T) / 2
    return both


def clustered(near: Floats) -> Ints:
    """An order in which clients that listen to each other follow each other: average linkage."""
    if len(near) < 3:
        return np.arange(len(near))
    far = 1 - near
    np.fill_diagonal(far, 0)
    order: Ints = leaves_list(linkage(squareform(far, checks=False), "average")).astype(np.int64)
    return order


def places(near: Floats, order: Ints, start: Floats | None = None) -> Floats:
    """`[M, 2]` within the unit disc, from earlier places on or from a circle in that order: no chance."""
    m = len(near)
    angle = np.empty(m, dtype=np.float32)
    angle[order] = 2 * np.pi * np.arange(m) / m
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1) if start is None else start.astype(np.float32)
    each = min(m - 1, 6)
    i = np.repeat(np.arange(m), each)
    j = np.argpartition(-near, each - 1, axis=1)[:, :each].ravel()
    pull = near[i, j].astype(np.float32)
    k = np.float32(1.6 / np.sqrt(m))
    steps = _STEPS if m <= _MANY and start is None else _FEWER
    for step in range(steps):
        square = (at**2).sum(axis=1)
        push = -2 * at @ at.T
        push += square[:, None]
        push += square[None, :]
        np.divide(k * k, np.maximum(push, 1e-5, out=push), out=push)
        move = at * push.sum(axis=1, keepdims=True) - push @ at - 0.4 * at  # a little towards the middle
        apart = at[i] - at[j]
        drawn = apart * (pull * np.linalg.norm(apart, axis=1) / k)[:, None]
        np.subtract.at(move, i, drawn)
        np.add.at(move, j, drawn)
        far = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at = at + move / far * np.minimum(far, 0.12 * (1 - step / steps))
    at = at - at.mean(axis=0)
    scaled: Floats = (at / max(float(np.linalg.norm(at, axis=1).max()), 1e-9)).astype(np.float64)
    return scaled
