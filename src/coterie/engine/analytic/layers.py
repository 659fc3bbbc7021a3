r"""Layers of n stacked clients, each with its own weights, and their derivatives.

Activations are `[n, B, features]`, or `[n, B, height, width, channels]` for images, so that a
convolution is a matrix product too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from coterie.core.types import Tensors

__all__ = [
    "AveragePool",
    "Backward",
    "BatchNorm",
    "Flatten",
    "Forward",
    "Grads",
    "GroupNorm",
    "Layer",
    "Linear",
    "MaxPool",
    "OuterProduct",
    "Relu",
    "folded",
    "unfolded",
]


class OuterProduct(NamedTuple):
    """A gradient left as its factors, Σ_b left_b right_bᵀ: descending by it need not write it down."""

    left: Tensor
    """`[n, B, rows]`"""
    right: Tensor
    """`[n, B, columns]`"""


Grads: TypeAlias = dict[str, Tensor | OuterProduct]
Backward: TypeAlias = tuple[Tensor | None, Grads]


class Forward(NamedTuple):
    """The output of a layer in training."""

    y: Tensor
    saved: Any
    """Passed on to the layer's `backward`."""
    buffers: Tensors
    """Buffers that changed, by their full names."""


class Layer(Protocol):
    """One layer of all clients; `state` holds the parameters and buffers of all layers."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        """Compute the output in training."""
        ...

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        """Compute the output with running statistics."""
        return self.forward(state, x).y

    def backward(self, state: Tensors, saved: Any, dy: Tensor, inner: bool) -> Backward:
        """Differentiate by the input (if layers `inner` to this one learn) and by each parameter."""
        ...


@dataclass(frozen=True)
class Linear(Layer):
    r"""A fully connected layer, $y = x W^T + b$."""

    name: str
    bias: bool

    @classmethod
    def of(cls, name: str, module: nn.Linear) -> Linear:
        return cls(name, module.bias is not None)

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        w = state[f"{self.name}.weight"].mT
        y = torch.baddbmm(state[f"{self.name}.bias"][:, None], x, w) if self.bias else torch.bmm(x, w)
        return Forward(y, x, {})

    def backward(self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool) -> Backward:
        grads: Grads = {f"{self.name}.weight": OuterProduct(dy, saved)}
        if self.bias:
            grads[f"{self.name}.bias"] = dy.sum(dim=1)
        return torch.bmm(dy, state[f"{self.name}.weight"]) if inner else None, grads


@dataclass(frozen=True)
class BatchNorm(Layer):
    r"""Normalisation over the mini-batch, $y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$.

    Features or channels are the last axis. Ioffe, Szegedy: Batch normalization. ICML 2015.
    """

    name: str
    eps: float
    momentum: float

    @classmethod
    def of(cls, name: str, module: nn.BatchNorm1d | nn.BatchNorm2d) -> BatchNorm | None:
        if not module.affine or not module.track_running_stats or module.momentum is None:
            return None
        return cls(name, module.eps, module.momentum)

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        flat = x.flatten(1, -2)
        samples = flat.shape[1]
        mean = flat.mean(dim=1)
        centred = flat - mean[:, None]
        var = centred.square().mean(dim=1)
        inverse = (var + self.eps).rsqrt()
        scale = self._get(state, "weight") * inverse
        y = torch.addcmul(self._get(state, "bias")[:, None], centred, scale[:, None])
        buffers = {
            f"{self.name}.running_mean": self._get(state, "running_mean").lerp(mean, self.momentum),
            f"{self.name}.running_var": self._get(state, "running_var").lerp(
                var * (samples / (samples - 1)), self.momentum
            ),
            f"{self.name}.num_batches_tracked": self._get(state, "num_batches_tracked") + 1,
        }
        return Forward(y.view(x.shape), (centred, inverse), buffers)

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        scale = self._get(state, "weight") * (self._get(state, "running_var") + self.eps).rsqrt()
        shift = self._get(state, "bias") - self._get(state, "running_mean") * scale
        return torch.addcmul(shift[:, None], x.flatten(1, -2), scale[:, None]).view(x.shape)

    def backward(self, state: Tensors, saved: tuple[Tensor, Tensor], dy: Tensor, inner: bool) -> Backward:
        centred, inverse = saved
        flat = dy.flatten(1, -2)
        d_weight, d_bias = (flat * centred).sum(dim=1) * inverse, flat.sum(dim=1)
        grads: Grads = {f"{self.name}.weight": d_weight, f"{self.name}.bias": d_bias}
        if not inner:
            return None, grads
        # γ / σ (dy - mean(dy) - mean(dy normal) normal), in as few strokes as there are large tensors.
        scale = self._get(state, "weight") * inverse
        share = -scale / flat.shape[1]
        rest = torch.addcmul((share * d_bias)[:, None], centred, (share * d_weight * inverse)[:, None])
        return rest.addcmul_(flat, scale[:, None]).view(dy.shape), grads

    def _get(self, state: Tensors, name: str) -> Tensor:
        return state[f"{self.name}.{name}"]


@dataclass(frozen=True)
class GroupNorm(Layer):
    r"""Normalisation of each sample over groups of channels, by the same equation.

    Wu, He: Group normalization. ECCV 2018.
    """

    name: str
    groups: int
    eps: float

    @classmethod
    def of(cls, name: str, module: nn.GroupNorm) -> GroupNorm | None:
        return cls(name, module.num_groups, module.eps) if module.affine else None

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        images = folded(x)
        normal, mean, inverse = torch.native_group_norm(
            images, None, None, *self._sizes(images, len(x)), self.eps
        )
        normal = unfolded(normal, len(x))
        weight, bias = (_overfolded(state[f"{self.name}.{part}"]) for part in ("weight", "bias"))
        return Forward(torch.addcmul(bias, normal, weight), (x, normal, mean, inverse), {})

    def backward(self, state: Tensors, saved: tuple[Tensor, ...], dy: Tensor, inner: bool) -> Backward:
        x, normal, mean, inverse = saved
        flat = dy.flatten(1, -2)
        grads: Grads = {
            f"{self.name}.weight": (flat * normal.flatten(1, -2)).sum(dim=1),
            f"{self.name}.bias": flat.sum(dim=1),
        }
        if not inner:
            return None, grads
        images, outer = folded(x), folded(dy * _overfolded(state[f"{self.name}.weight"]))
        how = (*self._sizes(images, len(x)), [True, False, False])
        dx = torch.ops.aten.native_group_norm_backward(outer, images, mean, inverse, None, *how)[0]
        return unfolded(dx, len(x)), grads

    def _sizes(self, images: Tensor, clients: int) -> tuple[int, int, int, int]:
        return images.shape[0], images.shape[1], images[0, 0].numel(), clients * self.groups


@dataclass(frozen=True)
class Relu(Layer):
    """The positive part, $y = max(0, x)$."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        y = x.relu()
        return Forward(y, y, {})

    def backward(self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool) -> Backward:
        return torch.ops.aten.threshold_backward(dy, saved, 0), {}


