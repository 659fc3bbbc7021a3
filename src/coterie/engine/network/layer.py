"""The contract of a layer of n stacked clients, each with its own weights.

Activations are `[n, B, features]`, or `[n, B, height, width, channels]` for images, so that a
convolution is a matrix product too.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

from torch import Tensor

from coterie.core.types import Tensors

__all__ = ["Forward", "Gradient", "Layer", "Outer"]


class Outer(NamedTuple):
    """A gradient left as its factors, Σ_b left_b right_bᵀ: descending by it need not write it down."""

    left: Tensor
    """`[n, B, rows]`"""
    right: Tensor
    """`[n, B, columns]`"""


Gradient: TypeAlias = Tensor | Outer


class Forward(NamedTuple):
    """What a layer puts out when it learns."""

    y: Tensor
    saved: Any
    """What its backward pass needs."""
    buffers: Tensors
    """Those that changed, by their full names."""


class Layer(Protocol):
    """One layer of all clients."""

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        """In training; `state`: parameters and buffers of all layers."""
        ...

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        """With running statistics."""
        ...

    def backward(
        self, state: Tensors, saved: Any, dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        """The gradient by the input (if layers `inner` to this one learn) and by each parameter."""
        ...
