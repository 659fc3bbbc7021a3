"""The contract of a method: what one client does, as pure functions.

    init   what this client carries                          before the first iteration
    local  one local step                                    every ordinary iteration
    offer  what it sends when asked                          t ≡ 0 (mod T_ex), neighbours
    mix    look at the replies, choose, average              t ≡ 0 (mod T_ex), the star
    adopt  take the star's broadcast                         t ≡ 1 (mod T_ex), neighbours

A method is a frozen dataclass whose fields are its hyper-parameters. It never sees other clients,
a client axis, a clock or a network: who wakes, who is reachable and what is lost is the schedule's
business. A hyper-parameter of type `float` may arrive as a tensor (the engine stacks worlds that
differ in it), so compute with it, but do not branch on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from coterie.core.task import Task
from coterie.core.types import Batch, Inbox, Info, Message, Probe, Start, State

__all__ = ["Adoption", "Algorithm", "Choices", "average", "guarded", "heard_only", "receive", "wake"]

Adoption = Literal["replace", "average", "mix", "ignore"]
Choices: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Options and the values to try."""
Act: TypeAlias = Callable[[State, Inbox, Probe], tuple[State, Info]]


@dataclass(frozen=True)
class Algorithm(ABC):
    """A method; `mix` makes it one, the rest is what most methods do."""

    share: str | tuple[str, ...] = "all"
    """What is sent: `all` parameters and buffers, the `base` (all but the head), or glob patterns."""
    adoption: Adoption = "replace"
    """What a neighbour does with the star's broadcast: `replace` its own model, `average` half and
    half, `mix` by weighing it as a star weighs a reply, or `ignore` it."""

    def init(self, task: Task, start: Start) -> State:
        """What this client carries."""
        return State(start.params, start.buffers, task.optimizer.init(start.params), {}, {})

    def pace(self, t: int) -> float:
        """By how much this method scales the local step at iteration t, until the closing phase."""
        return 1.0

    def local(self, task: Task, state: State, batch: Batch) -> tuple[State, Info]:
        """One local step; `Info` must hold the `loss`."""
        return task.step(state, batch)

    def offer(self, task: Task, state: State) -> Message:
        """What this client sends when it is asked, and, as the star, what it broadcasts."""
        return task.share(state, self.share)

    @abstractmethod
    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        """The star, once the replies are in. At least one was heard; the others are zeros."""

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        """A neighbour, on the star's broadcast: an inbox of one."""
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe)
        if self.adoption == "ignore":
            return state, {}
        # Of one client, or, which the engine makes use of, of a stack of them.
        theirs = {k: m.select(inbox.heard.dim() - 1, 0) for k, m in inbox.messages.items()}
        if self.adoption == "average":
            ours = self.offer(task, state)
            theirs = {k: (ours[k] + m) / 2 for k, m in theirs.items()}
        return task.take(state, theirs), {}

    def idle(self, last: int) -> str | None:
        """What it is set to do and never comes to, if its last iteration before the closing phase is this."""
        return None

    def search(self) -> Choices:
        """The options that are worth tuning, where an experiment does not say which."""
        return {"adoption": ("replace", "average", "ignore")}


def average(weights: Tensor, messages: Message) -> Message:
    """The sum of K messages under weights `[K]`."""
    return {k: torch.tensordot(weights.to(m.dtype), m, dims=1) for k, m in messages.items()}


def wake(algorithm: Algorithm, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
    """`mix`, guarded."""
    return guarded(partial(algorithm.mix, task), state, inbox, probe)


def receive(algorithm: Algorithm, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
    """`adopt`, guarded."""
    return guarded(partial(algorithm.adopt, task), state, inbox, probe)


def guarded(act: Act, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
    """`act` on sound messages only; if there is none, or the result is not sound, nothing changes.

    Both runtimes go through here. All may have a leading axis of clients, if `act` takes it.
    """
    if not (inbox.heard.shape[-1] and inbox.messages):  # no neighbour in reach, or nothing is ever sent
        return state, {"heard": inbox.heard}
    inbox = heard_only(inbox)
    new, info = act(state, inbox, probe)
    return _if_sound(inbox.heard.any(dim=-1), new, state), {"heard": inbox.heard, **info}


def heard_only(inbox: Inbox) -> Inbox:
    """The inbox without messages that are not sound; what is not heard becomes zeros."""
    heard = inbox.heard & torch.isfinite(_sum(inbox.messages.values(), inbox.heard.dim()))
    # In two strokes, which on a processor are several times quicker than `where`.
    messages = {
        k: torch.nan_to_num(m, 0.0, 0.0, 0.0) * _beside(heard.to(m.dtype), m)
        for k, m in inbox.messages.items()
    }
    return inbox._replace(messages=messages, heard=heard)


def _if_sound(heard: Tensor, new: State, old: State) -> State:
    changed = [{k: v for k, v in n.items() if v is not o[k]} for n, o in zip(new, old, strict=True)]
    if not any(changed):
        return old
    sound = heard & torch.isfinite(_sum((v for part in changed for v in part.values()), heard.dim()))
    return State(
        *(
            {**o, **{k: torch.where(_beside(sound, v), v, o[k]) for k, v in c.items()}}
            for c, o in zip(changed, old, strict=True)
        )
    )


def _sum(tensors: Iterable[Tensor], axis: int) -> Tensor:
    """The sum of all numbers from an axis on: not finite if one is not, or if they are too wild to add."""
    parts = []
    for t in tensors:
        dtype, axes = torch.promote_types(t.dtype, torch.float32), tuple(range(axis, t.dim()))
        parts.append(t.sum(dim=axes, dtype=dtype) if axes else t.to(dtype))
    return torch.stack(parts).sum(dim=0)


def _beside(few: Tensor, many: Tensor) -> Tensor:
    """With as many axes as `many`, whose first ones it has."""
    return few.view(few.shape + (1,) * (many.dim() - few.dim()))
