"""What the clients of a group send, and how they read what arrives: offers, questions, replies, and lies."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from coterie.core.algorithm import guard
from coterie.core.precision import pack
from coterie.core.sampling import Purpose
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Foreign, Inbox, Info, Message, Probe, State, Tensors
from coterie.engine.exchanges.deliveries import Act, Deliveries
from coterie.engine.layout import AlgorithmGroup, Stack, first_client, take_clients
from coterie.engine.memory_budget import nbytes
from coterie.engine.row_slots import RowSlots

__all__ = ["Mail", "Party", "rows_of"]


class Unseen:
    """A stand-in for a probe at which nobody may look: whatever is asked of it raises."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"an offer looks at its probe's {name}, but did not when it was tried")


UNSEEN = cast(Probe, Unseen())

TRAINED = 3
"""Room for a message that is trained, in messages: itself, its gradient, and what comes of it."""


class Mail(NamedTuple):
    """The messages of one group's algorithm, found out by bare calls of the first client."""

    weight: int
    """Bytes that one broadcast costs on the wire, as the algorithm weighs it."""
    size: int
    """Bytes that its tensors take in memory, unpacked; 0: the algorithm broadcasts nothing."""
    looks: bool
    """The offer reads the probe, so the samples must be gathered."""
    question: int
    """Bytes that one question costs on the wire, 0 unless the algorithm `answers`."""
    reply: int
    """Bytes that one reply costs on the wire."""
    room: int
    """Bytes in memory for one reply, and for what it is made of; 0: the algorithm replies nothing."""
    offers: Message
    """The names and shapes of offers: those of nobody, `[0, ...]`; so are these:"""
    questions: Message
    replies: Message


