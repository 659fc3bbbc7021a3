"""How local steps are carried out: by hand, all clients of a block stacked, or one client at a time.

`ByHand` has the chain rule written out, for models whose layers are known; `Stacked` maps a method's
`local` over the axis of clients (`vmap`), compiled if that pays; `OneByOne` calls it bare, as a real
peer does. All give the same models; the engine chooses, and an algorithm's author never sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Algorithm
from coterie.core.optim import Sgd
from coterie.core.task import Task
from coterie.core.types import Batch, Context, State, Tensors
from coterie.engine.network import Network, Perceptron, descend, written_out
from coterie.engine.stack import Clients, Group, Stack, gather

__all__ = ["ByHand", "Drawn", "Execution", "Lane", "OneByOne", "Stacked", "lanes"]


class Lane(NamedTuple):
    """Neighbouring clients whose methods take the same kind of local step."""

    clients: slice
    group: Group
    """The group whose method takes the step; any of them where the step is the ordinary one."""
    hyper: Tensors
    state: State
    """Views of the clients' tensors."""


class Drawn(NamedTuple):
    """What n clients learn from in K iterations."""

    pool: Tensor
    """`[P, ...]`, all samples"""
    rows: Tensor
    """`[K, n, B]`, their mini-batches in it"""
    labels: Tensor
    lr: Tensor
    """`[K, n]`"""
    learns: Tensor | None
    """`[K, n]` who does; None: everybody"""


class Execution(Protocol):
    """Local steps of n clients of a lane."""

    side_by_side: bool
    """Whether several threads may take a step at once, each of its own clients."""

    def steps(self, group: Group, state: State, drawn: Drawn) -> Tensor | None:
        """All of them at once, in place: the losses `[K, n]`; None: they are to be taken one by one."""
        return None

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, ctx: Context, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        """New states and the losses `[n]`; a client that does not learn (`[n]` bool) keeps its state.

        The given state may be overwritten, and may be what is returned.
        """
        ...


def lanes(stack: Stack, clients: Clients) -> list[Lane]:
    """All methods with the ordinary local step in one lane, each of the others in its own."""
    own = [g for g in stack.groups if not _ordinary(g)]
    rest = stack.size if not own else own[0].clients.start
    found = [Lane(slice(0, rest), stack.groups[0], {}, gather(clients.whole, slice(0, rest)))] if rest else []
    for group in own:
        found.append(Lane(group.clients, group, group.hyper, clients.parts[stack.groups.index(group)]))
    return found


class ByHand(Execution):
    """Known layers in one batched call each, descending in place."""

    def __init__(self, task: Task, network: Network, compiled: bool = False) -> None:
        self.task, self.compiled = task, compiled
        self.side_by_side = network.one_by_one and not compiled
        self._gradients = torch.compile(network.gradients, dynamic=False) if compiled else network.gradients
        self._others = Stacked(task)
        self._perceptron = Perceptron.of(network) if task.optimizer == Sgd() else None

    def steps(self, group: Group, state: State, drawn: Drawn) -> Tensor | None:
        if self._perceptron is None or not _ordinary(group):
            return None
        return self._perceptron.descend(state, *drawn)

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, ctx: Context, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        if not _ordinary(group):
            return self._others.step(group, hyper, state, batch, ctx, learns)
        if learns is None:
            return self._descended(state, batch)
        new, loss = self._descended(_copied(state), batch)
        return _chosen(learns, new, state), loss

    def _descended(self, state: State, batch: Batch) -> tuple[State, Tensor]:
        optimizer = self.task.optimizer
        plain = optimizer == Sgd()
        scale = batch.lr if plain else torch.ones_like(batch.lr)
        found = self._gradients({**state.params, **state.buffers}, batch.x, batch.y, scale)
        for k, v in found.buffers.items():
            state.buffers[k].copy_(v)
        if plain:
            descend(state.params, found.grads)
            return state, found.loss
        params, optim = vmap(optimizer.step)(state.params, written_out(found.grads), state.optim, batch.lr)
        return state._replace(params=params, optim=optim), found.loss


class Stacked(Execution):
    """All clients of a block in one batched call."""

    side_by_side = False  # the model's one module is lent to each call

    def __init__(self, task: Task, compiled: bool = False) -> None:
        self.task, self.compiled = task, compiled
        self._steps: dict[tuple[int, bool], Callable[..., tuple[State, Tensor]]] = {}

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, ctx: Context, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        key = (id(group), learns is None)
        if key not in self._steps:
            step = vmap(partial(_step, self.task, group), in_dims=(0, 0, 0, 0, None if learns is None else 0))
            self._steps[key] = torch.compile(step, dynamic=False) if self.compiled else step
        return self._steps[key](hyper, state, batch, ctx, learns)


class OneByOne(Execution):
    """One client after the other, each as it would compute alone."""

    side_by_side = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, ctx: Context, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        states, losses = [], []
        for i in range(len(batch.lr)):
            one = torch.tensor(i)
            new, loss = _step(
                self.task,
                group,
                {k: v[i] for k, v in hyper.items()},
                gather(state, one),
                Batch(*(part[i] for part in batch)),
                Context(*(part[i] for part in ctx)),
                None if learns is None else learns[i],
            )
            states.append(new)
            losses.append(loss)
        stacked = (
            {k: torch.stack([part[k] for part in parts]) for k in parts[0]}
            for parts in zip(*states, strict=True)
        )
        return State(*stacked), torch.stack(losses)


def _step(
    task: Task, group: Group, hyper: Tensors, state: State, batch: Batch, ctx: Context, learns: Tensor | None
) -> tuple[State, Tensor]:
    """One client's local step, or none."""
    new, info = group.method(hyper).local(task, state, batch, ctx)
    return new if learns is None else _chosen(learns, new, state), info["loss"]


def _ordinary(group: Group) -> bool:
    """Whether a method's local step is the one that most methods have."""
    return type(group.algorithm).local is Algorithm.local


def _chosen(learns: Tensor, new: State, old: State) -> State:
    """The new state of those who learn, the old one of the others."""

    def choice(now: Tensor, before: Tensor) -> Tensor:
        return torch.where(learns.view(learns.shape + (1,) * (now.dim() - learns.dim())), now, before)

    return State(*({k: choice(v, o[k]) for k, v in n.items()} for n, o in zip(new, old, strict=True)))


def _copied(state: State) -> State:
    return State(*({k: v.clone() for k, v in part.items()} for part in state))
