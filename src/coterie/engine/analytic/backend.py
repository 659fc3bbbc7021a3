"""Analytic outputs and gradients for what an algorithm does by itself, which never learns of them.

Under the engine's `vmap` a task asks its backend, and the backend's rule for `vmap` hands the tensors of all
clients, stacked, to the hand-written layers. So a local step that pulls, freezes or takes several
gradients is as fast as the default one, and so are looks at messages and the lessons of an exchange. What is
not a stack of clients is left to autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from coterie.core.models.optim import Scale, Sgd
from coterie.core.tasks.task import Gradient, Objective, Pull, Task
from coterie.core.types import Batch, Info, State, Tensors
from coterie.engine.analytic.model import (
    AnalyticModel,
    StackedGradient,
    Trained,
    analytic_model,
    apply_gradients_,
    materialise,
)
from coterie.engine.memory_budget import clients_in_cache

__all__ = ["AnalyticBackend", "Layout", "StackedGradients", "by_autograd", "by_hand", "flatten", "unflatten"]

StackedGradients: TypeAlias = Callable[[Tensors, Tensor, Tensor, Tensor], StackedGradient]
"""`AnalyticModel.gradients`, compiled or not."""


def by_hand(task: Task, inputs: Sequence[int], gradients: StackedGradients | None = None) -> Task:
    """Give a task, and those that run in one call with it, hand-written layers where all of theirs are known.

    `inputs`: the shape of a sample. `gradients`: those that take the place of the model's own.
    """
    foreign = tuple(by_hand(one, inputs) for one in task.foreign)
    proxy = task.proxy and by_hand(task.proxy, inputs)
    plain = replace(task, backend=None, foreign=foreign, proxy=proxy)
    known = None if task.alone else analytic_model(task, inputs)
    return replace(plain, backend=AnalyticBackend(plain, known, gradients)) if known else plain


def by_autograd(task: Task) -> Task:
    """Take hand-written layers away from a task, and from those that run in one call with it."""
    foreign, proxy = tuple(map(by_autograd, task.foreign)), task.proxy and by_autograd(task.proxy)
    return replace(task, backend=None, foreign=foreign, proxy=proxy)


@dataclass(frozen=True)
class AnalyticBackend:
    """Outputs, gradients and steps of stacked clients for a task whose layers are known."""

    task: Task
    """The same learning problem without this backend."""
    model: AnalyticModel
    stacked: StackedGradients | None = None
    """Gradients in place of `model.gradients`: the same, compiled."""
    wanted: Tensor | None = None
    """`[]` bool: where it is false, outputs are zeros."""

    def where(self, wanted: Tensor) -> AnalyticBackend:
        """Spare the outputs where `wanted` `[]` is false."""
        return replace(self, wanted=wanted)

    def logits(self, state: State, x: Tensor) -> Tensor:
        """Compute the outputs with running statistics, as `Task.logits` does."""

        def alone(params: Tensors, buffers: Tensors, x: Tensor, *_: Tensor) -> tuple[Tensor]:
            return (self.task.logits(State(params, buffers, {}, {}, {}), x),)

        wanted = () if self.wanted is None else (self.wanted,)
        outputs: Tensor = _stacked_or(alone, self._logits, state.params, state.buffers, x, *wanted)[0]
        return outputs

    def gradients(self, state: State, batch: Batch, objective: Objective | None = None) -> Gradient:
        """Differentiate the loss, or an objective, by the parameters, as `Task.gradients` does."""
        if objective:
            return self._towards(objective, state, batch)

        def alone(params: Tensors, buffers: Tensors, *batch: Tensor) -> Gradient:
            return self.task.gradients(State(params, buffers, {}, {}, {}), Batch(*batch))

        return Gradient(*_stacked_or(alone, self._gradients, state.params, state.buffers, *batch))

    def _towards(self, objective: Objective, state: State, batch: Batch) -> Gradient:
        """Differentiate an objective by outputs and features as torch does, and on from there by hand."""
        params, buffers, x = state.params, state.buffers, batch.x
        if not self.model.head.layers or _differentiated([*params.values(), *buffers.values(), x]):
            return self.task.gradients(state, batch, objective=objective)
        runs: list[Trained] = []

        def there(params: Tensors, buffers: Tensors, x: Tensor) -> tuple[Any, ...]:
            whole = {**params, **buffers}
            runs[:] = [self.model.trained(_some(whole, part), x[part]) for part in self._parts(x)]
            outputs, features, changed = (_joined([run[i] for run in runs]) for i in range(3))
            return outputs, features, {**buffers, **changed}

        def back(params: Tensors, buffers: Tensors, x: Tensor, dy: Tensor, more: Tensor) -> tuple[Tensors]:
            if sum(len(run.outputs) for run in runs) != len(dy):  # the objective differs where models do not
                there(params, buffers, x)
            whole, each = {**params, **buffers}, zip(self._parts(x), runs, strict=True)
            found = [self.model.derived(_some(whole, p), run.saved, dy[p], more[p]) for p, run in each]
            return (_joined(list(map(materialise, found))),)

        outputs, features, after = _stacked_or(None, there, params, buffers, x)
        y = self.task.kind.targets(x, batch.y)
        (dy, more), loss = grad_and_value(objective, argnums=(0, 1))(outputs, features, y)
        (grads,) = _stacked_or(None, back, params, buffers, x, dy, more)
        return Gradient(grads, loss, after)

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

    def _parts(self, x: Tensor) -> list[slice]:
        """Part clients with samples `[n, B, ...]`: on a CPU by what stays in its cache."""
        n = size = len(x)
        if self.model.convolves and x.device.type == "cpu":
            size = clients_in_cache(self.task, x.shape[2:], x.shape[1], x.dtype)
        return [slice(at, at + size) for at in range(0, n, size)]

    @property
    def _stacked(self) -> StackedGradients:
        return self.stacked or self.model.gradients

    def _logits(
        self, params: Tensors, buffers: Tensors, x: Tensor, wanted: Tensor | None = None
    ) -> tuple[Tensor]:
        if wanted is None:
            whole = {**params, **buffers}
            return (_joined([self.model.logits(_some(whole, part), x[part]) for part in self._parts(x)]),)
        some = wanted.nonzero()[:, 0] if wanted.any() else torch.zeros_like(wanted[:1], dtype=torch.int64)
        found = self._logits(_some(params, some), _some(buffers, some), x[some])[0]
        return (found.new_zeros(len(x), *found.shape[1:]).index_copy(0, some, found),)

    def _gradients(
        self, params: Tensors, buffers: Tensors, x: Tensor, y: Tensor, lr: Tensor, _key: Tensor
    ) -> Gradient:
        found = self._stacked({**params, **buffers}, x, y, torch.ones_like(lr))
        return Gradient(materialise(found.grads), found.loss, {**buffers, **found.buffers})

    def _step(
        self, names: Mapping[str, str], donate: bool, params: Tensors, buffers: Tensors, factors: Scale,
        anchor: Tensors, strength: Tensor | float, x: Tensor, y: Tensor, lr: Tensor, _key: Tensor,
    ) -> tuple[Any, ...]:  # fmt: skip
        found = self._stacked({**params, **buffers}, x, y, lr)
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


def _some(tensors: Tensors, which: slice | Tensor) -> Tensors:
    return {k: v[which] for k, v in tensors.items()}


def _joined(parts: Sequence[Any]) -> Any:
    """Put parts of the clients together again: tensors, or dictionaries of these."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {k: torch.cat([part[k] for part in parts]) for k in parts[0]}
    return torch.cat(list(parts))


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


