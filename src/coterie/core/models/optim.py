r"""Optimisers as pure functions of one client's tensors.

SGD: $v \leftarrow m v + g + \lambda\theta,\; \theta \leftarrow \theta - \eta v$
(Adam: Kingma & Ba, ICLR 2015; its weight decay is added to the gradient, as in `torch.optim.Adam`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Lt
from pydantic import Strict

if TYPE_CHECKING:  # an experiment is read before torch is loaded
    from torch import Tensor

    from coterie.core.types import Tensors

__all__ = ["Adam", "Optimizer", "Scale", "Sgd"]

Scale: TypeAlias = "Mapping[str, Tensor | float]"
"""Factors of the step by parameter, `[]` or of the parameter's shape; 1 where none is named."""


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with momentum and weight decay."""

    name: Literal["sgd"] = "sgd"
    momentum: Annotated[float, Strict(), Ge(0), Lt(1)] = 0.0
    weight_decay: Annotated[float, Strict(), Ge(0)] = 0.0

    def init(self, params: Tensors) -> Tensors:
        if self.momentum == 0:
            return {}
        return {f"velocity.{k}": p.new_zeros(p.shape) for k, p in params.items()}

    def step(
        self, params: Tensors, grads: Tensors, optim: Tensors, lr: Tensor | float, scale: Scale | None = None
    ) -> tuple[Tensors, Tensors]:
        """Descend by `lr` `[]`, times a parameter's factor if there is one; what is kept moves regardless."""
        if self.weight_decay:
            grads = {k: g + self.weight_decay * params[k] for k, g in grads.items()}
        if self.momentum:
            optim = {f"velocity.{k}": self.momentum * optim[f"velocity.{k}"] + g for k, g in grads.items()}
            grads = {k: optim[f"velocity.{k}"] for k in grads}
        return {k: p - _rate(lr, scale, k) * grads[k] for k, p in params.items()}, optim


@dataclass(frozen=True)
class Adam:
    """Adam with bias correction."""

    name: Literal["adam"] = "adam"
    beta1: Annotated[float, Strict(), Ge(0), Lt(1)] = 0.9
    beta2: Annotated[float, Strict(), Ge(0), Lt(1)] = 0.999
    eps: Annotated[float, Strict(), Gt(0)] = 1e-8
    weight_decay: Annotated[float, Strict(), Ge(0)] = 0.0

    def init(self, params: Tensors) -> Tensors:
        moments = {f"{m}.{k}": p.new_zeros(p.shape) for m in ("first", "second") for k, p in params.items()}
        return {**{f"steps.{k}": p.new_zeros(()) for k, p in params.items()}, **moments}

    def step(
        self, params: Tensors, grads: Tensors, optim: Tensors, lr: Tensor | float, scale: Scale | None = None
    ) -> tuple[Tensors, Tensors]:
        """Descend by `lr` `[]`, times a parameter's factor if there is one; what is kept moves regardless."""
        new, out = {}, {}
        for k, p in params.items():
            steps = out[f"steps.{k}"] = optim[f"steps.{k}"] + 1  # its own: a part may stand still for a while
            g = grads[k] + self.weight_decay * p
            m = self.beta1 * optim[f"first.{k}"] + (1 - self.beta1) * g
            v = self.beta2 * optim[f"second.{k}"] + (1 - self.beta2) * g * g
            out[f"first.{k}"], out[f"second.{k}"] = m, v
            m_hat, v_hat = m / (1 - self.beta1**steps), v / (1 - self.beta2**steps)
            new[k] = p - _rate(lr, scale, k) * m_hat / (v_hat.sqrt() + self.eps)
        return new, out


Optimizer: TypeAlias = Sgd | Adam


def _rate(lr: Tensor | float, scale: Scale | None, name: str) -> Tensor | float:
    return lr * scale[name] if scale and name in scale else lr
