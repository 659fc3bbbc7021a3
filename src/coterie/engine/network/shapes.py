"""Layers without weights: ReLU, pooling, flattening."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

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
    """The largest of each `size` x `size` pixels; the first of them where several are.

    On a GPU written out, so that it becomes one kernel with its neighbours once compiled.
    """

    size: int

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        if x.device.type == "cpu":
            y, which = nn.functional.max_pool2d(_images(x), self.size, return_indices=True)
            return Forward(_stacked(y, len(x)), (which, x), {})
        tiles, k = self._tiles(x), self.size
        largest = tiles[:, :, :, 0, :, 0]
        which = torch.zeros_like(largest, dtype=torch.uint8)
        for place in range(1, k * k):
            other = tiles[:, :, :, place // k, :, place % k]
            which = which.masked_fill(other > largest, place)
            largest = torch.maximum(largest, other)
        return Forward(largest, (which, x), {})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            return _stacked(nn.functional.max_pool2d(_images(x), self.size), len(x))
        tiles, k = self._tiles(x), range(self.size)
        return reduce(torch.maximum, (tiles[:, :, :, i, :, j] for i in k for j in k))

    def backward(
        self, state: Tensors, saved: tuple[Tensor, Tensor], dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        (which, x), k = saved, self.size
        if x.device.type == "cpu":
            window = ([k, k], [k, k], [0, 0], [1, 1], False)
            dx = torch.ops.aten.max_pool2d_with_indices_backward(_images(dy), _images(x), *window, which)
            return _stacked(dx, len(x)), {}
        places = torch.arange(k * k, dtype=torch.uint8, device=dy.device).view(k, 1, k, 1)
        tiles = torch.where(which[:, :, :, None, :, None] == places, dy[:, :, :, None, :, None], 0.0)
        dx = tiles.flatten(4, 5).flatten(2, 3)
        rest = (0, 0, 0, x.shape[3] % k, 0, x.shape[2] % k)
        return nn.functional.pad(dx, rest) if any(rest) else dx, {}

    def _tiles(self, x: Tensor) -> Tensor:
        """`[n, B, H/k, k, W/k, k, C]`; a rest at the border is left out."""
        n, b, height, width, c = x.shape
        k = self.size
        whole = x[:, :, : height // k * k, : width // k * k]
        return whole.reshape(n, b, height // k, k, width // k, k, c)


def _images(x: Tensor) -> Tensor:
    """All clients' images in one batch, `[n x B, C, H, W]`, with channels last in memory."""
    return x.flatten(0, 1).permute(0, 3, 1, 2)


def _stacked(images: Tensor, n: int) -> Tensor:
    """The other way round."""
    last = images.permute(0, 2, 3, 1)
    return last.reshape(n, -1, *last.shape[1:])
