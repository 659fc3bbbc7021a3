"""One peer's simulated twin: its life, carried by the simulator's feed and its stacked execution.

States have an axis of clients, of one: everything runs batched, as in a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch.utils._pytree import tree_map

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.data import Federation
from coterie.core.sampling import Purpose, first_model, first_proxy, first_row
from coterie.core.types import Batch, Context, Foreign, Inbox, Info, Message, Probe, Start, State, Tensors
from coterie.engine.batches import StackedData
from coterie.engine.execution import LocalStep, OneByOneExecution, VmapExecution
from coterie.engine.layout import AlgorithmGroup
from coterie.peer.learning.client import Act, Client, ReceivedMessage

__all__ = ["Received", "Twin"]

AHEAD = 64
"""Local steps whose batches are drawn in one go."""


class Received(NamedTuple):
    """A message `[1, ...]`, and its sender's entry of the row and architecture."""

    slot: int
    message: Message
    architecture: int


class Twin:
    """A client of the simulator that is told what to do."""

    def __init__(self, client: Client, federation: Federation, at: int) -> None:
        """Put the twin in place `at` among the federation's clients."""
        self.client, self.at = client, slice(at, at + 1)
        self.task, self.algorithm = client.task, client.algorithm
        self.data = StackedData.of(
            [federation],
            [client.seed],
            client.probe_size or "all",
            torch.device("cpu"),
            client.dtype,
            holdouts=[client.schedule.exchange.holdout if self.algorithm.holds_out else 0.0],
            numbers=torch.full_like(federation.train.count, client.number),
        )
        self.group = AlgorithmGroup(
            self.algorithm, {}, (), slice(0, 1), None, torch.zeros(1, dtype=torch.bool), client.precision
        )
        self.execution = OneByOneExecution(self.task) if self.task.alone else VmapExecution(self.task)
        self.learns = client.attack is None or client.attack.trains
        self.feedback: list[Message | None] = []
        """What each of those heard in the last mix receives in return, `[1, ...]`; empty: nothing."""
        self.state = self.first()

    def first(self) -> State:
        """Make the state before the first iteration, `[1, ...]`."""
        c = self.client
        params, buffers = first_model(c.task, c.init, c.seed, c.number)
        row = first_row(c.slot, c.schedule.clients, c.dtype)
        start = Start(params, buffers, row, torch.tensor(c.own.group), first_proxy(c.task, c.init, c.seed))
        state: State = self._vmapped("init", 0, tree_map(lambda tensor: tensor[None], start))
        return state

    def local(self, first: int, last: int, look: Callable[[int, State], None]) -> None:
        """Take the local steps of iterations first to last; `look` sees the state after each of them."""
        for begin in range(first, last + 1, AHEAD):
            ts = torch.arange(begin, min(begin + AHEAD, last + 1))
            draws, keys = (
                self.data.batch_positions(ts, self.at, self.client.batch),
                self.data.keys(ts, self.at),
            )
            for k, t in enumerate(ts.tolist()):
                x, y = self.data.samples(self.data.train, draws[k])
                lr = torch.tensor([self.client.lr(t)], dtype=torch.float64).to(self.client.dtype)
                batch = Batch(x, y, lr, keys[k])
                if self.client.schedule.closes(t):
                    self.state = self._vmapped("close", t, self.state)
                if self.learns:
                    ctx = self._context("local", t)
                    self.state, _ = self.execution.step(self.group, LocalStep({}, self.state, batch, ctx))
                    if self.client.schedule.closing(t):
                        self.state = self._vmapped("settle", t, self.state)
                look(t, self.state)

    def offer(self, state: State, t: int) -> Message:
        """Compute what others receive of the twin in that state at iteration t, `[1, ...]`."""
        probe = self._probe(t)
        return self._sent(state, t, probe, self._vmapped("offer", t, state, probe))

    def question(self, state: State, t: int) -> Message:
        """Compute what others receive as the twin's question in that state at iteration t, `[1, ...]`."""
        return self._received(self._vmapped("question", t, state, self._probe(t)))

    def reply(self, state: State, t: int, question: Message) -> Message:
        """Compute what the twin answers to a question `[1, ...]` in that state at iteration t, `[1, ...]`."""
        probe = self._probe(t)
        return self._sent(state, t, probe, self._vmapped("reply", t, state, question, probe))

    def _sent(self, state: State, t: int, probe: Probe, honest: Message) -> Message:
        """Compute what others receive in place of an honest message: that one, unless the twin attacks."""
        if (attack := self.client.attack) is None:
            return self._received(honest)
        given = state, honest, probe, self._context("attack", t)
        lie: Message = self.task.mapped(lambda *its: attack.offer(self.task, *its))(*given)
        return self._received(lie)

    def _received(self, message: Message) -> Message:
        return self.group.received(message, self.client.dtype)

    def mix(self, t: int, heard: Sequence[Received]) -> Info:
        """Mix what was heard, as a star."""
        return self._exchange("mix", t, heard)

    def adopt(self, t: int, heard: Received) -> Info:
        """Adopt what was heard, as a neighbour."""
        return self._exchange("adopt", t, [heard])

    def reset_slot(self, slot: int) -> None:
        """Set an entry of the row back to its value at the start."""
        at, fresh = torch.tensor([slot]), self.first().rows
        rows = {k: v.index_copy(1, at, fresh[k][:, slot, None]) for k, v in self.state.rows.items()}
        self.state = self.state._replace(rows=rows)

    def _exchange(self, act: Act, t: int, heard: Sequence[Received]) -> Info:
        bare = [ReceivedMessage(slot, _of_one(m), a) for slot, m, a in heard]
        inbox, before = _batched(self.client.inbox(act, bare)), self.state
        guarded = guarded_mix if act == "mix" else guarded_adopt
        given = before, inbox, self._probe(t), self._context(act, t)
        info: Info
        self.state, info = self.task.mapped(lambda *its: guarded(self.algorithm, self.task, *its))(*given)
        if act == "mix" and self.algorithm.feeds_back:
            own = State(*map(_of_one, before))
            told, packed = self.client.feedback(own, t, bare, _of_one(info))
            info = {k: v[None] for k, v in told.items()}
            self.feedback = [m and {k: v[None] for k, v in self.client.unpacked(m).items()} for m in packed]
        return info

    def _vmapped(
        self, call: Literal["init", "close", "settle", "question", "reply", "offer"], t: int, *given: Any
    ) -> Any:
        """Call the algorithm batched over one client."""
        ctx = self._context("offer" if call == "reply" else call, t)
        return self.group.vmapped(self.task, call)({}, *given, ctx)

    def _context(self, purpose: Purpose, t: int) -> Context:
        return self.client.schedule.context(purpose, t, torch.tensor([self.client.number]))

    def _probe(self, t: int) -> Probe:
        return self.data.probe(torch.tensor([self.at.start]), t)


def _of_one(tensors: Tensors) -> Tensors:
    """Take the only client's part."""
    return {k: v[0] for k, v in tensors.items()}


def _batched(inbox: Inbox) -> Inbox:
    """Give everything an axis of clients, of one."""
    foreign = tuple(
        Foreign({k: m[None] for k, m in theirs.messages.items()}, theirs.mask[None])
        for theirs in inbox.foreign
    )
    messages = {k: m[None] for k, m in inbox.messages.items()}
    return Inbox(messages, inbox.heard[None], inbox.slot[None], foreign)
