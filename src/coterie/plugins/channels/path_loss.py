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

from coterie.core.graph import SMALL, Graph, Links, NearLinks
from coterie.core.registry import register
from coterie.core.streams import Stream
from coterie.plugins.channels._cells import Cells, distance

__all__ = ["PathLoss"]

_PAIRS = 4_000_000
_BINS = 10_000
_WIDER = 1 + 1e-9
"""Room for rounding."""


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
        if graph.neighbours is not None or graph.clients <= SMALL:
            return partial(_gains, place, self.exponent, self._threshold(graph, place))
        threshold = self._threshold_of_many(place)
        cells = Cells(place, self._longest(math.log(threshold) if threshold else -math.inf))
        return NearLinks(partial(_gains, place, self.exponent, threshold), cells.near, cells.most)

    def _threshold(self, graph: Graph, place: Tensor) -> float:
        """Find γ; with thousands of clients from the links of a part of them."""
        width = graph.candidates(torch.tensor([0])).shape[1]
        star = torch.arange(min(graph.clients, max(1, _PAIRS // max(1, width))))
        candidate = graph.candidates(star)
        return self._solved(distance(place, star, candidate)[candidate >= 0], math.sqrt(2), len(star))

    def _threshold_of_many(self, place: Tensor) -> float:
        """Find γ from the near clients of a part of many; γ₀ would do on a plane without end."""
        unbounded = math.log(len(place) * math.pi / self.neighbours) + math.lgamma(1 + 2 / self.exponent)
        radius = min(math.sqrt(2), 2 * self._longest(unbounded * self.exponent / 2))
        cells = Cells(place, radius)
        star = torch.arange(min(len(place), 64 * cells.stars_at_once))
        candidate = cells.near(star)
        return self._solved(distance(place, star, candidate)[candidate >= 0], radius, len(star))

    def _longest(self, log_threshold: float) -> float:
        """Compute from ln γ the distance beyond which no link is up, as there is no smaller u than 2⁻³³."""
        log = (math.log(33 * math.log(2)) - log_threshold) / self.exponent
        return min(math.sqrt(2), math.exp(min(log, 1.0)) * _WIDER)

    def _solved(self, distances: Tensor, longest: float, stars: int) -> float:
        """Find γ by bisection, from the distances of some stars to all that are not beyond `longest`."""
        counts = torch.histc(distances, _BINS, 0.0, longest)
        loss = ((torch.arange(_BINS).double() + 0.5) / _BINS * longest) ** self.exponent

        def expected(gamma: float) -> float:
            return float((counts * torch.exp(-gamma * loss)).sum()) / stars

        if self.neighbours >= expected(0.0):
            return 0.0
        low, high = -500.0, 500.0  # of ln γ
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if expected(math.exp(middle)) > self.neighbours else (low, middle)
        return math.exp(low)


def _gains(
    place: Tensor, exponent: float, threshold: float, u: Tensor, star: Tensor, candidate: Tensor
) -> Tensor:
    gain = -torch.log(u) * distance(place, star, candidate) ** -exponent
    return torch.where(gain >= threshold, gain, 0.0)
