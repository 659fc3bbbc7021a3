"""Every link is up with the same probability; those that are up are equally good."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.graph import AlikeLinks, Graph, Links
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["Bernoulli"]


@register("channel", "bernoulli")
@dataclass(frozen=True)
class Bernoulli:
    """Every link is up with the same probability, independently."""

    up: Annotated[float, Ge(0), Le(1)] = 0.5
    """The probability that a link is up."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        gains = partial(_gains, self.up)
        return gains if graph.neighbours is not None else AlikeLinks(gains, self.up, partial(_best, self.up))


def _gains(up: float, u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    return torch.where(u < up, u, 0.0)  # u as the gain, so that a cap keeps any of them


def _best(up: float, v: Tensor) -> Tensor:
    return up * (1 - v)
