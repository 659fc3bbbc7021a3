"""Every link is always up; none is better than another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core.graph import AlikeLinks, Graph, Links
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["Ideal"]


@register("channel", "ideal")
@dataclass(frozen=True)
class Ideal:
    """Every link is always up."""

    def links(self, graph: Graph, stream: Stream) -> Links:
        return _gains if graph.neighbours is not None else AlikeLinks(_gains, 1.0, _best)


def _gains(u: Tensor, star: Tensor, candidate: Tensor) -> Tensor:
    return u  # so that a cap keeps any of them, instead of always the first


def _best(v: Tensor) -> Tensor:
    return 1 - v
