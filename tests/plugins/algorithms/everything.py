"""An algorithm that uses all of the contract, for tests that hold the runtimes against each other.

Two models: the shared one travels under noise, the own one is pulled towards it and is tested. Stars ask at
random how far losses are apart, weigh what they hear by that and by how well it does on held-out samples, and
remember the latter of each neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from coterie.core.algorithm import Algorithm
from coterie.core.ingredients.messages import weighted_sum
from coterie.core.tasks.task import Task
from coterie.core.types import (
    Batch,
    Context,
    Inbox,
    Info,
    Message,
    Probe,
    Reachable,
    Start,
    State,
    Tensors,
)

__all__ = ["Everything"]

OWN = "own."


@dataclass(frozen=True)
class Everything(Algorithm):
    """Asks at random, sends a noisy model and its loss on held-out samples, tests another."""

    holds_out: ClassVar[bool] = True
    noise: float = 0.01
    """The standard deviation of what is added to a message."""
    pull: float = 0.5
    """How far the own model is drawn to the shared one."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        own = {OWN + k: v + self._noise(ctx, k, v) for k, v in start.params.items()}
        return state._replace(memory=own, rows={"loss": torch.zeros_like(start.row)})

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        shared, info = task.step(state, batch)
        pull = torch.where(ctx.closing, 0.0, self.pull) * (ctx.since > 2)
        own, _ = task.step(state._replace(params=_own(state)), batch, pull=(state.params, pull))
        return shared._replace(memory={OWN + k: v for k, v in own.params.items()}), info

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        # Drawn by slot: the place in the list is another in each runtime.
        return ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0] < 0.6

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {"loss": self._loss(task, state, probe)[None] + self._noise(ctx, "loss", probe.size[None])}

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Message:
        offer = self.offer(task, state, probe, ctx)
        return {**offer, "apart": (offer["loss"] - question["loss"]).abs()}

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        loss = self._loss(task, state, probe)
        noisy = {k: v + self._noise(ctx, k, v) for k, v in task.select(state, "!norm").items()}
        return {**noisy, "loss": loss[None]}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        models = {k: m for k, m in inbox.messages.items() if k not in ("loss", "apart")}
        here = task.map_over_messages(lambda s: self._loss(task, s, probe), state, models)
        there = inbox.messages["loss"][:, 0]
        there = there + inbox.messages["apart"][:, 0] if "apart" in inbox.messages else there
        u = ctx.stream("mix").uniform(1, client=inbox.slot)[:, 0]
        w = torch.where(inbox.heard, torch.exp(-here - there) * (1 + u), 0.0) / (1 + inbox.heard.sum())
        own = task.select(state, "!norm")
        mixed = {k: (1 - w.sum()) * own[k] + m for k, m in weighted_sum(w, models).items()}
        slot = torch.where(inbox.heard, inbox.slot, len(state.rows["loss"]))
        row = torch.cat([state.rows["loss"], here.new_zeros(1)]).scatter(0, slot, here)[:-1]
        return task.merge(state, mixed)._replace(rows={"loss": row}), {"weight": w, "distance": here}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self.mix(task, state, inbox, probe, ctx)

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        return _own(state), state.buffers

    def wire_bytes(self, message: Message) -> int:
        return Algorithm.wire_bytes(self, message) // 2

    @property
    def gradients(self) -> int:
        return 2

    def _noise(self, ctx: Context, name: str, like: Tensor) -> Tensor:
        return self.noise * ctx.stream(name).normal(like.numel()).view(like.shape).to(like.dtype)

    def _loss(self, task: Task, state: State, probe: Probe) -> Tensor:
        each = cross_entropy(task.logits(state, probe.x), probe.y, reduction="none")
        some = probe.held & probe.mask
        return probe.mean(each, torch.where(some.any(), some, probe.mask))  # one sample is not held out


def _own(state: State) -> Tensors:
    return {k.removeprefix(OWN): v for k, v in state.memory.items()}
