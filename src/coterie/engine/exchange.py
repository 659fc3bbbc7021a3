"""Exchanges of all worlds of a stack: who meets whom, and many stars' meetings as one batched operation.

All stars of all worlds of an algorithm look at the models as they were before the exchange; then all of
them change at once. Their neighbours hear the result one iteration later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from coterie.core.algorithm import Algorithm, guard
from coterie.core.precision import pack
from coterie.core.sampling import Purpose
from coterie.core.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Reachable, State, Tensors
from coterie.engine.cuda_graphs import Recorder, round_up
from coterie.engine.layout import AlgorithmGroup, Clients, Stack, take_clients, write_clients
from coterie.engine.memory_budget import chunk_size, nbytes
from coterie.schedule import Meeting

__all__ = ["Act", "Exchanges", "Meetings"]

MOST, LINKS = 32, 1 << 18
"""Exchanges, and links of a world, that are drawn at once."""

Meetings = Mapping[int, Meeting]
"""The meeting of each world (who meets whom), by the world's id."""
Act = Literal["mix", "adopt"]


class Unseen:
    """A stand-in for a probe at which nobody may look: whatever is asked of it raises."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"an offer looks at its probe's {name}, but did not when it was tried")


UNSEEN = cast(Probe, Unseen())


class Mail(NamedTuple):
    """The messages of one group's algorithm, found out by bare calls of the first client."""

    weight: int
    """Bytes that one broadcast costs on the wire, as the algorithm weighs it."""
    size: int
    """Bytes that its tensors take in memory, unpacked; 0: the algorithm broadcasts nothing."""
    looks: bool
    """The offer reads the probe, so the samples must be gathered."""
    asked: int
    """Bytes that one question and its reply cost on the wire."""
    room: int
    """Bytes in memory for one reply, and for what it is made of; 0: the algorithm replies nothing."""


class Deliveries(NamedTuple):
    """Messages that are read: R readers and the K senders of each; clients by their place in the group."""

    world: Tensor
    """`[R]` place of the reader's world among the group's"""
    reader: Tensor
    """`[R]`"""
    client: Tensor
    """`[R]` the reader's number in its world"""
    sender: Tensor
    """`[R, K]`"""
    slot: Tensor
    """`[R, K]`: the senders' numbers in their world"""
    heard: Tensor
    """`[R, K]`"""


