"""How local steps are carried out: all clients of a block stacked, or one client at a time.

`Stacked` maps a method's `local` over the axis of clients (`vmap`), compiled if that pays;
`OneByOne` calls it bare, as a real peer does. Both give the same models; the engine chooses, and an
algorithm's author never sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Algorithm
from coterie.core.task import Task
from coterie.core.types import Batch, State, Tensors
from coterie.engine.stack import Clients, Group, Stack, gather

__all__ = ["Execution", "Lane", "OneByOne", "Stacked", "lanes"]


class Lane(NamedTuple):
    """Neighbouring clients whose methods take the same kind of local step."""

    clients: slice
    group: Group
    """The group whose method takes the step; any of them where the step is the ordinary one."""
    hyper: Tensors
    state: State
    """Views of the clients' tensors."""


class Execution(Protocol):
    """One local step of n clients of a lane."""

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        """New states and the losses `[n]`; a client that does not learn (`[n]` bool) keeps its state."""
        ...


def lanes(stack: Stack, clients: Clients) -> list[Lane]:
    """All methods with the ordinary local step in one lane, each of the others in its own."""
    own = [g for g in stack.groups if type(g.algorithm).local is not Algorithm.local]
    rest = stack.size if not own else own[0].clients.start
    found = [Lane(slice(0, rest), stack.groups[0], {}, gather(clients.whole, slice(0, rest)))] if rest else []
    for group in own:
        found.append(Lane(group.clients, group, group.hyper, clients.parts[stack.groups.index(group)]))
    return found


class Stacked:
    """All clients of a block in one batched call."""

    def __init__(self, task: Task, compiled: bool = False) -> None:
        self.task, self.compiled = task, compiled
        self._steps: dict[tuple[int, bool], Callable[..., tuple[State, Tensor]]] = {}

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, learns: Tensor | None
    ) -> tuple[State, Tensor]:
        key = (id(group), learns is None)
        if key not in self._steps:
            step = vmap(partial(_step, self.task, group), in_dims=(0, 0, 0, None if learns is None else 0))
            self._steps[key] = torch.compile(step, dynamic=False) if self.compiled else step
        return self._steps[key](hyper, state, batch, learns)


class OneByOne:
    """One client after the other, each as it would compute alone."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def step(
        self, group: Group, hyper: Tensors, state: State, batch: Batch, learns: Tensor | None
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
                None if learns is None else learns[i],
            )
            states.append(new)
            losses.append(loss)
        parts = ({k: torch.stack([s[p][k] for s in states]) for k in states[0][p]} for p in range(4))
        return State(*parts), torch.stack(losses)


def _step(
    task: Task, group: Group, hyper: Tensors, state: State, batch: Batch, learns: Tensor | None
) -> tuple[State, Tensor]:
    """One client's local step, or none."""
    new, info = group.method(hyper).local(task, state, batch)
    if learns is not None:
        parts = zip(new, state, strict=True)
        new = State(*({k: torch.where(learns, v, old[k]) for k, v in now.items()} for now, old in parts))
    return new, info["loss"]
