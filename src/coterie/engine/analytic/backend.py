"""Analytic gradients for an algorithm's own `local`, which never learns of them.

Under the engine's `vmap` a task asks its backend, and the backend's rule for `vmap` hands the tensors of all
clients, stacked, to the hand-written gradients. So a local step that pulls, freezes or takes several
gradients is as fast as the default one. What is not a stack of clients is left to autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from coterie.core.optim import Scale, Sgd
from coterie.core.task import Gradient, Pull, Task
from coterie.core.types import Batch, Info, State, Tensors
from coterie.engine.analytic.model import StackedGradient, apply_gradients_, materialise

__all__ = ["AnalyticBackend", "StackedGradients"]

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
        model = State(state.params, state.buffers, {}, {}, {})
        found: Gradient = _stacked_or(self.task.gradients, self._gradients, model, batch)
        return found

    def step(self, state: State, batch: Batch, scale: Scale, pull: Pull | None) -> tuple[State, Info] | None:
        """Take a step as `Task.step` does; None: it is to be made of a gradient and the optimiser."""
        if self.task.optimizer != Sgd() or (scale and pull):
            return None

        def alone(state: State, batch: Batch, scale: Scale, pull: Pull | None) -> tuple[State, Info]:
            return self.task.step(state, batch, scale=scale, pull=pull)

        moved = state._replace(memory={}, rows={})
        new, info = _stacked_or(alone, self._step, moved, batch, scale, pull)
        return new._replace(memory=state.memory, rows=state.rows), info

    def _gradients(self, state: State, batch: Batch) -> Gradient:
        found = self.stacked(_tensors(state), batch.x, batch.y, torch.ones_like(batch.lr))
        return Gradient(materialise(found.grads), found.loss, {**state.buffers, **found.buffers})

    def _step(self, state: State, batch: Batch, scale: Scale, pull: Pull | None) -> tuple[State, Info]:
        found = self.stacked(_tensors(state), batch.x, batch.y, batch.lr)
        anchor, strength = pull or ({}, 0.0)
        rate = batch.lr * strength
        # p - lr (g + s (p - a)) is p moved by lr s towards a, less lr g.
        params = {
            k: p.lerp(anchor[k], _beside(rate, p)) if k in anchor else p.clone()
            for k, p in state.params.items()
        }
        factors = {
            k: s.to(rate.dtype) if isinstance(s, Tensor) else torch.full_like(rate, s)
            for k, s in scale.items()
        }
        apply_gradients_(params, found.grads, factors)
        return state._replace(params=params, buffers={**state.buffers, **found.buffers}), {"loss": found.loss}


def _tensors(state: State) -> Tensors:
    return {**state.params, **state.buffers}


def _beside(few: Tensor, many: Tensor) -> Tensor:
    return few.view(few.shape + (1,) * (many.dim() - few.dim()))


def _stacked_or(alone: Callable[..., Any], stacked: Callable[..., Any], *given: Any) -> Any:
    """Call `stacked` on the tensors of all clients where `vmap` alone is at work, else `alone`."""
    leaves, spec = tree_flatten(given)
    if any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
        return alone(*given)  # it is differentiated itself
    call = _Call(alone, stacked, spec)
    found = _Rule.apply(call, *leaves)  # type: ignore[no-untyped-call]
    return tree_unflatten(found, call.results[-1])


@dataclass(frozen=True)
class _Call:
    """Functions of nests of tensors, as functions of the tensors in them."""

    alone: Callable[..., Any]
    stacked: Callable[..., Any]
    given: TreeSpec
    results: list[TreeSpec] = field(default_factory=list)

    def flat(self, function: Callable[..., Any], *leaves: Any) -> tuple[Tensor, ...]:
        found, spec = tree_flatten(function(*tree_unflatten(leaves, self.given)))
        self.results.append(spec)
        return tuple(found)


class _Rule(torch.autograd.Function):
    """A call with a rule for `vmap` of its own."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> tuple[Tensor, ...]:  # type: ignore[override]
        return call.flat(call.alone, *leaves)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: there is no derivative of a derivative here."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], call: _Call, *leaves: Any) -> Any:  # type: ignore[override]
        axes = in_dims[1:]
        if torch._C._functorch.maybe_current_level() is not None:  # clients are not the only axis, or derive
            found = vmap(lambda *one: call.flat(call.alone, *one), in_dims=axes)(*leaves)
        else:
            found = call.flat(call.stacked, *map(_leading, leaves, axes, [info.batch_size] * len(axes)))
        return found, (0,) * len(found)


def _leading(leaf: Any, axis: int | None, n: int) -> Any:
    """Bring the axis of clients to the front; what is one for all is seen as many."""
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf.expand(n, *leaf.shape) if axis is None else leaf.movedim(axis, 0)
