r"""Concept shift: groups of clients that see the same things and call them differently.

Labels are laid out on a random ring, and group g calls each by the name g places further on, so
no two groups agree on any label: $y \mapsto \pi((\pi^{-1}(y) + g) \bmod L)$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["ConceptShift"]


@register("shift", "concept")
@dataclass(frozen=True)
class ConceptShift:
    """Groups of clients that call the same things by different labels."""

    groups: Annotated[int, Ge(1)] = 2
    """Groups of clients, each with its own names for the labels."""

    def inputs(self, x: Tensor, group: int) -> Tensor:
        return x

    def labels(self, y: Tensor, group: int, classes: int, stream: Stream) -> Tensor:
        if self.groups > classes:
            raise ConfigError(
                f"concept shift: {self.groups} groups cannot all differ on {classes} labels; "
                f"use at most {classes} groups"
            )
        ring = stream.permutation(classes)
        name = torch.empty_like(ring)
        name[ring] = ring.roll(-group)
        return name[y]