class Party:
    """The clients of one group in one stack; `who` names them by their places in the group."""

    def __init__(
        self, stack: Stack, group: AlgorithmGroup, state: State, slots: RowSlots | None = None
    ) -> None:
        self.stack, self.group, self.state, self._slots = stack, group, state, slots
        self.mail = _mail(stack, group, state)
        n, offers = len(group.attacker), self.mail.offers if group.algorithm.feeds_back else {}
        self.feedback_received: Message = {k: m.new_zeros(n, *m.shape[1:]) for k, m in offers.items()}
        """`[n, ...]`: what each client's star sends it back; empty unless the algorithm `feeds_back`"""
        self.given = torch.zeros(n, dtype=torch.bool)
        """`[n]`: who was sent something in the last exchange, on the host"""

    def room(self, act: Act) -> int:
        """Count the bytes that one message takes in memory; 0: there is none."""
        return self.mail.room if act == "mix" else self.mail.size * self.group.algorithm.listens

    def needs_the_host(self, act: Act) -> bool:
        """Tell whether an exchange asks the host who sends: different senders, attackers, pairs that talk."""
        answers = act == "mix" and self.group.algorithm.answers
        return self.mail.looks or self.group.attack is not None or answers or self.group.algorithm.feeds_back

    def offers(self, who: Tensor, t: int | Tensor) -> Message:
        """Make the messages of some senders `[S]`, honest or not, as they arrive."""
        stack, group, where = self.stack, self.group, None
        if self.mail.looks:
            who, where = torch.unique(who, return_inverse=True)
        sender, numbers = stack.to_device(who), who + group.clients.start
        if group.overrides("offer"):

            def offer(hyper: Tensors, state: State, ctx: Context, probe: Probe = UNSEEN) -> Message:
                return group.method(hyper).offer(stack.task, state, probe, ctx)

            ctx = stack.context("offer", t, stack.to_device(numbers))
            probes = (stack.data.probe(numbers, t),) if self.mail.looks else ()
            states = take_clients(self.state, sender)
            offers = stack.task.mapped(offer)(rows_of(group.hyper, sender), states, ctx, *probes)
        else:  # of one client or of many: tensors of the state
            offers = rows_of(stack.task.select(self.state, group.algorithm.share), sender)
        offers = group.received(self._with_lies(who, offers, t), stack.dtype)
        return offers if where is None else rows_of(offers, stack.to_device(where))

    def questions(self, who: Tensor, probe: Probe, t: int | Tensor) -> Message:
        """Make the questions of some stars `[R]`, as they arrive."""
        stack, star = self.stack, self.stack.to_device(who)
        ctx = stack.context("question", t, star + self.group.clients.start)
        question = self.group.vmapped(stack.task, "question")
        asked = question(rows_of(self.group.hyper, star), take_clients(self.state, star), probe, ctx)
        return self.group.received(asked, stack.dtype)

    def replies(self, who: Tensor, questions: Message, t: int | Tensor) -> Message:
        """Make the replies of some senders `[S]` to a question each, as they arrive."""
        stack, group = self.stack, self.group
        sender, numbers = stack.to_device(who), who + group.clients.start
        theirs, probes = take_clients(self.state, sender), stack.data.probe(numbers, t)
        ctx = stack.context("offer", t, stack.to_device(numbers))
        reply = group.vmapped(stack.task, "reply")
        replies = reply(rows_of(group.hyper, sender), theirs, questions, probes, ctx)
        return group.received(self._with_lies(who, replies, t), stack.dtype)

    def feedback(self, who: Tensor, honest: Message, t: int, task: Task | None) -> Message:
        """Make the feedback of some stars `[S]`, as it arrives; `task`: of another architecture it is for."""
        return self.group.received(self._with_lies(who, honest, t, task), self.stack.dtype)

    def lay_down(self, who: Tensor, sent: Message) -> None:
        """Keep the feedback that some clients `[S]` are sent, until they adopt."""
        if len(who):
            where = self.stack.to_device(who)
            for k, m in self.feedback_received.items():
                m.index_copy_(0, where, sent[k])
            self.given[who] = True

    def returned(self, to: Deliveries) -> tuple[Deliveries, Message]:
        """Look up the feedback that R readers have got, of one sender each."""
        messages = rows_of(self.feedback_received, self.stack.to_device(to.reader))
        return to._replace(heard=to.heard & self.given[to.reader, None]), messages

    def placed(self, to: Deliveries, t: int) -> Deliveries:
        """Look up the slots of those who are heard at t, and give out those that readers have not yet."""
        if self._slots is None:
            return to
        number, heard, reader = (self.stack.to_device(part) for part in (to.number, to.heard, to.reader))
        return to._replace(slot=self._slots.find(self.state.rows, reader, number, heard, t))

    def probe(self, who: Tensor, t: int | Tensor) -> Probe:
        """Gather the probes of some readers `[R]`."""
        most = int(self.stack.data.owned[self.group.clients].max()) if isinstance(t, Tensor) else None
        return self.stack.data.probe(who + self.group.clients.start, t, most)

    def read(
        self,
        to: Deliveries,
        messages: Message,
        probe: Probe,
        act: Act,
        t: int | Tensor,
        foreign: tuple[Foreign, ...] = (),
    ) -> tuple[State, Info]:
        """Compute what R readers make of their messages `[R * K, ...]`; nobody is changed yet.

        The new state has those tensors alone that an algorithm changed.
        """
        stack, reader, shape = self.stack, self.stack.to_device(to.reader), to.sender.shape

        def each(messages: Message) -> Message:
            return {k: m.view(*shape, *m.shape[1:]) for k, m in messages.items()}

        others = tuple(Foreign(each(theirs.messages), theirs.mask.view(shape)) for theirs in foreign)
        inbox = Inbox(each(messages), stack.to_device(to.heard), stack.to_device(to.slot), others)
        ctx = stack.context(act, t, reader + self.group.clients.start)
        call = partial(_for_each, self.group, stack.task, act, rows_of(self.group.hyper, reader))
        old = take_clients(self.state, reader)
        new, info = guard(call, old, inbox, probe, ctx)
        changed = ({k: v for k, v in n.items() if v is not o[k]} for n, o in zip(new, old, strict=True))
        return State(*changed), info

    def _with_lies(self, who: Tensor, honest: Message, t: int | Tensor, other: Task | None = None) -> Message:
        """Put the lies of attackers among some senders `[S]` in place of their honest messages.

        `other`: the task of another architecture whose models the messages are.
        """
        group = self.group
        if group.attack is None or not len(liars := group.attacker[who].nonzero().flatten()):
            return honest
        stack, numbers = self.stack, who[liars] + group.clients.start
        at = stack.to_device(liars)
        given = (
            rows_of(honest, at),
            stack.data.probe(numbers, t),
            stack.context("attack", t, stack.to_device(numbers)),
        )
        if other is None:
            theirs = take_clients(self.state, stack.to_device(who[liars]))
            lies = stack.task.mapped(partial(group.attack.offer, stack.task))(theirs, *given)
        else:
            lies = other.mapped(partial(group.attack.feedback, other))(*given)
        return {k: m.index_copy(0, at, lies[k]) for k, m in honest.items()}


