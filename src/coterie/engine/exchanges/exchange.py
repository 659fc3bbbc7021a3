"""Exchanges of all worlds of a stack: who meets whom, and many stars' meetings as one batched operation.

All stars of all worlds of an algorithm look at the models as they were before the exchange; then all of
them change at once. Their neighbours hear the result one iteration later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from coterie.core.types import Info, Message, Probe, Reachable, State
from coterie.engine.cuda_graphs import Recorder
from coterie.engine.exchanges.deliveries import (
    Act,
    Deliveries,
    Meetings,
    among_sound,
    gradients_taken,
    in_order,
    messages_sent,
    narrowed,
    reports,
    restricted,
    rounded_up,
    to_neighbours,
    to_stars,
    widest_first,
)
from coterie.engine.exchanges.feedback import Receivers, send_back
from coterie.engine.exchanges.mail import Mail, Party, rows_of
from coterie.engine.layout import (
    AlgorithmGroup,
    Clients,
    Stack,
    WorldSlot,
    first_client,
    take_clients,
    write_clients,
)
from coterie.engine.memory_budget import chunk_size, nbytes
from coterie.schedule import Meeting, Schedule

__all__ = ["Act", "Address", "Draws", "Exchanges", "Meetings", "asked", "chosen_among", "chunks"]

MOST, LINKS = 32, 1 << 18
"""Exchanges, and links of a world, that are drawn at once."""
Address: TypeAlias = Callable[[Sequence[int], Sequence[Meeting]], Deliveries]
"""`to_stars` or `to_neighbours`."""


class Draws:
    """Meetings of worlds, drawn ahead; worlds in which the same clients meet share theirs."""

    def __init__(self, members: Sequence[WorldSlot], every: int) -> None:
        """`every`: iterations from one exchange to the next."""
        self._schedules: dict[str, Schedule] = {m.meeting_key: m.schedule for m in members}
        self._every = every
        links = max(s.clients + s.stars * s.links_drawn for s in self._schedules.values())
        self._ahead = min(MOST, max(1, LINKS // links))
        self._drawn: dict[int, dict[str, Meeting]] = {}

    def foresee(self, t: int) -> None:
        """Draw the exchange of iteration t, and those after it, if that has not been done."""
        if t not in self._drawn:
            ts = range(t, t + self._ahead * self._every, self._every)
            found = {meeting_key: schedule.meetings(ts) for meeting_key, schedule in self._schedules.items()}
            self._drawn = {when: {c: m[i] for c, m in found.items()} for i, when in enumerate(ts)}

    def at(self, t: int) -> dict[str, Meeting]:
        """Look up the meetings of iteration t by their keys."""
        self.foresee(t)
        return self._drawn[t]


class Exchanges:
    """The meetings of a stack's worlds."""

    def __init__(self, stack: Stack, clients: Clients, recorder: Recorder | None = None) -> None:
        self.stack, self._recorder = stack, recorder
        self.parties = [
            Party(stack, *its) for its in zip(stack.groups, clients.parts, clients.slots, strict=True)
        ]
        self._draws = Draws(stack.members, stack.experiment.exchange.every)

    @property
    def mail(self) -> list[Mail]:
        """The messages of each group."""
        return [party.mail for party in self.parties]

    def foresee(self, t: int) -> None:
        """Draw the exchange of iteration t, and those after it, if that has not been done."""
        self._draws.foresee(t)

    def meetings(self, t: int, sound: Tensor) -> Meetings:
        """Draw who meets at iteration t, of clients that are sound `[N]`; stars choose whom to ask."""
        drawn, all_sound = self._draws.at(t), bool(sound.all())
        met = {
            m.id: drawn[m.meeting_key] if all_sound else among_sound(drawn[m.meeting_key], sound[m.clients])
            for m in self.stack.members
        }
        for party in self.parties:
            if party.group.algorithm.chooses:
                met |= self._chosen(party, met, t)
        return met

    def mix(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let stars look at the replies and mix, at t ≡ 0 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, to_stars, "mix")

    def adopt(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let neighbours adopt their star's new model, at t ≡ 1 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, to_neighbours, "adopt")

    def bytes_sent(self, met: Meetings, act: Act) -> Tensor:
        """Count the bytes that each world sends `[W]`: questions and replies, or the stars' broadcasts.

        As between real peers, there is no broadcast where nobody listens.
        """
        sent = []
        for party in self.parties:
            group, mail = party.group, party.mail
            different = {id(met[m.id]): met[m.id] for m in group.members}
            counts = {k: int(messages_sent(group.algorithm, m, act).sum()) for k, m in different.items()}
            each = mail.question + mail.reply if act == "mix" else mail.weight * group.algorithm.listens
            sent += [each * counts[id(met[m.id])] for m in group.members]
        return torch.tensor(sent)

    def gradients(self, met: Meetings) -> Tensor:
        """Count the gradients that the exchanges of each world take `[W]`, beside those of local steps."""
        taken = [
            gradients_taken(member.algorithm, met[member.id]) if group.overrides("exchange_gradients") else 0
            for group in self.stack.groups
            for member in group.members
        ]
        return torch.tensor(taken)

    def _chosen(self, party: Party, met: Meetings, t: int) -> dict[int, Meeting]:
        """Restrict the meetings of a group to those whom its stars choose to ask."""
        meetings = [met[m.id] for m in party.group.members]
        to = to_stars(_first(party.group), [m._replace(heard=m.asked) for m in meetings])
        return chosen_among(party.group, meetings, asked(party, to, t))

    def _deliver(self, met: Meetings, t: int, address: Address, act: Act) -> list[dict[str, Any]]:
        rows = []
        for party in self.parties:
            if party.room(act):
                if act == "mix":
                    party.given.zero_()
                to = address(_first(party.group), [met[m.id] for m in party.group.members])
                rows += [{**row, "t": t, "kind": act} for row in self._read(party, to, act, t)]
        return rows

    def _read(self, party: Party, to: Deliveries, act: Act, t: int) -> list[dict[str, Any]]:
        """Change all readers of a group; the rows of those that report."""
        to = party.placed(to, t)
        if (found := self._replayed(party, to, act, t)) is not None:
            return list(reports(party.group, to, found))
        results, infos = [], []
        for part in chunks(party, to, party.room(act)):
            new, info = self._batch(party, part, act, t)
            if act == "mix" and party.group.algorithm.feeds_back:
                info = send_back(party, part, info, t, [_everybody(party, part)])
            results.append((self.stack.to_device(part.reader), new))
            infos.append((part, info))
        for reader, new in results:  # only now: everybody read the models from before
            write_clients(party.state, reader, new)
        rows = [row for part, info in infos for row in reports(party.group, part, info)]
        return in_order(rows, party.group, to) if self.stack.large else rows

    def _replayed(self, party: Party, to: Deliveries, act: Act, t: int) -> Info | None:
        """Do the same by a recording, with readers and senders rounded up; None if there is none."""
        if not (self._recorder and len(to.reader)) or party.needs_the_host(act):
            return None
        some = rounded_up(to)
        room = party.room(act) * some.sender.shape[1] + 2 * sum(map(nbytes, first_client(party.state)))
        if len(some.reader) > chunk_size(room, self.stack.device):
            return None
        given = some.reader, some.sender, some.slot, some.heard, torch.tensor(t)
        work = partial(self._turn, party, act)
        info = self._recorder.replay((id(party.group), act), work, *map(self.stack.to_device, given))
        return None if info is None else {k: v[: len(to.reader)] for k, v in info.items()}

    def _turn(self, party: Party, act: Act, reader: Tensor, *given: Tensor) -> Info:
        """Change readers, given on the device with their senders `[R, K]`, slots, what was heard, and t."""
        sender, slot, heard, t = given
        # nobody gives feedback here, and nobody asks for numbers
        to = Deliveries(reader, reader, reader, sender, sender, slot, heard, heard)
        new, info = self._batch(party, to, act, t)
        write_clients(party.state, reader, new)
        return info

    def _batch(self, party: Party, to: Deliveries, act: Act, t: int | Tensor) -> tuple[State, Info]:
        probe = party.probe(to.reader, t)
        if act == "mix" and party.group.algorithm.answers:
            messages = self._replies(party, to, probe, t)
        elif act == "adopt" and party.group.algorithm.feeds_back:
            to, messages = party.returned(to)
        else:
            messages = party.offers(to.sender.flatten(), t)
        return party.read(to, messages, probe, act, t)

    def _replies(self, party: Party, to: Deliveries, probe: Probe, t: int | Tensor) -> Message:
        """Make the replies to the questions of R readers `[R * K]`, as they arrive; zeros if not heard."""
        questions = party.questions(to.reader, probe, t)
        (pair,) = to.heard.flatten().nonzero(as_tuple=True)
        at, shape = self.stack.to_device(pair), to.sender.numel()
        found = {k: like.new_zeros(shape, *like.shape[1:]) for k, like in party.mail.replies.items()}
        if not len(pair):
            return found
        each = rows_of(questions, self.stack.to_device(pair // to.sender.shape[1]))
        replies = party.replies(to.sender.flatten()[pair], each, t)
        return {k: m.index_copy(0, at, replies[k]) for k, m in found.items()}


def _everybody(party: Party, to: Deliveries) -> Receivers:
    """Name all who were heard, where all have one architecture."""
    sender = to.sender.flatten()
    among = torch.ones_like(sender, dtype=torch.bool)
    return Receivers(party.stack.task, "own", among, lambda pair, sent: party.lay_down(sender[pair], sent))


def asked(party: Party, to: Deliveries, t: int) -> Tensor:
    """Let stars choose among those in reach, `to.heard`: whom they ask, `[R, K]` bool."""
    chosen, group, stack = torch.zeros_like(to.heard), party.group, party.stack
    to = party.placed(to, t)
    for some in slices(party, len(to.reader), 0):
        who = stack.to_device(to.reader[some])
        reachable = Reachable(stack.to_device(to.slot[some]), stack.to_device(to.heard[some]))
        ctx = stack.context("ask", t, who + group.clients.start)
        ask = group.vmapped(stack.task, "ask")
        chosen[some] = ask(rows_of(group.hyper, who), take_clients(party.state, who), reachable, ctx).cpu()
    return chosen


def chosen_among(group: AlgorithmGroup, meetings: Sequence[Meeting], chosen: Tensor) -> dict[int, Meeting]:
    """Restrict the meetings of a group's worlds to those chosen, `[R, K]` of all their stars."""
    parts = torch.split(chosen, [len(m.star) for m in meetings])
    return {
        member.id: restricted(meeting, part[:, : meeting.asked.shape[1]])
        for member, meeting, part in zip(group.members, meetings, parts, strict=True)
    }


def slices(party: Party, readers: int, inbox: int) -> Iterator[slice]:
    """Part readers so that their states, before and after, and inboxes (bytes each) fit."""
    own = sum(map(nbytes, first_client(party.state)))
    step = chunk_size(inbox + 2 * own, party.stack.device)
    return (slice(i, i + step) for i in range(0, readers, step))


def chunks(party: Party, to: Deliveries, room: int) -> Iterator[Deliveries]:
    """Part deliveries of messages, `room` bytes each, into as many as fit.

    In a large population those who hear as many read together, and those who hear nobody do not read.
    """
    if not party.stack.large:
        yield from map(to.some, slices(party, len(to.reader), room * to.sender.shape[1]))
        return
    left = widest_first(to)
    while width := narrowed(left.some(slice(1))).sender.shape[1]:
        some = next(slices(party, len(left.reader), room * width))
        yield narrowed(left.some(some))
        left = left.some(slice(some.stop, None))


def _first(group: AlgorithmGroup) -> list[int]:
    """Find where each world's clients begin in their group."""
    return [m.clients.start - group.clients.start for m in group.members]
