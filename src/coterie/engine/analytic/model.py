"""A chain of known layers: forward, loss, backward, for all clients at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from coterie.core.tasks.task import Task
from coterie.core.tasks.task_kind import ClosedForm
from coterie.core.types import Tensors
from coterie.engine.analytic.convolution import Convolution
from coterie.engine.analytic.layers import (
    BatchNorm,
    Flatten,
    Grads,
    Layer,
    Linear,
    MaxPool,
    OuterProduct,
    Relu,
)

__all__ = ["AnalyticModel", "StackedGradient", "analytic_model", "apply_gradients_", "materialise"]


class StackedGradient(NamedTuple):
    """The gradient of each client's loss on its mini-batch."""

    grads: Grads
    loss: Tensor
    """`[n]`"""
    buffers: Tensors
    """Buffers that changed."""


@dataclass(frozen=True)
class AnalyticModel:
    """The layers of a model, from the input on, and its loss."""

    layers: tuple[Layer, ...]
    learns: tuple[bool, ...]
    """True for a layer that has parameters, or stands behind one that has."""
    loss: ClosedForm = "cross_entropy"

    @property
    def one_by_one(self) -> bool:
        """True if on a CPU a layer takes client after client, so that threads can take them side by side."""
        return any(isinstance(layer, Convolution) for layer in self.layers)

    def logits(self, state: Tensors, x: Tensor) -> Tensor:
        """Compute the outputs `[n, B, L]` with running statistics."""
        x = _channels_last(x)
        for layer in _pooled_first(self.layers):
            x = layer.evaluate(state, x)
        return x

    def gradients(self, state: Tensors, x: Tensor, y: Tensor, scale: Tensor) -> StackedGradient:
        """Differentiate the mean loss of each client's mini-batch; gradients are times `scale` `[n]`."""
        buffers: Tensors = {}
        saved = []
        x = _channels_last(x)
        for layer in self.layers:
            x, kept, changed = layer.forward(state, x)
            saved.append(kept)
            buffers |= changed
        loss, dy = _LOSSES[self.loss](x, y, scale)
        grads: Grads = {}
        for i in reversed(range(len(self.layers))):
            if not self.learns[i]:
                break
            inner = i > 0 and self.learns[i - 1]
            dx, found = self.layers[i].backward(state, saved[i], dy, inner)
            grads |= found
            if dx is None:
                break
            dy = dx
        return StackedGradient(grads, loss, buffers)


def analytic_model(task: Task, inputs: Sequence[int]) -> AnalyticModel | None:
    """Take the task's model, for samples of shape `inputs`, as known layers; None where one is unknown."""
    model = task.modules[0]
    frozen = bool(task.frozen) or any(not p.requires_grad for p in model.parameters())
    if task.kind.closed_form is None or type(model) is not nn.Sequential or frozen:
        return None
    layers: list[Layer] = []
    learns: list[bool] = []
    known = _OF_FEATURES if len(inputs) == 1 else _OF_IMAGES if len(inputs) == 3 else _OF_OTHERS
    for name, module in model.named_children():
        make = known.get(type(module))
        layer = make(name, module) if make else None
        if layer is None:
            return None
        if isinstance(layer, Flatten):
            known = _OF_FEATURES
        layers.append(layer)
        learns.append(any(True for _ in module.parameters()) or (bool(learns) and learns[-1]))
    if known is not _OF_FEATURES:
        return None
    return AnalyticModel(tuple(layers), tuple(learns), task.kind.closed_form)


def _cross_entropy(z: Tensor, y: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Compute each client's mean cross-entropy `[n]` of `z` `[n, B, L]`, and its derivative times `scale`."""
    logs = z.log_softmax(dim=-1)
    hit = torch.arange(z.shape[-1], device=z.device) == y[..., None]
    loss = -torch.where(hit, logs, 0.0).sum(dim=-1).mean(dim=-1)
    return loss, (logs.exp() - hit.to(z.dtype)) * (scale / y.shape[-1])[:, None, None]


def _squared(z: Tensor, y: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Compute each client's mean squared error `[n]` of `z` `[n, B, T]`, and its derivative times `scale`."""
    off = z - y
    return off.square().mean(dim=(1, 2)), off * (2 * scale / (z.shape[1] * z.shape[2]))[:, None, None]


_LOSSES: dict[ClosedForm, Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "cross_entropy": _cross_entropy,
    "squared": _squared,
}


def apply_gradients_(params: Tensors, grads: Grads, scale: Tensors | None = None) -> None:
    """Subtract each gradient, times its factor (`[n]` or of the parameter's shape) if any, in place."""
    for name, gradient in grads.items():
        if scale and name in scale:
            gradient = _scaled(gradient, scale[name])
        if isinstance(gradient, OuterProduct):
            params[name].baddbmm_(gradient.left.mT, gradient.right, alpha=-1)
        else:
            params[name].sub_(gradient)


def materialise(grads: Grads) -> Tensors:
    """Write every gradient out as a tensor."""
    return {name: _dense(gradient) for name, gradient in grads.items()}


def _dense(gradient: Tensor | OuterProduct) -> Tensor:
    return torch.bmm(gradient.left.mT, gradient.right) if isinstance(gradient, OuterProduct) else gradient


def _scaled(gradient: Tensor | OuterProduct, factor: Tensor) -> Tensor | OuterProduct:
    if isinstance(gradient, OuterProduct) and factor.dim() == 1:
        return OuterProduct(gradient.left * factor[:, None, None], gradient.right)
    dense = _dense(gradient)
    return dense * factor.view(factor.shape + (1,) * (dense.dim() - factor.dim()))


def _pooled_first(layers: Sequence[Layer]) -> list[Layer]:
    """Pool before each ReLU: the same function, and what is left is less to cut off at zero."""
    order = list(layers)
    for i, pair in enumerate(pairwise(layers)):
        if isinstance(pair[0], Relu) and isinstance(pair[1], MaxPool):
            order[i : i + 2] = pair[1], pair[0]
    return order


def _channels_last(x: Tensor) -> Tensor:
    if x.dim() != 5:
        return x
    # A single channel moved would keep its stride, and convolutions take that for channels first.
    return x.squeeze(2).unsqueeze(-1) if x.shape[2] == 1 else x.permute(0, 1, 3, 4, 2)


def _pool(_name: str, module: Any) -> Layer | None:
    k = module.kernel_size
    plain = module.stride == k and module.padding == 0 and module.dilation == 1 and not module.ceil_mode
    return MaxPool(k) if isinstance(k, int) and plain else None


def _flatten(_name: str, module: Any) -> Layer | None:
    return Flatten() if (module.start_dim, module.end_dim) == (1, -1) else None


_Known: TypeAlias = dict[type[nn.Module], Callable[[str, Any], Layer | None]]

_OF_OTHERS: _Known = {nn.Flatten: _flatten, nn.ReLU: lambda _name, _module: Relu()}
_OF_FEATURES: _Known = {**_OF_OTHERS, nn.Linear: Linear.of, nn.BatchNorm1d: BatchNorm.of}
_OF_IMAGES: _Known = {
    **_OF_OTHERS,
    nn.Conv2d: Convolution.of,
    nn.BatchNorm2d: BatchNorm.of,
    nn.MaxPool2d: _pool,
}
