"""Links that there are (a topology), and those of them that are up right now (a channel).

Axes: M clients, S stars of one exchange, D candidates of a star (the slots of its links).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from coterie.core.streams import Stream

__all__ = ["SMALL", "AlikeLinks", "Channel", "Graph", "Links", "NearLinks", "Topology", "table"]

SMALL = 2048
"""Clients of a small population, in which every link is drawn and every client's row has an entry for
everybody; in a larger one, only links that are up are drawn, and rows have entries for those met."""


class Graph(NamedTuple):
    """Whom each client can ask, if the link is up."""

    clients: int
    neighbours: Tensor | None
    """`[M, D]` int64, padded with -1; None: everybody, without a table of M x M."""

    def candidates(self, star: Tensor) -> Tensor:
        """List the clients at the other end of each star's links, `[S, D]` int64; -1: no link."""
        if self.neighbours is not None:
            return self.neighbours[star]
        everybody = torch.arange(self.clients)
        return torch.where(everybody == star[:, None], -1, everybody)

    def degree(self) -> Tensor:
        """Count the links of each client, `[M]` int64."""
        if self.neighbours is not None:
            return (self.neighbours >= 0).sum(dim=1)
        return torch.full((self.clients,), self.clients - 1)


Links: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""`(u, star, candidate) -> gain`: from fresh uniforms `[S, D]`, the stars' ids `[S]` and their
candidates `[S, D]` (-1 where there is no link: any value will do), the gain of every link `[S, D]`:
positive, the larger the better, and 0 for a link that is down."""


@dataclass(frozen=True)
class AlikeLinks:
    """Links between everybody that are up independently, all with the same probability.

    In a large population only those that are up are drawn.
    """

    gains: Links
    up: float
    """The probability that a link is up."""
    best: Callable[[Tensor], Tensor]
    """From uniform numbers, the gains of links that are up; the smaller a number, the larger its gain."""

    def __call__(self, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
        return self.gains(u, star, candidate)


@dataclass(frozen=True)
class NearLinks:
    """Links between everybody of which only those to near clients can be up.

    In a large population only these are drawn.
    """

    gains: Links
    near: Callable[[Tensor], Tensor]
    """From the stars' ids `[S]`, the clients to which their links can be up, `[S, D]`, padded with -1."""
    most: Callable[[], int]
    """Counts the near clients of the client that has most of them."""

    def __call__(self, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
        return self.gains(u, star, candidate)


@runtime_checkable
class Topology(Protocol):
    """A topology plugin: a frozen dataclass whose fields are its options."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor | None:
        """List whom each client can ask: `[M, D]` int64, padded with -1; None: everybody."""
        ...


@runtime_checkable
class Channel(Protocol):
    """A channel plugin: a frozen dataclass whose fields are its options."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        """Make the links over this graph; what does not change from one exchange to the next is done here.

        Over everybody they may be `AlikeLinks` or `NearLinks`: these cost, in a large population, what is up.
        """
        ...


def table(neighbours: Sequence[Collection[int]]) -> Tensor:
    """Put lists of neighbours, one for each client, into `[M, D]` int64, in order, padded with -1."""
    width = max(map(len, neighbours), default=0)
    rows = [sorted(row) + [-1] * (width - len(row)) for row in neighbours]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width)
