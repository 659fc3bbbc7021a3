"""A multi-layer perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt
from torch import nn

from coterie.core.registry import register

__all__ = ["Mlp"]


@register("model", "mlp")
@dataclass(frozen=True)
class Mlp:
    """Fully connected layers with ReLU between them; takes inputs of any shape."""

    hidden: tuple[Annotated[int, Ge(1)], ...] = (64,)
    """Width of each hidden layer."""
    norm: Literal["none", "batch", "layer"] = "none"
    """Normalisation before each ReLU."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Probability that a hidden value is dropped."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        width = math.prod(inputs)
        for wide in self.hidden:
            layers.append(nn.Linear(width, wide))
            if self.norm != "none":
                layers.append(nn.BatchNorm1d(wide) if self.norm == "batch" else nn.LayerNorm(wide))
            layers.append(nn.ReLU())
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
            width = wide
        return nn.Sequential(*layers, nn.Linear(width, classes))
