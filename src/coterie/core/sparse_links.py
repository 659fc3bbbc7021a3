r"""Draws of the links that are up, in time and memory proportional to them, when all links are alike.

Each of a star's n links is up with probability p, independently, so by counting:

$K \sim \mathrm{Bin}(n, p)$, by inversion; the K others are any K of the n alike; and the K uniform numbers
behind their gains are, in ascending order, $v_j = 1 - \prod_{i \le j} u_i^{1 / (K - i + 1)}$

Bentley, Saxe: Generating sorted lists of random numbers. ACM Transactions on Mathematical Software 6, 1980.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from coterie.core.streams import Stream

__all__ = ["Binomial", "binomial", "distinct", "smallest"]

_LEAST = 1e-20
"""Counts are left out that are less likely than this, and further out than others like that."""
_SPARE = 4
"""Numbers drawn for a star beyond those needed, in case some come twice."""


class Binomial(NamedTuple):
    """The likely counts of a binomial distribution, from the first to the last."""

    first: int
    cumulative: Tensor
    """`[C]` float64: the probability of each count or a smaller one; ends at 1."""

    @property
    def most(self) -> int:
        """The largest count that is ever drawn."""
        return self.first + len(self.cumulative) - 1

    def draw(self, u: Tensor) -> Tensor:
        """Turn uniform numbers into counts, int64."""
        return self.first + torch.searchsorted(self.cumulative, u)


@lru_cache(maxsize=64)
def binomial(n: int, p: float) -> Binomial:
    """Tabulate the successes of n trials, each with probability p; one entry for each likely count."""
    if n * p == 0 or p >= 1:
        return Binomial(n if p >= 1 else 0, torch.ones(1, dtype=torch.float64))
    mean, deviation = n * p, math.sqrt(n * p * (1 - p))
    low, high = (max(0, int(mean - 10 * deviation) - 60), min(n, int(mean + 10 * deviation) + 60))
    k = torch.arange(low, high, dtype=torch.float64)
    steps = torch.log((n - k) / (k + 1) * (p / (1 - p)))  # from the logarithm of one count's probability on
    logs = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    chance = torch.softmax(logs, dim=0)
    (likely,) = (chance > _LEAST).nonzero(as_tuple=True)
    first, last = int(likely[0]), int(likely[-1])
    cumulative = chance[first : last + 1].cumsum(0)
    cumulative[-1] = 1.0
    return Binomial(low + first, cumulative)


def smallest(u: Tensor, count: Tensor) -> Tensor:
    """Turn uniform numbers `[S, c]` into the c smallest of `count` `[S]` others, ascending, in (0, 1).

    Entries from a star's count on are without meaning.
    """
    left = (count[:, None] - torch.arange(u.shape[1])).clamp_min(1)
    return (-torch.expm1((u.log() / left).cumsum(dim=1))).clamp(2.0**-64, 1 - 2.0**-32)


def distinct(stream: Stream, t: Tensor, client: Tensor, count: Tensor, high: Tensor | int) -> Tensor:
    """Draw, for each client `[S]`, `count` `[S]` different integers below `high`, in random order.

    `[S, c]` with c the largest count; entries from a client's count on are 0. Numbers are drawn one after the
    other, and one that came before is passed over.
    """
    most = int(count.max()) if len(count) else 0
    if not most:
        return torch.zeros(len(count), 0, dtype=torch.int64)
    high = torch.as_tensor(high).expand(len(count))[:, None]
    width = most + _SPARE
    while True:
        words = stream.words(2 * width, t, client)
        drawn = (words[:, ::2] * high + (words[:, 1::2] * high >> 32)) >> 32
        ordered, place = drawn.sort(dim=1, stable=True)
        again = torch.zeros_like(drawn, dtype=torch.bool)
        again.scatter_(1, place[:, 1:], ordered[:, 1:] == ordered[:, :-1])
        rank = (~again).cumsum(dim=1)  # from 1
        if bool((rank[:, -1] >= count).all()):
            break
        width *= 2
    behind = torch.where(again | (rank > count[:, None]), most + 1, rank) - 1
    found = drawn.new_zeros(len(count), most + 1).scatter_(1, behind, drawn)
    return found[:, :most]