def _stacked_or(alone: Callable[..., Any] | None, stacked: Callable[..., Any], *given: Any) -> list[Any]:
    """Call `stacked` on the tensors of all clients where `vmap` alone is at work, else `alone`.

    Without `alone`, a single client is a stack of one.
    """
    leaves, layout = flatten(given)
    if alone and _differentiated(leaves):
        return list(alone(*given))
    call = _Call(alone, stacked, layout)
    return unflatten(_Rule.apply(call, *leaves), call.results[-1])  # type: ignore[no-untyped-call]


def _differentiated(leaves: Iterable[Any]) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)


@dataclass(frozen=True)
class _Call:
    """Functions of dictionaries of tensors, as functions of the tensors in them."""

    alone: Callable[..., Any] | None
    stacked: Callable[..., Any]
    layout: Layout
    axes: int = 0
    """Leading axes of all tensors: of clients, of messages of each."""
    results: list[Layout] = field(default_factory=list)

    def flat(self, *leaves: Any) -> tuple[Tensor, ...]:
        """Call what suits the number of axes."""
        if self.alone and not self.axes:
            return self._flat(self.alone, leaves)
        sizes = next(leaf for leaf in leaves if isinstance(leaf, Tensor)).shape[: self.axes]
        one_axis = (
            leaf.reshape(-1, *leaf.shape[self.axes :]) if isinstance(leaf, Tensor) else leaf
            for leaf in leaves
        )
        found = self._flat(self.stacked, one_axis)
        return tuple(leaf.view(sizes + leaf.shape[1:]) for leaf in found)

    def mapped(self, leaves: Sequence[Any]) -> Any:
        """Map `alone` over all axes, so that it can be differentiated."""
        function, axes = (
            replace(self, axes=0).flat,
            tuple(0 if isinstance(x, Tensor) else None for x in leaves),
        )
        for _ in range(self.axes):
            function = vmap(function, in_dims=axes)
        return function(*leaves)

    def _flat(self, function: Callable[..., Any], leaves: Iterable[Any]) -> tuple[Tensor, ...]:
        found, layout = flatten(function(*unflatten(leaves, self.layout)))
        self.results.append(layout)
        return tuple(found)


class _Rule(torch.autograd.Function):
    """A call with a rule for `vmap` of its own."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> tuple[Tensor, ...]:
        return call.flat(*leaves)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: there is no derivative of a derivative here."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], call: _Call, *leaves: Any) -> Any:
        stacked = [_leading(*one, info.batch_size) for one in zip(leaves, in_dims[1:], strict=True)]
        call = replace(call, axes=call.axes + 1)
        if call.alone and _differentiated(stacked):
            found = call.mapped(stacked)
        elif torch._C._functorch.maybe_current_level() is not None:  # clients are not the only axis
            found = _Rule.apply(call, *stacked)  # type: ignore[no-untyped-call]
        else:
            found = call.flat(*stacked)
        return found, (0,) * len(found)


def _leading(leaf: Any, axis: int | None, n: int) -> Any:
    """Bring the axis of clients to the front; what is one for all is seen as many."""
    if axis == 0 or not isinstance(leaf, Tensor):
        return leaf
    return leaf.expand(n, *leaf.shape) if axis is None else leaf.movedim(axis, 0)
