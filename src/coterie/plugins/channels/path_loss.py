r"""Rayleigh fading between clients that have places: the nearer, the better the link on average.

$g_{ij} = -\ln u \cdot d_{ij}^{-\alpha}$, up iff $g_{ij} \ge \gamma$, which has probability
$p_{ij} = e^{-\gamma d_{ij}^{\alpha}}$; $\gamma$ is such that $\frac{1}{M}\sum_{i,j} p_{ij} = \bar k$

Tse, Viswanath: Fundamentals of wireless communication. Cambridge University Press, 2005.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from coterie.core.graph import Graph, Links
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["PathLoss"]

_PAIRS = 4_000_000
_BINS = 10_000


@register("channel", "path_loss")
@dataclass(frozen=True)
class PathLoss:
    """Rayleigh fading with path loss: clients have fixed places in the unit square."""

    neighbours: Annotated[float, Gt(0)] = 5.0
    """k̄, the expected number of neighbours in reach, averaged over the clients."""
    exponent: Annotated[float, Gt(0)] = 3.0
    """α: 2 in free space, 3 to 4 in cities."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        place = stream.uniform(2, client=torch.arange(graph.clients))
        return partial(_gains, place, self.exponent, self._threshold(graph, place))

    def _threshold(self, graph: Graph, place: Tensor) -> float:
        """Find γ by bisection; with thousands of clients from the links of a part of them."""
        width = graph.candidates(torch.tensor([0])).shape[1]
        star = torch.arange(min(graph.clients, max(1, _PAIRS // max(1, width))))
        candidate = graph.candidates(star)
        distances = _distance(place, star, candidate)[candidate >= 0]
        counts = torch.histc(distances, _BINS, 0.0, math.sqrt(2))
        loss = ((torch.arange(_BINS).double() + 0.5) / _BINS * math.sqrt(2)) ** self.exponent

        def expected(gamma: float) -> float:
            return float((counts * torch.exp(-gamma * loss)).sum()) / len(star)

        if self.neighbours >= expected(0.0):
            return 0.0
        low, high = -500.0, 500.0  # of ln γ
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if expected(math.exp(middle)) > self.neighbours else (low, middle)
        return math.exp(low)


def _distance(place: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    (x, y), (xs, ys) = place[candidate].unbind(-1), place[star, None].unbind(-1)
    return torch.hypot(x - xs, y - ys)


def _gains(
    place: Tensor, exponent: float, threshold: float, u: Tensor, star: Tensor, candidate: Tensor
) -> Tensor:
    gain = -torch.log(u) * _distance(place, star, candidate) ** -exponent
    return torch.where(gain >= threshold, gain, 0.0)
