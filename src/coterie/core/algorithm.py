"""The contract of an algorithm: one client's part in a federation, as pure functions.

    init      make the state that this client carries         before the first iteration
    local     take one local step                             every ordinary iteration
    close     take up what the closing phase needs            once, before its first step
    settle    look back on that step; as a rule do nothing    in the closing phase, after each
    ask       choose whom to ask of those in reach            t ≡ 0 (mod T_ex), the star
    question  make what they are asked; as a rule nothing     t ≡ 0 (mod T_ex), the star
    reply     answer the question; as a rule with the offer   t ≡ 0 (mod T_ex), neighbours
    mix       look at the replies, choose, average            t ≡ 0 (mod T_ex), the star
    offer     make the message to send                        t ≡ 1 (mod T_ex), the star
    adopt     take the star's broadcast, or its feedback      t ≡ 1 (mod T_ex), neighbours
    model     name the model that is tested, saved and exported
    predict   score samples with it

An algorithm is a frozen dataclass whose fields are its hyper-parameters. It never sees other clients, a
client axis, a clock or a network: who is a star, who is in reach and what is lost is the schedule's business.
Time and randomness are in the `Context` of each call. A hyper-parameter of type `float` may arrive as a
tensor (the engine stacks worlds that differ in it), so compute with it, but do not branch on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from coterie.core.models.model_choice import ModelChoice
from coterie.core.tasks.task import Task
from coterie.core.types import (
    Batch,
    Context,
    Foreign,
    Inbox,
    Info,
    Message,
    Probe,
    Reachable,
    Start,
    State,
    Tensors,
)

__all__ = [
    "Adoption",
    "Algorithm",
    "SearchSpace",
    "drop_unsound",
    "guard",
    "guarded_adopt",
    "guarded_mix",
]

Adoption = Literal["replace", "average", "mix", "ignore"]
SearchSpace: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Options and the values to try."""
Act: TypeAlias = Callable[[State, Inbox, Probe, Context], tuple[State, Info]]


@dataclass(frozen=True)
class Algorithm(ABC):
    """An algorithm; `mix` makes it one, the rest is what most algorithms do."""

    holds_out: ClassVar[bool] = False
    """Set some of each client's training samples aside (`exchange.holdout`): `Probe.held`."""
    pools: ClassVar[bool] = False
    """Give every client the training samples of all clients; only an experiment can."""
    needs_classes: ClassVar[bool] = False
    """Looks at labels or predicts them: refused where targets are not one class each."""
    knows_the_truth: ClassVar[bool] = False
    """Knows what only an experiment knows, such as `Start.group`: peers with data of their own refuse."""
    crosses: ClassVar[bool] = False
    """Uses messages of other architectures, `Inbox.foreign`; where it is false, a message that has not the
    names and shapes of the own offer counts as not heard."""

    share: str | tuple[str, ...] = "all"
    """The part of the model that is sent: `all` parameters and buffers, the `base` (all but the head), the
    `head`, the `norm` layers, or glob patterns; `!` before one of these leaves it out, as in `!norm`."""
    adoption: Adoption = "replace"
    """The use that a neighbour makes of the star's broadcast: `replace` its own model, `average` half and
    half, `mix` by weighing the broadcast as a star weighs a reply, or `ignore` it."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        """Make the state that this client carries."""
        return State(start.params, start.buffers, task.optimizer.init(start.params), {}, {})

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        """Take one local step; `Info` must hold the `loss`."""
        return task.step(state, batch)

    def close(self, task: Task, state: State, ctx: Context) -> State:
        """Change the state before the first step of the closing phase; `memory` may have other tensors then.

        What only the closing phase needs, such as a mean of models, is best begun here: until then there is
        no room taken for it. So `model` and `predict` must do without it.
        """
        return state

    def settle(self, task: Task, state: State, ctx: Context) -> State:
        """Change the state after a local step of the closing phase."""
        return state

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        """Choose whom to ask, `[K]` bool; what is padding is never asked."""
        return reachable.mask

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        """Make what a star sends with its request to each neighbour it asks, if the method `answers`."""
        return {}

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Message:
        """Make the message that this client sends to a star that asks; `ctx` is that of an `offer`."""
        return self.offer(task, state, probe, ctx)

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        """Make the message that a star broadcasts, and that every reply is unless the method `answers`."""
        return task.select(state, self.share)

    @abstractmethod
    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        """Change the star, once the replies are in. At least one was heard; the others are zeros."""

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        """Change a neighbour on the star's broadcast, an inbox of one."""
        if not self.listens:
            return state, {}
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        theirs = {k: m[0] for k, m in inbox.messages.items()}
        if self.adoption == "average":
            ours = self.offer(task, state, probe, ctx)
            theirs = {k: (ours[k] + m) / 2 for k, m in theirs.items()}
        return task.merge(state, theirs), {}

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        """Name the parameters and buffers that are tested, saved for use and exported."""
        return state.params, state.buffers

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Tensor:
        """Score the labels of samples, `[n, L]`; the largest score wins."""
        params, buffers = self.model(state)
        return task.logits(state._replace(params=params, buffers=buffers), x)

    def lr_scale(self, t: int) -> float:
        """Scale the local step at iteration t; the closing phase is not scaled."""
        return 1.0

    def wire_bytes(self, message: Message) -> int:
        """Weigh a message in bytes; for those that could be sent smaller than their tensors are."""
        return sum(m.numel() * m.element_size() for m in message.values())

    @property
    def listens(self) -> bool:
        """True if a broadcast can change this client; if not, none is sent."""
        return self.adoption != "ignore"

    @property
    def chooses(self) -> bool:
        """True if a star may ask fewer than all in reach; if not, `ask` need not be called."""
        return type(self).ask is not Algorithm.ask

    @property
    def answers(self) -> bool:
        """True if replies depend on the star's question; if not, it asks none, and a reply is the offer."""
        return type(self).reply is not Algorithm.reply

    @property
    def feeds_back(self) -> bool:
        """True if `mix` reports `feedback`: a message for each neighbour heard, in place of the broadcast."""
        return False

    @property
    def proxy(self) -> ModelChoice | None:
        """Name a second model, alike for all clients whatever their own: `Task.proxy`, `Start.proxy`."""
        return None

    @property
    def gradients(self) -> int:
        """Gradients that one local step takes."""
        return 1

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        """Count the gradients that one star's exchange takes, its neighbours' included.

        Of those `asked`, to reply; of the star, to mix what it `heard`; of those `told`, to adopt.
        """
        return 0

    def crossing_gradients(self, heard: int, told: int) -> int:
        """Count the gradients that one star's exchange takes beside, in a federation of mixed models.

        Of the star, to mix so many foreign messages that it `heard`; of those `told` who have another
        architecture, to adopt.
        """
        return 0

    def unused_options(self, last: int) -> str | None:
        """Name an option that cannot take effect until iteration `last`, where the closing phase begins."""
        return None

    def search_space(self) -> SearchSpace:
        """List the options that are worth tuning, where an experiment does not say which."""
        return {"adoption": ("replace", "average", "ignore")}


