r"""Layers one after the other, and two chains of them side by side: $y = \mathrm{ReLU}(S(x) + F(x))$."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from coterie.core.types import Tensors
from coterie.engine.analytic.layers import Backward, Forward, Grads, Layer, MaxPool, Relu

__all__ = ["Chain", "ResidualLayer"]


@dataclass(frozen=True)
class Chain(Layer):
    """Layers from the input on; one without any hands its input through."""

    layers: tuple[Layer, ...]
    learns: tuple[bool, ...]
    """True for a layer that has parameters, or stands behind one that has."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        saved: list[Any] = []
        buffers: Tensors = {}
        for layer in self.layers:
            x, kept, changed = layer.forward(state, x)
            saved.append(kept)
            buffers |= changed
        return Forward(x, saved, buffers)

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        for layer in self._pooled_first:
            x = layer.evaluate(state, x)
        return x

    def backward(self, state: Tensors, saved: Sequence[Any], dy: Tensor, inner: bool) -> Backward:
        grads: Grads = {}
        before = (inner, *(inner or learns for learns in self.learns))
        for layer, kept, behind, further in reversed(
            list(zip(self.layers, saved, before[1:], before[:-1], strict=True))
        ):
            if not behind:
                return None, grads
            dx, found = layer.backward(state, kept, dy, further)
            grads |= found
            if dx is None:
                return None, grads
            dy = dx
        return dy, grads

    @cached_property
    def _pooled_first(self) -> tuple[Layer, ...]:
        """Pool before each ReLU: the same function, and what is left is less to cut off at zero."""
        order = list(self.layers)
        for i, pair in enumerate(pairwise(self.layers)):
            if isinstance(pair[0], Relu) and isinstance(pair[1], MaxPool):
                order[i : i + 2] = pair[1], pair[0]
        return tuple(order)


@dataclass(frozen=True)
class ResidualLayer(Layer):
    """The positive part of the sum of two chains with one input."""

    residual: Chain
    shortcut: Chain

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        one, other = (chain.forward(state, x) for chain in (self.residual, self.shortcut))
        y = (one.y + other.y).relu_()
        return Forward(y, (one.saved, other.saved, y), {**one.buffers, **other.buffers})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        return (self.residual.evaluate(state, x) + self.shortcut.evaluate(state, x)).relu_()

    def backward(self, state: Tensors, saved: tuple[Any, Any, Tensor], dy: Tensor, inner: bool) -> Backward:
        one, other, y = saved
        dy = torch.ops.aten.threshold_backward(dy, y, 0)
        dx, grads = self.residual.backward(state, one, dy, inner)
        dx_too, others = self.shortcut.backward(state, other, dy, inner)
        return (dx + dx_too if dx is not None and dx_too is not None else None), {**grads, **others}