class Exchanges:
    """The meetings of a stack's worlds; those in which the same clients meet share theirs."""

    def __init__(self, stack: Stack, clients: Clients, recorder: Recorder | None = None) -> None:
        self.stack, self.clients, self._recorder = stack, clients, recorder
        self.mail = [_mail(stack, g, state) for g, state in zip(stack.groups, clients.parts, strict=True)]
        self._schedules = {m.meeting_key: m.schedule for m in stack.members}
        links = max(s.stars * s.clients for s in self._schedules.values())
        self._ahead = min(MOST, max(1, LINKS // links))
        self._drawn: dict[int, dict[str, Meeting]] = {}

    def foresee(self, t: int) -> None:
        """Draw the exchange of iteration t, and those after it, if that has not been done."""
        if t not in self._drawn:
            every = self.stack.experiment.exchange.every
            ts = range(t, t + self._ahead * every, every)
            found = {meeting_key: schedule.meetings(ts) for meeting_key, schedule in self._schedules.items()}
            self._drawn = {when: {c: m[i] for c, m in found.items()} for i, when in enumerate(ts)}

    def meetings(self, t: int, sound: Tensor) -> Meetings:
        """Draw who meets at iteration t, of clients that are sound `[N]`; stars choose whom to ask."""
        self.foresee(t)
        drawn, all_sound = self._drawn[t], bool(sound.all())
        met = {
            m.id: drawn[m.meeting_key] if all_sound else _among_sound(drawn[m.meeting_key], sound[m.clients])
            for m in self.stack.members
        }
        for group, state in zip(self.stack.groups, self.clients.parts, strict=True):
            if group.algorithm.chooses:
                met |= self._chosen(group, state, met, t)
        return met

    def mix(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let stars look at the replies and mix, at t ≡ 0 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, _to_stars, "mix")

    def adopt(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let neighbours adopt their star's new model, at t ≡ 1 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, _to_neighbours, "adopt")

    def bytes_sent(self, met: Meetings, act: Act) -> Tensor:
        """Count the bytes that each world sends `[W]`: questions and replies, or the stars' broadcasts.

        As between real peers, there is no broadcast where nobody listens.
        """
        different = {id(meeting): meeting for meeting in met.values()}
        counts = {number: _messages(meeting, act) for number, meeting in different.items()}
        sent = []
        for group, mail in zip(self.stack.groups, self.mail, strict=True):
            each = mail.asked if act == "mix" else mail.weight * group.algorithm.listens
            sent += [each * counts[id(met[m.id])] for m in group.members]
        return torch.tensor(sent)

    def gradients(self, met: Meetings) -> Tensor:
        """Count the gradients that the exchanges of each world take `[W]`, beside those of local steps."""
        taken = [
            _gradients(member.algorithm, met[member.id]) if group.overrides("exchange_gradients") else 0
            for group in self.stack.groups
            for member in group.members
        ]
        return torch.tensor(taken)

    def _chosen(self, group: AlgorithmGroup, state: State, met: Meetings, t: int) -> dict[int, Meeting]:
        """Restrict the meetings of a group to those whom its stars choose to ask."""
        meetings = [met[m.id] for m in group.members]
        to = _to_stars(group, [m._replace(heard=m.asked) for m in meetings])
        chosen = torch.zeros_like(to.heard)
        for some in self._chunks(state, to.reader, 0):
            who = self.stack.to_device(to.reader[some])
            reachable = Reachable(self.stack.to_device(to.slot[some]), self.stack.to_device(to.heard[some]))
            ctx = self.stack.context("ask", t, who + group.clients.start)
            ask = group.vmapped(self.stack.task, "ask")
            chosen[some] = ask(_rows(group.hyper, who), take_clients(state, who), reachable, ctx).cpu()
        parts = torch.split(chosen, [len(m.star) for m in meetings])
        return {
            member.id: _restricted(meeting, part[:, : meeting.asked.shape[1]])
            for member, meeting, part in zip(group.members, meetings, parts, strict=True)
        }

    def _deliver(
        self,
        met: Meetings,
        t: int,
        address: Callable[[AlgorithmGroup, Sequence[Meeting]], Deliveries],
        act: Act,
    ) -> list[dict[str, Any]]:
        rows = []
        for group, state, mail in zip(self.stack.groups, self.clients.parts, self.mail, strict=True):
            if _room(group, mail, act):
                to = address(group, [met[m.id] for m in group.members])
                info = self._read(group, state, mail, to, act, t)
                rows += [{**row, "t": t, "kind": act} for row in _reports(group, to, info)]
        return rows

    def _read(
        self, group: AlgorithmGroup, state: State, mail: Mail, to: Deliveries, act: Act, t: int
    ) -> Info:
        """Change all readers of a group; what they report, each with an axis of readers."""
        if (found := self._replayed(group, state, mail, to, act, t)) is not None:
            return found
        results, reports = [], []
        for some in self._chunks(state, to.reader, _room(group, mail, act) * to.sender.shape[1]):
            part = Deliveries(*(column[some] for column in to))
            new, info = self._batch(group, state, mail, part, act, t)
            results.append((self.stack.to_device(part.reader), new))
            reports.append(info)
        for reader, new in results:  # only now: everybody read the models from before
            write_clients(state, reader, new)
        if not reports:
            return {}
        return _reported({k: torch.cat([r[k] for r in reports]) for k in reports[0]})

    def _replayed(
        self, group: AlgorithmGroup, state: State, mail: Mail, to: Deliveries, act: Act, t: int
    ) -> Info | None:
        """Do the same by a recording, with readers and senders rounded up; None if there is none."""
        if not (self._recorder and len(to.reader)) or _needs_the_host(group, mail, act):
            return None
        some = _rounded_up(to)
        room = _room(group, mail, act) * some.sender.shape[1] + 2 * sum(map(nbytes, take_clients(state, 0)))
        if len(some.reader) > chunk_size(room, self.stack.device):
            return None
        given = some.reader, some.sender, some.slot, some.heard, torch.tensor(t)
        work = partial(self._turn, group, state, mail, act)
        info = self._recorder.replay((id(group), act), work, *map(self.stack.to_device, given))
        return None if info is None else _reported({k: v[: len(to.reader)] for k, v in info.items()})

    def _turn(
        self, group: AlgorithmGroup, state: State, mail: Mail, act: Act, reader: Tensor, *given: Tensor
    ) -> Info:
        """Change readers, given on the device with their senders `[R, K]`, slots, what was heard, and t."""
        *columns, t = given
        to = Deliveries(reader, reader, reader, *columns)
        new, info = self._batch(group, state, mail, to, act, t)
        write_clients(state, reader, new)
        return info

    def _batch(
        self, group: AlgorithmGroup, state: State, mail: Mail, to: Deliveries, act: Act, t: int | Tensor
    ) -> tuple[State, Info]:
        stack, reader, shape = self.stack, self.stack.to_device(to.reader), to.sender.shape
        most = int(stack.data.owned[group.clients].max()) if isinstance(t, Tensor) else None
        probe = stack.data.probe(to.reader + group.clients.start, t, most)
        if act == "mix" and group.algorithm.answers:
            messages = self._replies(group, state, to, probe, t)
        else:
            messages = self._offers(group, state, mail, to.sender.flatten(), t)
        inbox = Inbox(
            {k: m.view(*shape, *m.shape[1:]) for k, m in messages.items()},
            stack.to_device(to.heard),
            stack.to_device(to.slot),
        )
        ctx = stack.context(act, t, reader + group.clients.start)
        call = partial(_for_each, group, stack.task, act, _rows(group.hyper, reader))
        return guard(call, take_clients(state, reader), inbox, probe, ctx)

    def _replies(
        self, group: AlgorithmGroup, state: State, to: Deliveries, probe: Probe, t: int | Tensor
    ) -> Message:
        """Make the replies to the questions of R readers `[R * K]`, as they arrive; zeros if not heard."""
        stack, reader = self.stack, self.stack.to_device(to.reader)
        ctx = stack.context("question", t, reader + group.clients.start)
        question = group.vmapped(stack.task, "question")
        asked = question(_rows(group.hyper, reader), take_clients(state, reader), probe, ctx)
        questions = group.received(asked, stack.dtype)
        (pair,) = to.heard.flatten().nonzero(as_tuple=True)
        pair = pair if len(pair) else torch.zeros(1, dtype=torch.int64)  # for the names and shapes
        who = to.sender.flatten()[pair]
        sender, numbers = stack.to_device(who), who + group.clients.start
        theirs, probes = take_clients(state, sender), stack.data.probe(numbers, t)
        each = _rows(questions, stack.to_device(pair // to.sender.shape[1]))
        ctx = stack.context("offer", t, stack.to_device(numbers))
        reply = group.vmapped(stack.task, "reply")
        replies = reply(_rows(group.hyper, sender), theirs, each, probes, ctx)
        replies = group.received(self._with_lies(group, state, who, replies, t), stack.dtype)
        at = stack.to_device(pair)
        return {
            k: m.new_zeros(to.sender.numel(), *m.shape[1:]).index_copy(0, at, m) for k, m in replies.items()
        }

    def _offers(
        self, group: AlgorithmGroup, state: State, mail: Mail, who: Tensor, t: int | Tensor
    ) -> Message:
        """Make the messages of some senders `[S]`, honest or not, as they arrive."""
        stack, where = self.stack, None
        if mail.looks:
            who, where = torch.unique(who, return_inverse=True)
        sender, numbers = stack.to_device(who), who + group.clients.start
        if group.overrides("offer"):

            def offer(hyper: Tensors, state: State, ctx: Context, probe: Probe = UNSEEN) -> Message:
                return group.method(hyper).offer(stack.task, state, probe, ctx)

            ctx = stack.context("offer", t, stack.to_device(numbers))
            probes = (stack.data.probe(numbers, t),) if mail.looks else ()
            offers = stack.task.mapped(offer)(
                _rows(group.hyper, sender), take_clients(state, sender), ctx, *probes
            )
        else:  # of one client or of many: tensors of the state
            offers = _rows(stack.task.select(state, group.algorithm.share), sender)
        offers = group.received(self._with_lies(group, state, who, offers, t), stack.dtype)
        return offers if where is None else _rows(offers, stack.to_device(where))

    def _with_lies(
        self, group: AlgorithmGroup, state: State, who: Tensor, honest: Message, t: int | Tensor
    ) -> Message:
        """Put the lies of attackers among some senders `[S]` in place of their honest messages."""
        if group.attack is None or not len(liars := group.attacker[who].nonzero().flatten()):
            return honest
        stack, numbers = self.stack, who[liars] + group.clients.start
        at = stack.to_device(liars)
        lies = stack.task.mapped(partial(group.attack.offer, stack.task))(
            take_clients(state, stack.to_device(who[liars])),
            _rows(honest, at),
            stack.data.probe(numbers, t),
            stack.context("attack", t, stack.to_device(numbers)),
        )
        return {k: m.index_copy(0, at, lies[k]) for k, m in honest.items()}

    def _chunks(self, state: State, reader: Tensor, inbox: int) -> Iterator[slice]:
        """Part the readers so that their states, before and after, and inboxes (bytes each) fit."""
        own = sum(map(nbytes, take_clients(state, 0)))
        step = chunk_size(inbox + 2 * own, self.stack.device)
        return (slice(i, i + step) for i in range(0, len(reader), step))


def _mail(stack: Stack, group: AlgorithmGroup, state: State) -> Mail:
    """Find out what the first client of a group would send, and whether its offer looks at samples."""
    algorithm, first = group.algorithm, group.clients.start + torch.zeros(1, dtype=torch.int64)
    its = stack.task, take_clients(state, 0)

    def ctx(purpose: Purpose) -> Context:
        return Context(*(part[0] for part in stack.context(purpose, 0, stack.to_device(first))))

    def probe() -> Probe:
        return Probe(*(part[0] for part in stack.data.probe(first, 0)))

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
        return Mail(weight, size, looks, weight, size)
    seen = probe()
    question = algorithm.question(*its, seen, ctx("question"))
    reply = algorithm.reply(*its, question, seen, ctx("offer"))
    asked = weigh(question) + weigh(reply)
    made_of = (*its[1], question, reply, {"x": seen.x})
    return Mail(weight, size, looks, asked, sum(map(nbytes, made_of)))


def _room(group: AlgorithmGroup, mail: Mail, act: Act) -> int:
    """Count the bytes that one message takes in memory; 0: there is none."""
    return mail.room if act == "mix" else mail.size * group.algorithm.listens


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
        return new, info
    algorithm = group.method(_rows(hyper, 0))
    one = Inbox(_rows(inbox.messages, 0), inbox.heard[0], inbox.slot[0])
    given = one, Probe(*(part[0] for part in probe)), Context(*(part[0] for part in ctx))
    new, info = (algorithm.mix if act == "mix" else algorithm.adopt)(task, take_clients(state, 0), *given)
    return take_clients(new, None), {k: v[None] for k, v in info.items()}


def _rows(tensors: Tensors, index: Tensor | int) -> Tensors:
    """Index the first axis of each tensor."""
    return {k: v[index] for k, v in tensors.items()}


def _to_stars(group: AlgorithmGroup, meetings: Sequence[Meeting]) -> Deliveries:
    """Address the neighbours' messages to the stars."""
    width = max(m.neighbour.shape[1] for m in meetings)
    sizes = [len(m.star) for m in meetings]
    first = [m.clients.start - group.clients.start for m in group.members]
    # Not `repeat_interleave`, which takes milliseconds where there are many cores.
    offset, world = (torch.from_numpy(np.repeat(part, sizes)) for part in (first, range(len(meetings))))
    star = torch.cat([m.star for m in meetings])
    slot, heard = (
        torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])
        for parts in ([m.neighbour for m in meetings], [m.heard for m in meetings])
    )
    return Deliveries(world, star + offset, star, slot + offset[:, None], slot, heard)


def _needs_the_host(group: AlgorithmGroup, mail: Mail, act: Act) -> bool:
    """Tell whether an exchange asks the host who sends: different senders, attackers, pairs that talk."""
    return mail.looks or group.attack is not None or (act == "mix" and group.algorithm.answers)


def _rounded_up(to: Deliveries) -> Deliveries:
    """Round readers up, by repeating the last, and senders, by some who are not heard."""
    count, width = to.sender.shape
    more = (0, round_up(width, 8) - width) if width > 1 else (0, 0)
    rows = torch.arange(round_up(count, 16)).clamp_max(count - 1)
    wide = to._replace(sender=pad(to.sender, more), slot=pad(to.slot, more), heard=pad(to.heard, more))
    return Deliveries(*(column[rows] for column in wide))


def _reported(info: Info) -> Info:
    """Bring reports to the host; an algorithm that reports nothing but whom it heard reports nothing."""
    return {} if set(info) <= {"heard"} else {k: v.cpu() for k, v in info.items()}


def _to_neighbours(group: AlgorithmGroup, meetings: Sequence[Meeting]) -> Deliveries:
    """Address each star's message to the neighbours that are told, the meetings the other way round."""
    rows = []
    for w, (member, meeting) in enumerate(zip(group.members, meetings, strict=True)):
        first = member.clients.start - group.clients.start
        s, k = torch.nonzero(meeting.told, as_tuple=True)
        client, star = meeting.neighbour[s, k], meeting.star[s]
        rows.append((torch.full_like(client, w), client + first, client, star + first, star))
    world, reader, client, sender, slot = (torch.cat(column) for column in zip(*rows, strict=True))
    heard = torch.ones_like(slot, dtype=torch.bool)
    return Deliveries(world, reader, client, sender[:, None], slot[:, None], heard[:, None])


def _among_sound(meeting: Meeting, sound: Tensor) -> Meeting:
    """Restrict a meeting to clients that did not diverge, `[M]`: the others neither ask nor answer."""
    return _restricted(meeting, sound[meeting.star, None] & sound[meeting.neighbour])


def _restricted(meeting: Meeting, allowed: Tensor) -> Meeting:
    """Leave out pairs of star and neighbour that are not allowed, `[S, K]`."""
    heard = meeting.heard & allowed
    told = meeting.told & allowed & heard.any(dim=1, keepdim=True)
    return meeting._replace(asked=meeting.asked & allowed, heard=heard, told=told)


def _messages(meeting: Meeting, act: Act) -> int:
    """Count messages: every neighbour asked replies; a star that heard one sends to all it asked."""
    sent = meeting.asked if act == "mix" else meeting.asked & meeting.heard.any(dim=1, keepdim=True)
    return int(torch.count_nonzero(sent))


def _gradients(algorithm: Algorithm, meeting: Meeting) -> int:
    """Add up what the exchanges of all stars of a meeting take."""
    told = meeting.told & algorithm.listens
    counts = torch.stack([part.sum(dim=1) for part in (meeting.asked, meeting.heard, told)], dim=1)
    return sum(algorithm.exchange_gradients(*star) for star in counts.tolist() if star[0])


def _reports(group: AlgorithmGroup, to: Deliveries, info: Info) -> Iterator[dict[str, Any]]:
    """Make a row for each reader that heard something: whom, and what it reports of each and of all."""
    columns = {k: v.tolist() for k, v in info.items()}
    readers = zip(to.world.tolist(), to.client.tolist(), to.slot.tolist(), strict=True)
    for r, (world, client, slot) in enumerate(readers if info else ()):
        heard = columns["heard"][r]
        kept = [k for k, h in enumerate(heard) if h]
        if kept:
            found = {
                name: [values[r][k] for k in kept] if _is_per_message(values[r], heard) else values[r]
                for name, values in columns.items()
                if name != "heard"
            }
            neighbours = [slot[k] for k in kept]
            yield {"world": group.members[world].id, "client": client, "neighbours": neighbours, **found}


def _is_per_message(value: Any, heard: list[bool]) -> bool:
    return isinstance(value, list) and len(value) == len(heard)
