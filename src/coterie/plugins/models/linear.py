"""Multinomial logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from coterie.core.registry import register

__all__ = ["LinearModel"]


@register("model", "linear")
@dataclass(frozen=True)
class LinearModel:
    """Multinomial logistic regression: one linear layer."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(inputs), classes))
