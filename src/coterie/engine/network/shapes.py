"""Layers without weights: ReLU, pooling, flattening."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coterie.core.types import Tensors
from coterie.engine.network.layer import Forward, Gradient

__all__ = ["Flatten", "MaxPool", "Relu"]


@dataclass(frozen=True)
class Relu:
    """$y = max(0, x)$"""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        y = x.relu()
        return Forward(y, y, {})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        return x.relu()

    def backward(
        self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        return torch.ops.aten.threshold_backward(dy, saved, 0), {}


@dataclass(frozen=True)
class Flatten:
    """Images to features, in the order channel, row, column."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        return Forward(self.evaluate(state, x), x.shape, {})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        return (x.permute(0, 1, 4, 2, 3) if x.dim() == 5 else x).flatten(2)

    def backward(
        self, state: Tensors, saved: torch.Size, dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        if len(saved) != 5:
            return dy.view(saved), {}
        n, b, height, width, channels = saved
        return dy.view(n, b, channels, height, width).permute(0, 1, 3, 4, 2), {}


@dataclass(frozen=True)
class MaxPool:
    """The largest of each `size` x `size` pixels; the first of them where several are."""

    size: int

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        tiles = self._tiles(x)
        k = self.size
        largest = tiles[:, :, :, 0, :, 0]
        which = torch.zeros_like(largest, dtype=torch.uint8)
        for place in range(1, k * k):
            other = tiles[:, :, :, place // k, :, place % k]
            which = which.masked_fill(other > largest, place)
            largest = torch.maximum(largest, other)
        return Forward(largest, (which, x.shape), {})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        return self._tiles(x).amax(dim=(3, 5))

    def backward(
        self, state: Tensors, saved: tuple[Tensor, torch.Size], dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        (which, (_, _, height, width, _)), k = saved, self.size
        places = torch.arange(k * k, dtype=torch.uint8, device=dy.device).view(k, 1, k, 1)
        tiles = torch.where(which[:, :, :, None, :, None] == places, dy[:, :, :, None, :, None], 0.0)
        dx = tiles.flatten(4, 5).flatten(2, 3)
        rest = (0, 0, 0, width % k, 0, height % k)
        return torch.nn.functional.pad(dx, rest) if any(rest) else dx, {}

    def _tiles(self, x: Tensor) -> Tensor:
        """`[n, B, H/k, k, W/k, k, C]`; a rest at the border is left out."""
        n, b, height, width, c = x.shape
        k = self.size
        whole = x[:, :, : height // k * k, : width // k * k]
        return whole.reshape(n, b, height // k, k, width // k, k, c)
