"""The paper's model of EMNIST: 970,847 parameters for 28 x 28 pixels and 47 classes.

Jeong, Kountouris: Personalized decentralized federated learning with knowledge distillation.
ICC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from coterie.core.registry import register
from coterie.plugins.models._shapes import image

__all__ = ["EmnistCnn"]

HIDDEN = 857
"""The one width with which the classic net of 32 and 64 channels has the paper's parameter count."""


@register("model", "emnist_cnn")
@dataclass(frozen=True)
class EmnistCnn:
    """The paper's EMNIST model: two 5 x 5 convolutions with pooling, 857 hidden units."""

    def build(self, inputs: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image("emnist_cnn", inputs, smallest=16)
        pixels = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2)
        return nn.Sequential(
            nn.Conv2d(channels, 32, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * pixels, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, classes),
        )
