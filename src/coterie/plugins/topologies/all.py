"""Everybody has a link to everybody: one radio cell, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["All"]


@register("topology", "all")
@dataclass(frozen=True)
class All:
    """Everybody has a link to everybody."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor | None:
        return None
