r"""A small residual net: $x \leftarrow \mathrm{ReLU}(\text{shortcut}(x) + F(x))$.

He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, MinLen
from torch import nn

from coterie.core.models.residual import Residual
from coterie.core.registry import register
from coterie.plugins.models._shapes import image

__all__ = ["ResNet"]

Norm = Literal["group", "batch"]


@register("model", "resnet")
@dataclass(frozen=True)
class ResNet:
    """A small residual net: one block for each width, each after the first at half the resolution."""

    widths: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = (16, 32, 64)
    """Channels of each block."""
    norm: Norm = "group"
    """`group` has four channels in a group, if they divide."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image("resnet", inputs, smallest=2 ** (len(self.widths) - 1))
        blocks: list[nn.Module] = []
        for i, width in enumerate(self.widths):
            blocks.append(_block(channels, width, stride=1 if i == 0 else 2, norm=self.norm))
            channels = width
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def _block(channels: int, width: int, stride: int, norm: Norm) -> Residual:
    residual = nn.Sequential(
        nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
        _norm(norm, width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        _norm(norm, width),
    )
    return Residual(
        residual, nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), _norm(norm, width))
    )


def _norm(norm: Norm, width: int) -> nn.Module:
    return nn.BatchNorm2d(width) if norm == "batch" else nn.GroupNorm(width // math.gcd(width, 4), width)
