"""Analytic gradients for an algorithm's own `local`, which never learns of them.

Under the engine's `vmap` a task asks its backend, and the backend's rule for `vmap` hands the tensors of all
clients, stacked, to the hand-written gradients. So a local step that pulls, freezes or takes several
gradients is as fast as the default one. What is not a stack of clients is left to autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.models.optim import Scale, Sgd
from coterie.core.tasks.task import Gradient, Pull, Task
from coterie.core.types import Batch, Info, State, Tensors
from coterie.engine.analytic.model import StackedGradient, apply_gradients_, materialise

__all__ = ["AnalyticBackend", "Layout", "StackedGradients", "flatten", "unflatten"]

StackedGradients: TypeAlias = Callable[[Tensors, Tensor, Tensor, Tensor], StackedGradient]
"""`AnalyticModel.gradients`, compiled or not."""


@dataclass(frozen=True)
class AnalyticBackend:
    """Gradients and steps of stacked clients for a task whose layers are known."""

    task: Task
    """The same learning problem without this backend."""
    stacked: StackedGradients

    def gradients(self, state: State, batch: Batch) -> Gradient:
        """Differentiate the loss by the parameters, as `Task.gradients` does."""

        def alone(params: Tensors, buffers: Tensors, *batch: Tensor) -> Gradient:
            return self.task.gradients(State(params, buffers, {}, {}, {}), Batch(*batch))

        return Gradient(*_stacked_or(alone, self._gradients, state.params, state.buffers, *batch))

    def step(
        self, state: State, batch: Batch, scale: Scale, pull: Pull | None, donate: bool
    ) -> tuple[State, Info] | None:
        """Take a step as `Task.step` does; None: it is to be made of a gradient and the optimiser."""
        if self.task.optimizer != Sgd() or (scale and pull):
            return None
        factors = {str(id(s)): s for s in scale.values()}  # often one for many parameters
        names = {k: str(id(s)) for k, s in scale.items()}
        anchor, strength = pull or ({}, 0.0)

        def alone(params: Tensors, buffers: Tensors, *given: Any) -> tuple[Any, ...]:
            factors, anchor, strength, *batch = given
            one, whole = State(params, buffers, {}, {}, {}), {k: factors[name] for k, name in names.items()}
            new, info = self.task.step(one, Batch(*batch), scale=whole, pull=(anchor, strength))
            return new.params, new.buffers, info["loss"]

        given = state.params, state.buffers, factors, anchor, strength, *batch
        params, buffers, loss = _stacked_or(alone, partial(self._step, names, donate), *given)
        return state._replace(params=params, buffers=buffers), {"loss": loss}

    def _gradients(
        self, params: Tensors, buffers: Tensors, x: Tensor, y: Tensor, lr: Tensor, _key: Tensor
    ) -> Gradient:
        found = self.stacked({**params, **buffers}, x, y, torch.ones_like(lr))
        return Gradient(materialise(found.grads), found.loss, {**buffers, **found.buffers})

    def _step(
        self, names: Mapping[str, str], donate: bool, params: Tensors, buffers: Tensors, factors: Scale,
        anchor: Tensors, strength: Tensor | float, x: Tensor, y: Tensor, lr: Tensor, _key: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        found = self.stacked({**params, **buffers}, x, y, lr)
        # p - lr (g + s (p - a)) is p moved by lr s towards a, less lr g.
        rate = lr * strength
        if donate and lr.device.type == "cpu":  # on a GPU a step may run out of memory half way
            new = params
            for k in anchor.keys() & params.keys():
                params[k].lerp_(anchor[k], _beside(rate, anchor[k]))
        else:
            new = {k: p.clone() for k, p in params.items() if k not in anchor}
            new |= {k: params[k].lerp(a, _beside(rate, a)) for k, a in anchor.items() if k in params}
        each = {k: torch.as_tensor(s, dtype=lr.dtype, device=lr.device) for k, s in factors.items()}
        each = {k: s if s.dim() else s.expand_as(lr) for k, s in each.items()}
        apply_gradients_(new, found.grads, {k: each[name] for k, name in names.items()})
        return new, {**buffers, **found.buffers}, found.loss


def _beside(few: Tensor, many: Tensor) -> Tensor:
    return few.view(few.shape + (1,) * (many.dim() - few.dim()))


Layout: TypeAlias = list[list[str] | None]
"""The names of each dictionary; None for what is none."""


def flatten(given: Iterable[Any]) -> tuple[list[Any], Layout]:
    """Take dictionaries of tensors apart; `torch.utils._pytree` takes longer than a small step does."""
    leaves: list[Any] = []
    layout: Layout = []
    for one in given:
        leaves.extend(one.values() if isinstance(one, dict) else (one,))
        layout.append(list(one) if isinstance(one, dict) else None)
    return leaves, layout


def unflatten(leaves: Iterable[Any], layout: Layout) -> list[Any]:
    """Put dictionaries of tensors together again."""
    rest = iter(leaves)
    return [next(rest) if names is None else {k: next(rest) for k in names} for names in layout]


def _stacked_or(alone: Callable[..., Any], stacked: Callable[..., Any], *given: Any) -> list[Any]:
    """Call `stacked` on the tensors of all clients where `vmap` alone is at work, else `alone`."""
    leaves, layout = flatten(given)
    if any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
        return list(alone(*given))  # it is differentiated itself
    call = _Call(alone, stacked, layout)
    return unflatten(_Rule.apply(call, *leaves), call.results[-1])  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Call:
    """Functions of dictionaries of tensors, as functions of the tensors in them."""

    alone: Callable[..., Any]
    stacked: Callable[..., Any]
    layout: Layout
    results: list[Layout] = field(default_factory=list)

    def flat(self, function: Callable[..., Any], leaves: Iterable[Any]) -> tuple[Tensor, ...]:
        found, layout = flatten(function(*unflatten(leaves, self.layout)))
        self.results.append(layout)
        return tuple(found)


class _Rule(torch.autograd.Function):
    """A call with a rule for `vmap` of its own."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> tuple[Tensor, ...]:
        return call.flat(call.alone, leaves)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: there is no derivative of a derivative here."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], call: _Call, *leaves: Any) -> Any:
        axes = in_dims[1:]
        if torch._C._functorch.maybe_current_level() is not None:  # clients are not the only axis, or derive
            found = vmap(lambda *one: call.flat(call.alone, one), in_dims=axes)(*leaves)
        else:
            stacked = map(_leading, leaves, axes, repeat(info.batch_size))
            found = call.flat(call.stacked, stacked)
        return found, (0,) * len(found)


def _leading(leaf: Any, axis: int | None, n: int) -> Any:
    """Bring the axis of clients to the front; what is one for all is seen as many."""
    if axis == 0 or not isinstance(leaf, Tensor):
        return leaf
    return leaf.expand(n, *leaf.shape) if axis is None else leaf.movedim(axis, 0)