def rows_of(tensors: Tensors, index: Tensor | int) -> Tensors:
    """Index the first axis of each tensor."""
    return {k: v[index] for k, v in tensors.items()}


def _mail(stack: Stack, group: AlgorithmGroup, state: State) -> Mail:
    """Find out what the first client of a group would send, and whether its offer looks at samples.

    If there is nobody, which shapes it would have.
    """
    algorithm, first = group.algorithm, group.clients.start + torch.zeros(1, dtype=torch.int64)
    its = stack.task, first_client(state)
    nobody = not len(group.attacker)

    def ctx(purpose: Purpose) -> Context:
        if nobody:
            return Context(*map(stack.to_device, group.members[0].schedule.context(purpose, 0, 0)))
        return Context(*(part[0] for part in stack.context(purpose, 0, stack.to_device(first))))

    def probe() -> Probe:
        return (
            stack.data.blank_probe() if nobody else Probe(*(part[0] for part in stack.data.probe(first, 0)))
        )

    def weigh(message: Message) -> int:
        return algorithm.wire_bytes(pack(message, group.precision))

    looks = False
    try:
        offer = algorithm.offer(*its, UNSEEN, ctx("offer"))
    except Exception:  # whatever it is: an offer that fails for another reason fails again
        looks = True
        offer = algorithm.offer(*its, probe(), ctx("offer"))
    weight, size = weigh(offer), nbytes(offer)
    if not algorithm.answers:
        room = size * (TRAINED if algorithm.feeds_back else 1)
        return Mail(weight, size, looks, 0, weight, room, *map(_of_nobody, (offer, {}, offer)))
    seen = probe()
    question = algorithm.question(*its, seen, ctx("question"))
    reply = algorithm.reply(*its, question, seen, ctx("offer"))
    room = sum(map(nbytes, (*its[1], question, reply, {"x": seen.x})))
    named = map(_of_nobody, (offer, question, reply))
    return Mail(weight, size, looks, weigh(question), weigh(reply), room, *named)


def _of_nobody(message: Message) -> Message:
    """Keep a message's names and shapes: that of nobody, `[0, ...]`."""
    return {k: m.new_empty(0, *m.shape) for k, m in message.items()}


def _as_given(new: Tensors, old: Tensors) -> Tensors:
    """Put the very tensors that were given in place of those that a batched call handed through."""

    def handed_through(v: Tensor, o: Tensor) -> bool:
        return v.data_ptr() == o.data_ptr() and v.shape == o.shape and v.stride() == o.stride()

    return {k: old[k] if handed_through(v, old[k]) else v for k, v in new.items()}


def _for_each(
    group: AlgorithmGroup,
    task: Task,
    act: Act,
    hyper: Tensors,
    state: State,
    inbox: Inbox,
    probe: Probe,
    ctx: Context,
) -> tuple[State, Info]:
    """Call `mix` or `adopt` for every reader on its own, all in one batched call."""
    if len(inbox.heard) > 1:
        new, info = group.vmapped(task, act)(hyper, state, inbox, probe, ctx)
        return State(*(_as_given(n, o) for n, o in zip(new, state, strict=True))), info
    algorithm = group.method(rows_of(hyper, 0))
    foreign = tuple(Foreign(rows_of(theirs.messages, 0), theirs.mask[0]) for theirs in inbox.foreign)
    one = Inbox(rows_of(inbox.messages, 0), inbox.heard[0], inbox.slot[0], foreign)
    given = one, Probe(*(part[0] for part in probe)), Context(*(part[0] for part in ctx))
    new, info = (algorithm.mix if act == "mix" else algorithm.adopt)(task, take_clients(state, 0), *given)
    return take_clients(new, None), {k: v[None] for k, v in info.items()}
