r"""$y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta$, by statistics of the batch or running ones.

Ioffe, Szegedy: Batch normalization. ICML 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from coterie.core.types import Tensors
from coterie.engine.network.layer import Forward, Gradient

__all__ = ["BatchNorm"]


class _Saved(NamedTuple):
    normal: Tensor
    inverse: Tensor


@dataclass(frozen=True)
class BatchNorm:
    """Normalisation over the mini-batch, features or channels being the last axis."""

    name: str
    eps: float
    momentum: float

    @classmethod
    def of(cls, name: str, module: nn.Module) -> BatchNorm | None:
        assert isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)
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
        normal = centred * inverse[:, None]
        y = torch.addcmul(self._get(state, "bias")[:, None], normal, self._get(state, "weight")[:, None])
        buffers = {
            f"{self.name}.running_mean": self._get(state, "running_mean").lerp(mean, self.momentum),
            f"{self.name}.running_var": self._get(state, "running_var").lerp(
                var * (samples / (samples - 1)), self.momentum
            ),
            f"{self.name}.num_batches_tracked": self._get(state, "num_batches_tracked") + 1,
        }
        return Forward(y.view(x.shape), _Saved(normal, inverse), buffers)

    def evaluate(self, state: Tensors, x: Tensor) -> Tensor:
        scale = self._get(state, "weight") * (self._get(state, "running_var") + self.eps).rsqrt()
        shift = self._get(state, "bias") - self._get(state, "running_mean") * scale
        return torch.addcmul(shift[:, None], x.flatten(1, -2), scale[:, None]).view(x.shape)

    def backward(
        self, state: Tensors, saved: _Saved, dy: Tensor, inner: bool
    ) -> tuple[Tensor | None, dict[str, Gradient]]:
        normal, inverse = saved
        flat = dy.flatten(1, -2)
        d_weight, d_bias = (flat * normal).sum(dim=1), flat.sum(dim=1)
        grads: dict[str, Gradient] = {f"{self.name}.weight": d_weight, f"{self.name}.bias": d_bias}
        if not inner:
            return None, grads
        samples = flat.shape[1]
        centred = flat - (d_bias[:, None] + normal * d_weight[:, None]) / samples
        return (centred * (self._get(state, "weight") * inverse)[:, None]).view(dy.shape), grads

    def _get(self, state: Tensors, name: str) -> Tensor:
        return state[f"{self.name}.{name}"]
