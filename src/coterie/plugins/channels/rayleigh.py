r"""Rayleigh fading: the power gain of a link is exponential, and a good one is up.

$g_{ij} = -\ln u \sim \mathrm{Exp}(1)$, up iff $g_{ij} \ge -\ln(\bar k / \deg_i)$
or, the same, $u \le \bar k / \deg_i$

Jeong, Kountouris: Personalized decentralized federated learning with knowledge distillation. ICC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from coterie.core.graph import AlikeLinks, Graph, Links
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["Rayleigh"]


@register("channel", "rayleigh")
@dataclass(frozen=True)
class Rayleigh:
    """Rayleigh fading: each exchange reaches other neighbours, as many as given on average."""

    neighbours: Annotated[float, Gt(0)] = 5.0
    """k̄, the expected number of neighbours in reach; all of them if there are no more."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        gains = partial(_gains, self.neighbours / graph.degree().double())
        if graph.neighbours is not None:
            return gains
        up = min(1.0, self.neighbours / max(1, graph.clients - 1))
        return AlikeLinks(gains, up, partial(_best, up))


def _gains(share: Tensor, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    up = u <= share[star, None]
    return torch.zeros_like(u).masked_scatter_(up, -torch.log(u[up]))  # of thousands of links few are up


def _best(up: float, v: Tensor) -> Tensor:
    return -torch.log(up * v)