def guarded_mix(
    algorithm: Algorithm, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
) -> tuple[State, Info]:
    """Call `mix` under `guard`."""
    return guard(partial(algorithm.mix, task), state, inbox, probe, ctx)


def guarded_adopt(
    algorithm: Algorithm, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
) -> tuple[State, Info]:
    """Call `adopt` under `guard`."""
    return guard(partial(algorithm.adopt, task), state, inbox, probe, ctx)


def guard(act: Act, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
    """Call `act` on sound messages only; if there is none, or the result is not sound, nothing changes.

    Both runtimes go through here. All may have a leading axis of clients, if `act` takes it.
    """
    if not (inbox.heard.shape[-1] and inbox.messages):  # no neighbour in reach, or nothing is ever sent
        return state, {"heard": inbox.heard}
    inbox = drop_unsound(inbox)
    new, info = act(state, inbox, probe, ctx)
    return _if_sound(inbox.heard.any(dim=-1), new, state), {"heard": inbox.heard, **info}


def drop_unsound(inbox: Inbox) -> Inbox:
    """Count messages with numbers that are not finite as not heard; what is not heard becomes zeros."""
    messages = [inbox.messages, *(theirs.messages for theirs in inbox.foreign)]
    numbers = (m for message in messages for m in message.values())
    heard = inbox.heard & torch.isfinite(_sum(numbers, inbox.heard.dim()))
    sound = [(theirs.messages, heard & theirs.mask) for theirs in inbox.foreign]
    foreign = tuple(Foreign(_zeroed(theirs, mask), mask) for theirs, mask in sound)
    return inbox._replace(messages=_zeroed(inbox.messages, heard), heard=heard, foreign=foreign)


def _zeroed(messages: Message, heard: Tensor) -> Message:
    """Put zeros in place of what was not heard."""
    # In two strokes, which on a processor are several times quicker than `where`.
    return {
        k: torch.nan_to_num(m, 0.0, 0.0, 0.0) * _unsqueeze_like(heard.to(m.dtype), m)
        for k, m in messages.items()
    }


def _if_sound(heard: Tensor, new: State, old: State) -> State:
    """Choose the new state where something was heard and all that changed is finite, else the old one."""
    changed = [{k: v for k, v in n.items() if v is not o[k]} for n, o in zip(new, old, strict=True)]
    if not any(changed):
        return old
    sound = heard & torch.isfinite(_sum((v for part in changed for v in part.values()), heard.dim()))
    return State(
        *(
            {**o, **{k: torch.where(_unsqueeze_like(sound, v), v, o[k]) for k, v in c.items()}}
            for c, o in zip(changed, old, strict=True)
        )
    )


def _sum(tensors: Iterable[Tensor], axis: int) -> Tensor:
    """Add all numbers from an axis on: not finite if one is not, or if they are too wild to add."""
    parts = []
    for t in tensors:
        dtype, axes = torch.promote_types(t.dtype, torch.float32), tuple(range(axis, t.dim()))
        parts.append(t.sum(dim=axes, dtype=dtype) if axes else t.to(dtype))
    return torch.stack(parts).sum(dim=0)


def _unsqueeze_like(few: Tensor, many: Tensor) -> Tensor:
    """Append axes of one to `few`, so that it broadcasts against `many`."""
    return few.view(few.shape + (1,) * (many.dim() - few.dim()))
