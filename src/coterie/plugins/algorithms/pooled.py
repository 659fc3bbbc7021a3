"""Pooled learning: every client trains on the samples of all, as if privacy were no concern.

The row of a table that says what sharing the data themselves would give: the ceiling where clients agree, and
less than Local where they contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coterie.core.registry import register
from coterie.plugins.algorithms.local import Local

__all__ = ["Pooled"]


@register("algorithm", "Pooled")
@dataclass(frozen=True)
class Pooled(Local):
    """Every client learns from the samples of all clients; no real peer can."""

    pools: ClassVar[bool] = True
    knows_the_truth: ClassVar[bool] = True