@dataclass(frozen=True)
class Flatten(Layer):
    """Images to features, in the order channel, row, column."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        return Forward((x.permute(0, 1, 4, 2, 3) if x.dim() == 5 else x).flatten(2), x.shape, {})

    def backward(self, state: Tensors, saved: torch.Size, dy: Tensor, inner: bool) -> Backward:
        if len(saved) != 5:
            return dy.view(saved), {}
        n, b, height, width, channels = saved
        return dy.view(n, b, channels, height, width).permute(0, 1, 3, 4, 2), {}


@dataclass(frozen=True)
class MaxPool(Layer):
    """The largest of each `size` x `size` pixels; the first of them where several are.

    On a GPU written out, so that it becomes one kernel with its neighbours once compiled.
    """

    size: int

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        if x.device.type == "cpu":
            y, which = nn.functional.max_pool2d(folded(x), self.size, return_indices=True)
            return Forward(unfolded(y, len(x)), (which, x), {})
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
            return unfolded(nn.functional.max_pool2d(folded(x), self.size), len(x))
        tiles, k = self._tiles(x), range(self.size)
        return reduce(torch.maximum, (tiles[:, :, :, i, :, j] for i in k for j in k))

    def backward(self, state: Tensors, saved: tuple[Tensor, Tensor], dy: Tensor, inner: bool) -> Backward:
        (which, x), k = saved, self.size
        if x.device.type == "cpu":
            window = ([k, k], [k, k], [0, 0], [1, 1], False)
            dx = torch.ops.aten.max_pool2d_with_indices_backward(folded(dy), folded(x), *window, which)
            return unfolded(dx, len(x)), {}
        places = torch.arange(k * k, dtype=torch.uint8, device=dy.device).view(k, 1, k, 1)
        tiles = torch.where(which[:, :, :, None, :, None] == places, dy[:, :, :, None, :, None], 0.0)
        dx = tiles.flatten(4, 5).flatten(2, 3)
        rest = (0, 0, 0, x.shape[3] % k, 0, x.shape[2] % k)
        return nn.functional.pad(dx, rest) if any(rest) else dx, {}

    def _tiles(self, x: Tensor) -> Tensor:
        """View as `[n, B, H/k, k, W/k, k, C]`; a rest at the border is left out."""
        n, b, height, width, c = x.shape
        k = self.size
        whole = x[:, :, : height // k * k, : width // k * k]
        return whole.reshape(n, b, height // k, k, width // k, k, c)


@dataclass(frozen=True)
class AveragePool(Layer):
    """The mean of all pixels."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        return Forward(x.mean(dim=(2, 3), keepdim=True), x, {})

    def backward(self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool) -> Backward:
        return torch.empty_like(saved).copy_(dy / saved[0, 0, ..., 0].numel()), {}


def _overfolded(channels: Tensor) -> Tensor:
    """Lay out numbers of channels `[n, C]` beside images `[n, B, H, W, C]`."""
    return channels[:, None, None, None]


def folded(x: Tensor) -> Tensor:
    """Make channels of the clients' images `[n, B, H, W, C]`: `[B, n x C, H, W]`, channels last in memory.

    On a CPU images lie so from the first layer on, and nothing is copied.
    """
    return x.permute(1, 2, 3, 0, 4).flatten(3).contiguous().permute(0, 3, 1, 2)


def unfolded(images: Tensor, n: int) -> Tensor:
    """Undo `folded`, without a copy."""
    last = images.permute(0, 2, 3, 1)
    return last.view(*last.shape[:3], n, -1).permute(3, 0, 1, 2, 4)
