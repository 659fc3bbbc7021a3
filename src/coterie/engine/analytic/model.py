"""A chain of known layers: forward, loss, backward, for all clients at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from coterie.core.models.residual import Residual
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_kind import ClosedForm
from coterie.core.types import Tensors
from coterie.engine.analytic.chain import Chain, ResidualLayer
from coterie.engine.analytic.convolution import Convolution
from coterie.engine.analytic.layers import (
    AveragePool,
    BatchNorm,
    Flatten,
    Grads,
    GroupNorm,
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


class Trained(NamedTuple):
    """The forward pass of each client in training."""

    outputs: Tensor
    """`[n, B, L]`"""
    features: Tensor
    """`[n, B, F]`: the input of the head."""
    buffers: Tensors
    """Buffers that changed."""
    saved: tuple[Any, Any]
    """Passed on to the way back."""


@dataclass(frozen=True)
class AnalyticModel:
    """The layers of a model, from the input on, and its loss."""

    base: Chain
    """Up to the features; all layers, where the task's head is none of those in the chain."""
    head: Chain
    loss: ClosedForm = "cross_entropy"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, from the input on."""
        return self.base.layers + self.head.layers

    @property
    def convolves(self) -> bool:
        """True if activations are large beside weights, so that few clients at a time fill a processor."""
        return any(isinstance(layer, Convolution | ResidualLayer) for layer in self.layers)

    def logits(self, state: Tensors, x: Tensor) -> Tensor:
        """Compute the outputs `[n, B, L]` with running statistics."""
        return self.head.evaluate(state, self.base.evaluate(state, _channels_last(x)))

    def trained(self, state: Tensors, x: Tensor) -> Trained:
        """Compute outputs and features in training."""
        base = self.base.forward(state, _channels_last(x))
        head = self.head.forward(state, base.y)
        return Trained(head.y, base.y, {**base.buffers, **head.buffers}, (base.saved, head.saved))

    def derived(
        self, state: Tensors, saved: tuple[Any, Any], dy: Tensor, more: Tensor | None = None
    ) -> Grads:
        """Differentiate by the parameters, from the derivatives by outputs and, if any, by features."""
        base, head = saved
        dx, grads = self.head.backward(state, head, dy, any(self.base.learns))
        if dx is None:
            return grads
        return {**grads, **self.base.backward(state, base, dx if more is None else dx + more, False)[1]}

    def gradients(self, state: Tensors, x: Tensor, y: Tensor, scale: Tensor) -> StackedGradient:
        """Differentiate the mean loss of each client's mini-batch; gradients are times `scale` `[n]`."""
        run = self.trained(state, x)
        loss, dy = _LOSSES[self.loss](run.outputs, y, scale)
        return StackedGradient(self.derived(state, run.saved, dy), loss, run.buffers)


def analytic_model(task: Task, inputs: Sequence[int]) -> AnalyticModel | None:
    """Take the task's model, for samples of shape `inputs`, as known layers; None where one is unknown."""
    model = task.modules[0]
    frozen = bool(task.frozen) or any(not p.requires_grad for p in model.parameters())
    if task.kind.closed_form is None or type(model) is not nn.Sequential or frozen:
        return None
    known = _OF_FEATURES if len(inputs) == 1 else _OF_IMAGES if len(inputs) == 3 else _OF_OTHERS
    if (found := _chain("", model, known)) is None or not found.flat[-1]:
        return None
    names = [name for name, _ in model.named_children()]
    at = names.index(task.head) if task.head in names else len(names)
    if not found.flat[at]:  # the head takes in images
        at = len(names)
    layers, learns = found.chain.layers, found.chain.learns
    return AnalyticModel(
        Chain(layers[:at], learns[:at]), Chain(layers[at:], learns[at:]), task.kind.closed_form
    )


class _Found(NamedTuple):
    """A chain of known layers."""

    chain: Chain
    flat: list[bool]
    """True where activations are features, not images: of the input, and behind each layer."""


def _chain(prefix: str, model: nn.Sequential, known: _Known) -> _Found | None:
    """Take layers as known ones, whose names begin with `prefix`; None where one is unknown."""
    layers: list[Layer] = []
    learns: list[bool] = []
    flat = [known is _OF_FEATURES]
    for name, module in model.named_children():
        make = known.get(type(module))
        layer = make(prefix + name, module) if make else None
        if layer is None:
            return None
        if isinstance(layer, Flatten):
            known = _OF_FEATURES
        layers.append(layer)
        learns.append(any(True for _ in module.parameters()) or (bool(learns) and learns[-1]))
        flat.append(known is _OF_FEATURES)
    return _Found(Chain(tuple(layers), tuple(learns)), flat)


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


def _channels_last(x: Tensor) -> Tensor:
    if x.dim() != 5:
        return x
    # A single channel moved would keep its stride, and convolutions take that for channels first.
    return x.squeeze(2).unsqueeze(-1) if x.shape[2] == 1 else x.permute(0, 1, 3, 4, 2)


def _pool(_name: str, module: Any) -> Layer | None:
    k = module.kernel_size
    plain = module.stride == k and module.padding == 0 and module.dilation == 1 and not module.ceil_mode
    return MaxPool(k) if isinstance(k, int) and plain else None


def _average(_name: str, module: Any) -> Layer | None:
    return AveragePool() if module.output_size in (1, (1, 1)) else None


def _residual(name: str, module: Residual) -> Layer | None:
    """Take two chains of images."""
    chains = [
        _chain(f"{name}.{part}.", getattr(module, part), _OF_IMAGES) for part in ("residual", "shortcut")
    ]
    one, other = (found.chain if found and not found.flat[-1] else None for found in chains)
    return ResidualLayer(one, other) if one and other else None


def _flatten(_name: str, module: Any) -> Layer | None:
    return Flatten() if (module.start_dim, module.end_dim) == (1, -1) else None


_Known: TypeAlias = dict[type[nn.Module], Callable[[str, Any], Layer | None]]

_OF_OTHERS: _Known = {nn.Flatten: _flatten, nn.ReLU: lambda _name, _module: Relu()}
_OF_FEATURES: _Known = {**_OF_OTHERS, nn.Linear: Linear.of, nn.BatchNorm1d: BatchNorm.of}
_OF_IMAGES: _Known = {
    **_OF_OTHERS,
    nn.Conv2d: Convolution.of,
    nn.BatchNorm2d: BatchNorm.of,
    nn.GroupNorm: GroupNorm.of,
    nn.MaxPool2d: _pool,
    nn.AdaptiveAvgPool2d: _average,
    Residual: _residual,
}
