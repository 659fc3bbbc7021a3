"""Ways to carry out local steps: by analytic gradients where layers are known, else by `vmap`.

`AnalyticExecution` has the chain rule written out and descends in place; `VmapExecution` maps an algorithm's
`local` over the axis of clients, compiled if that pays. `OneByOneExecution` takes client after client where a
model cannot be batched. All give the models that each client would have alone; the
engine chooses, and an algorithm's author never sees it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Algorithm
from coterie.core.models.mapping import one_at_a_time
from coterie.core.models.optim import Sgd
from coterie.core.tasks.task import Backend, Task
from coterie.core.types import Batch, Context, State, Tensors
from coterie.engine.analytic import (
    AnalyticBackend,
    AnalyticModel,
    FusedMLP,
    Layout,
    apply_gradients_,
    by_autograd,
    flatten,
    materialise,
    unflatten,
)
from coterie.engine.layout import AlgorithmGroup, Clients, Stack, take_clients

__all__ = [
    "AnalyticExecution",
    "BatchPlan",
    "ClientRange",
    "Execution",
    "LocalStep",
    "OneByOneExecution",
    "VmapExecution",
    "chosen",
    "client_ranges",
    "step_alone",
    "uses_default_step",
]


class ClientRange(NamedTuple):
    """Clients side by side on axis N whose algorithms take the same kind of local step."""

    clients: slice
    group: AlgorithmGroup
    """The group whose algorithm takes the step; any of them where the step is the default one."""
    hyper: Tensors
    state: State
    """Views of the clients' tensors."""


class BatchPlan(NamedTuple):
    """Mini-batches of n clients in K iterations."""

    pool: Tensor
    """`[P, ...]`: all samples"""
    rows: Tensor
    """`[K, n, B]`: rows of the pool"""
    labels: Tensor
    """`[K, n, B, ...]`"""
    lr: Tensor
    """`[K, n]`"""
    learns: Tensor | None
    """`[K, n]` bool: who learns; None: everybody"""


class LocalStep(NamedTuple):
    """Arguments of one local step of n clients, each with an axis of clients."""

    hyper: Tensors
    """`[n]` each: float options in which the worlds of a group differ"""
    state: State
    batch: Batch
    ctx: Context
    learns: Tensor | None = None
    """`[n]` bool: who learns; None: everybody"""


