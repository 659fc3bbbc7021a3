r"""A residual block, $y = \mathrm{ReLU}(\text{shortcut}(x) + F(x))$: a layer that the simulator knows.

He, Zhang, Ren, Sun: Deep residual learning for image recognition. CVPR 2016.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Residual"]


class Residual(nn.Module):
    """The positive part of the sum of two chains of layers; a shortcut without layers is the input itself."""

    def __init__(self, residual: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.residual, self.shortcut = residual, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.shortcut(x) + self.residual(x))
