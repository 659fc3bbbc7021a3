"""A small convolutional net, for images from 4 x 4 pixels on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt, MinLen
from torch import nn

from coterie.core.registry import register
from coterie.plugins.models._shapes import image

__all__ = ["Cnn"]


@register("model", "cnn")
@dataclass(frozen=True)
class Cnn:
    """3 x 3 convolutions, each followed by ReLU and 2 x 2 pooling, and one hidden layer."""

    channels: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = (16, 32)
    """Output channels of each convolution."""
    hidden: Annotated[int, Ge(1)] = 64
    """Width of the layer before the last."""
    norm: Literal["none", "batch", "group"] = "none"
    """Normalisation after each convolution; `group` has four channels in a group, if they divide."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """On the hidden layer."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        n, height, width = image("cnn", inputs, smallest=2 ** len(self.channels))
        layers: list[nn.Module] = []
        for wide in self.channels:
            layers.append(nn.Conv2d(n, wide, 3, padding=1))
            if self.norm == "batch":
                layers.append(nn.BatchNorm2d(wide))
            elif self.norm == "group":
                layers.append(nn.GroupNorm(wide // math.gcd(wide, 4), wide))
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
            n, height, width = wide, height // 2, width // 2
        layers += [nn.Flatten(), nn.Linear(n * height * width, self.hidden), nn.ReLU()]
        if self.dropout:
            layers.append(nn.Dropout(self.dropout))
        return nn.Sequential(*layers, nn.Linear(self.hidden, classes))