class Execution(Protocol):
    """Local steps of n clients of a range."""

    side_by_side: bool
    """True if several threads may take a step at once, each of its own clients."""

    def steps(self, group: AlgorithmGroup, state: State, plan: BatchPlan) -> Tensor | None:
        """Take all of them at once, in place: the losses `[K, n]`; None: they are to be taken one by one."""
        return None

    def step(self, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
        """Compute new states and the losses `[n]`; a client that does not learn (`[n]` bool) keeps its state.

        The given state may be overwritten, and may be what is returned.
        """
        ...


def client_ranges(stack: Stack, clients: Clients) -> list[ClientRange]:
    """Put all algorithms with the default local step in one range, each of the others in its own."""
    own = [g for g in stack.groups if not uses_default_step(g.algorithm)]
    rest = slice(0, own[0].clients.start if own else stack.size)
    found = [ClientRange(rest, stack.groups[0], {}, take_clients(clients.whole, rest))] if rest.stop else []
    for group in own:
        found.append(ClientRange(group.clients, group, group.hyper, clients.parts[stack.groups.index(group)]))
    return found


class AnalyticExecution(Execution):
    """Known layers in one batched call each; the default step descends in place."""

    def __init__(self, task: Task, model: AnalyticModel, compiled: bool = False) -> None:
        self.task, self.compiled = task, compiled
        self.side_by_side = model.convolves and not compiled
        self._gradients = torch.compile(model.gradients, dynamic=False) if compiled else model.gradients
        self._others = VmapExecution(
            task, backend=partial(AnalyticBackend, model=model, stacked=self._gradients)
        )
        self._fused = FusedMLP.of(model) if task.optimizer == Sgd() else None

    def steps(self, group: AlgorithmGroup, state: State, plan: BatchPlan) -> Tensor | None:
        if self._fused is None or not uses_default_step(group.algorithm):
            return None
        return self._fused.steps(state, *plan)

    def step(self, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
        if not uses_default_step(group.algorithm):
            return self._others.step(group, given)
        if given.learns is None:
            return self._descend_(given.state, given.batch)
        new, loss = self._descend_(_copied(given.state), given.batch)
        return chosen(given.learns, new, given.state), loss

    def _descend_(self, state: State, batch: Batch) -> tuple[State, Tensor]:
        optimizer = self.task.optimizer
        plain = optimizer == Sgd()
        scale = batch.lr if plain else torch.ones_like(batch.lr)
        found = self._gradients({**state.params, **state.buffers}, batch.x, batch.y, scale)
        for k, v in found.buffers.items():
            state.buffers[k].copy_(v)
        if plain:
            apply_gradients_(state.params, found.grads)
            return state, found.loss
        params, optim = vmap(optimizer.step)(state.params, materialise(found.grads), state.optim, batch.lr)
        return state._replace(params=params, optim=optim), found.loss


class VmapExecution(Execution):
    """All clients of a block in one batched call of the algorithm's `local`."""

    side_by_side = False

    def __init__(
        self, task: Task, compiled: bool = False, backend: Callable[[Task], Backend] | None = None
    ) -> None:
        """`backend`: makes what takes the place of autograd inside `local`."""
        self.task, self.compiled = task, compiled
        self._own = _PerThread(task, backend)

    def step(self, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
        parts = given.hyper, *given.state, *given.batch, *given.ctx
        leaves, layout = flatten(parts if given.learns is None else (*parts, given.learns))
        # In the closing phase its memory may be another one.
        steps, key = self._own.steps, (id(group), given.learns is None, *given.state.memory)
        if key not in steps:
            step = vmap(partial(_flat_step, self._own.task, group, layout))
            steps[key] = torch.compile(step, dynamic=False) if self.compiled else step
        *new, loss = unflatten(steps[key](*leaves), [*layout[1 : 1 + len(given.state)], None])
        return State(*new), loss


class OneByOneExecution(Execution):
    """One client after the other by the algorithm's `local`, for models that cannot be batched."""

    side_by_side = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def step(self, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
        def one(*parts: Any) -> tuple[State, Tensor]:
            return step_alone(self.task, group, LocalStep(*parts))

        return one_at_a_time(one)(*(part for part in given if part is not None))


class _PerThread(threading.local):
    """A thread's own task, whose module is lent to each call, and the steps made of it."""

    def __init__(self, task: Task, backend: Callable[[Task], Backend] | None) -> None:
        self.task = by_autograd(task)
        if backend:
            self.task = dataclasses.replace(self.task, backend=backend(self.task))
        self.steps: dict[tuple[object, ...], Callable[..., tuple[Tensor, ...]]] = {}


def _flat_step(task: Task, group: AlgorithmGroup, layout: Layout, *leaves: Tensor) -> tuple[Tensor, ...]:
    """Take one client's local step on its tensors end to end, which `vmap` handles soonest."""
    hyper, *rest = unflatten(leaves, layout)
    left = iter(rest)
    state, batch = State(*islice(left, len(State._fields))), Batch(*islice(left, len(Batch._fields)))
    given = LocalStep(hyper, state, batch, Context(*islice(left, len(Context._fields))), *left)
    new, loss = step_alone(task, group, given)
    parts = [{k: part[k] for k in names or ()} for part, names in zip(new, layout[1:6], strict=True)]
    return tuple(flatten([*parts, loss])[0])


def step_alone(task: Task, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
    """Take one client's local step, or none: its tensors have no axis of clients."""
    hyper, state, batch, ctx, learns = given
    own = state if learns is None else _copied(state)  # a step may overwrite what it is given
    new, info = group.method(hyper).local(task, own, batch, ctx)
    return new if learns is None else chosen(learns, new, state), info["loss"]


def uses_default_step(algorithm: Algorithm) -> bool:
    """Tell whether an algorithm's local step is the one that most have."""
    return type(algorithm).local is Algorithm.local


def chosen(learns: Tensor, new: State, old: State) -> State:
    """Take the new state of those who learn, the old one of the others."""

    def choice(now: Tensor, before: Tensor) -> Tensor:
        return torch.where(learns.view(learns.shape + (1,) * (now.dim() - learns.dim())), now, before)

    return State(*({k: choice(v, o[k]) for k, v in n.items()} for n, o in zip(new, old, strict=True)))


def _copied(state: State) -> State:
    return State(*({k: v.clone() for k, v in part.items()} for part in state))
