"""$y = x W^T + b$"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coterie.core.types import Tensors
from coterie.engine.network.layer import Forward, Gradient, Outer

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear:
    """A fully connected layer."""

    name: str
    bias: bool

    @classmethod
    def of(cls, name: str, module: nn.Linear) -> Linear:
        return cls(name, module.bias is not None)

    def forward(self, state: Tensors, x: Tensor) -> Forward:
        return Forward(self.evaluate(state, x), x, {})

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        w = state[f"{self.name}.weight"]
        if not self.bias:
            return torch.bmm(x, w.mT)
        return torch.baddbmm(state[f"{self.name}.bias"][:, None], x, w.mT)

    def backward(
        self, state: Tensors, saved: Tensor, dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        grads: dict[str, Gradient] = {f"{self.name}.weight": Outer(dy, saved)}
        if self.bias:
            grads[f"{self.name}.bias"] = dy.sum(dim=1)
        return torch.bmm(dy, state[f"{self.name}.weight"]) if inner else None, grads
