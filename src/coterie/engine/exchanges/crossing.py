"""Exchanges of worlds with several architectures: readers in one stack, senders in all of them.

A group's clients lie in one stack for each architecture. Here they have one more number, through all worlds
of the group and all architectures: the one by which deliveries name them. What a reader cannot use is never
asked for: messages like its own arrive as ever, others as `Inbox.foreign` if its algorithm `crosses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from coterie.core.ingredients.messages import alike
from coterie.core.types import Foreign, Info, Message, Probe, State
from coterie.engine.exchanges.deliveries import (
    Act,
    Deliveries,
    Meetings,
    among_sound,
    counted,
    gradients_taken,
    in_order,
    messages_sent,
    reports,
    restricted,
    to_neighbours,
    to_stars,
)
from coterie.engine.exchanges.exchange import Address, Draws, Exchanges, asked, chosen_among, chunks
from coterie.engine.exchanges.feedback import Receivers, send_back
from coterie.engine.exchanges.mail import Party, rows_of
from coterie.engine.exchanges.post import Post
from coterie.engine.layout import write_clients
from coterie.schedule import Meeting

__all__ = ["Crossings", "MixedGroup"]

Way = int | Literal["own"] | None
"""The way in which a message arrives: among the own, or at a place of `Inbox.foreign`; None: not at all."""


class MixedGroup:
    """The clients of one group in all stacks."""

    def __init__(self, parties: Sequence[Party]) -> None:
        self.parties = parties
        self.group = parties[0].group
        """That of the first stack: worlds and algorithm are the same in all."""
        sizes = [m.schedule.clients for m in self.group.members]
        self.first = list(accumulate(sizes, initial=0))[:-1]
        """The number of each world's first client."""
        self.architecture = torch.empty(sum(sizes), dtype=torch.int64)
        """`[n]` int64: the place of each client's party"""
        self.place = torch.empty(sum(sizes), dtype=torch.int64)
        """`[n]` int64: its number in that party's group"""
        self.here = torch.zeros(sum(sizes), dtype=torch.bool)
        """`[n]` bool: who is in this process; of others the architecture is known, not the place"""
        for a, party in enumerate(parties):
            for first, m in zip(self.first, party.group.members, strict=True):
                self.architecture[first + m.numbers] = a
                begin = m.clients.start - party.group.clients.start
                self.place[first + m.numbers] = begin + torch.arange(m.size)
                self.here[first + m.numbers] = True
        every = range(len(parties))
        self.ways: dict[Act, list[list[Way]]] = {
            "mix": [[self._way(a, b, "replies") if self._asks(a, b) else None for b in every] for a in every],
            "adopt": [[self._way(a, b, "offers") for b in every] for a in every],
        }
        """By act, reader's and sender's architecture."""
        if self.group.algorithm.feeds_back:
            heard = zip(*self.ways["mix"], strict=True)
            self.ways["adopt"] = [[None if way is None else "own" for way in by] for by in heard]

    def _way(self, reader: int, sender: int, kind: str) -> Way:
        ours, theirs = self.parties[reader], self.parties[sender]
        if alike(getattr(ours.mail, kind), getattr(theirs.mail, kind)):
            return "own"
        if self.group.algorithm.crosses:
            for place, task in enumerate(ours.stack.task.foreign):
                if task.model is theirs.stack.task.model:
                    return place
        return None

    def _asks(self, star: int, neighbour: int) -> bool:
        """Tell whether a neighbour understands a star's question."""
        return alike(self.parties[star].mail.questions, self.parties[neighbour].mail.questions)

    def usable(self, act: Act) -> Tensor:
        """Tell which architecture can read which, `[A, A]` bool: readers, senders."""
        return torch.tensor([[way is not None for way in row] for row in self.ways[act]])

    def of(self, party: int, to: Deliveries) -> tuple[Tensor, Deliveries]:
        """Pick the deliveries to clients of one party, by their places there; senders keep their numbers."""
        mine = ((self.architecture[to.reader] == party) & self.here[to.reader]).nonzero()[:, 0]
        own = to.some(mine)
        return mine, own._replace(reader=self.place[own.reader])

    def receivers(self, star: int, to: Deliveries, post: Post) -> Iterator[Receivers]:
        """Part those who were heard by stars of one architecture by their own."""
        sender = to.sender.flatten()
        for b, party in enumerate(self.parties):

            def give(pair: Tensor, sent: Message, b: int = b) -> None:
                post.give(self, b, sender[pair], sent)

            among = self.architecture[sender] == b
            yield Receivers(party.stack.task, self.ways["mix"][star][b], among, give)

    def architectures(self, world: int) -> Tensor:
        """Look up the architecture of each client of the group's world of that place, `[M]`."""
        size = self.group.members[world].schedule.clients
        return self.architecture[self.first[world] : self.first[world] + size]


class Change(NamedTuple):
    """What becomes of some readers of a party."""

    party: Party
    reader: Tensor
    new: State


class Crossings:
    """The meetings of worlds with several architectures."""

    def __init__(self, parts: Sequence[Exchanges], post: Post) -> None:
        """`parts`: those of the stacks."""
        lead, self.post = parts[0].stack, post
        self.groups = [MixedGroup(parties) for parties in zip(*(p.parties for p in parts), strict=True)]
        for mixed in self.groups:
            post.introduce(mixed)
        self._draws = Draws(lead.members, lead.experiment.exchange.every)
        self.foresee: Callable[[int], None] = self._draws.foresee

    def meetings(self, t: int, sound: Mapping[int, Tensor]) -> Meetings:
        """Draw who meets at iteration t, of clients `[M]` of each world, by its id, that are sound."""
        drawn, met = self._draws.at(t), {}
        for mixed in self.groups:
            for w, m in enumerate(mixed.group.members):
                meeting = among_sound(drawn[m.meeting_key], sound[m.id])
                met[m.id] = _among_usable(meeting, mixed, mixed.architectures(w))
            if mixed.group.algorithm.chooses:
                met |= self._chosen(mixed, met, t)
        return met

    def mix(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let stars look at the replies and mix, at t ≡ 0 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, to_stars, "mix")

    def adopt(self, met: Meetings, t: int) -> list[dict[str, Any]]:
        """Let neighbours adopt their star's new model, at t ≡ 1 (mod T_ex); rows for `exchanges.jsonl`."""
        return self._deliver(met, t, to_neighbours, "adopt")

    def bytes_sent(self, met: Meetings, act: Act) -> Tensor:
        """Count the bytes that each world sends `[W]`; each weighs what its sender's architecture does."""
        sent = []
        for mixed in self.groups:
            mails = [party.mail for party in mixed.parties]
            questions, replies, offers = (
                torch.tensor([getattr(mail, kind) for mail in mails])
                for kind in ("question", "reply", "weight")
            )
            for w, m in enumerate(mixed.group.members):
                meeting, architecture = met[m.id], mixed.architectures(w)
                between = messages_sent(m.algorithm, meeting, act)
                star, neighbour = architecture[meeting.star, None], architecture[meeting.neighbour]
                told = neighbour if m.algorithm.feeds_back else star
                weights = offers[told] * m.algorithm.listens
                if act == "mix":
                    weights = questions[star] + replies[neighbour]
                sent.append(int((between * weights).sum()))
        return torch.tensor(sent)

    def gradients(self, met: Meetings) -> Tensor:
        """Count the gradients that the exchanges of each world take `[W]`, beside those of local steps."""
        taken = []
        for mixed in self.groups:
            for w, m in enumerate(mixed.group.members):
                count = gradients_taken(m.algorithm, met[m.id])
                taken.append(count + _crossing_gradients(mixed, met[m.id], mixed.architectures(w)))
        return torch.tensor(taken)

    def _chosen(self, mixed: MixedGroup, met: Meetings, t: int) -> dict[int, Meeting]:
        """Restrict the meetings of a group to those whom its stars choose to ask."""
        meetings = [met[m.id] for m in mixed.group.members]
        to = to_stars(mixed.first, [m._replace(heard=m.asked) for m in meetings])
        chosen = torch.zeros_like(to.heard)
        for a, party in enumerate(mixed.parties):
            mine, own = mixed.of(a, to)
            chosen[mine] = asked(party, own, t)
        return chosen_among(mixed.group, meetings, self.post.chosen(chosen))

    def _deliver(self, met: Meetings, t: int, address: Address, act: Act) -> list[dict[str, Any]]:
        rows = []
        for mixed in self.groups:
            for party in mixed.parties if act == "mix" else ():
                party.given.zero_()
            to = address(mixed.first, [met[m.id] for m in mixed.group.members])
            read = [self._read(mixed, a, to, act, t) for a in range(len(mixed.parties))]
            for change in (change for changes, _ in read for change in changes):
                # Only now: everybody read the models from before.
                write_clients(change.party.state, change.reader, change.new)
            found = self.post.rows([row for _, reported in read for row in reported])
            found = in_order(found, mixed.group, to)
            rows += [{**row, "t": t, "kind": act} for row in found]
        return rows

    def _read(
        self, mixed: MixedGroup, a: int, to: Deliveries, act: Act, t: int
    ) -> tuple[list[Change], list[dict[str, Any]]]:
        """Find what becomes of those readers that have architecture a, and the rows that they report."""
        party, own = mixed.parties[a], mixed.of(a, to)[1]
        if not party.room(act):
            return [], []
        ways = zip(mixed.parties, mixed.ways[act][a], strict=True)
        room = sum(other.room(act) for other, way in ways if way is not None)
        changes, infos = [], []
        nobody = own.some(slice(0, 0))
        for part in self.post.turns(chunks(party, party.placed(own, t), room), nobody):
            new, info = self._batch(mixed, a, part, act, t)
            if act == "mix" and party.group.algorithm.feeds_back:
                info = send_back(party, part, info, t, mixed.receivers(a, part, self.post))
            if new is not None:
                changes.append(Change(party, party.stack.to_device(part.reader), new))
                infos.append((part, info))
        return changes, [row for part, info in infos for row in reports(party.group, part, info)]

    def _batch(
        self, mixed: MixedGroup, a: int, to: Deliveries, act: Act, t: int
    ) -> tuple[State | None, Info]:
        """Gather what R readers of architecture a hear from each architecture, and let them read.

        If there are none here, others still get what they ask for.
        """
        party = mixed.parties[a]
        probe = party.probe(to.reader, t) if len(to.reader) else None
        if act == "adopt" and party.group.algorithm.feeds_back:
            messages: Message = {}
            foreign = _nothing_foreign(party, to)
            if probe is not None:
                to, messages = party.returned(to)
        else:
            messages, foreign = self._arrived(mixed, a, to, probe, act, t)
        return (None, {}) if probe is None else party.read(to, messages, probe, act, t, tuple(foreign))

    def _arrived(
        self, mixed: MixedGroup, a: int, to: Deliveries, probe: Probe | None, act: Act, t: int
    ) -> tuple[Message, list[Foreign]]:
        """Gather what R readers of architecture a hear: messages like their own, and foreign ones."""
        party = mixed.parties[a]
        answers = act == "mix" and party.group.algorithm.answers
        questions = party.mail.questions
        if answers and probe is not None:
            questions = party.questions(to.reader, probe, t)
        messages = _blank(party.mail.replies if act == "mix" else party.mail.offers, to)
        foreign = _nothing_foreign(party, to)
        architecture = mixed.architecture[to.sender.flatten()]
        for b, other in enumerate(mixed.parties):
            way, mask = mixed.ways[act][a][b], to.heard.flatten() & (architecture == b)
            if way is None:
                continue
            (pair,) = mask.nonzero(as_tuple=True)
            who, at = to.sender.flatten()[pair], party.stack.to_device(pair)
            if answers:
                each = rows_of(questions, party.stack.to_device(pair // to.sender.shape[1]))
                arrived = self.post.replies(mixed, b, who, each, t)
            else:
                arrived = self.post.offers(mixed, b, who, t)
            if not len(pair):
                continue
            if way == "own":
                messages = {k: m.index_copy(0, at, arrived[k]) for k, m in messages.items()}
            else:
                blank = _blank(other.mail.replies if act == "mix" else other.mail.offers, to)
                theirs = {k: m.index_copy(0, at, arrived[k]) for k, m in blank.items()}
                foreign[way] = Foreign(theirs, party.stack.to_device(mask))
        return messages, foreign


def _nothing_foreign(party: Party, to: Deliveries) -> list[Foreign]:
    """Leave the place of each other architecture empty."""
    nothing = torch.zeros(to.sender.numel(), dtype=torch.bool, device=party.stack.device)
    return [Foreign({}, nothing)] * (len(party.stack.task.foreign) if party.group.algorithm.crosses else 0)


def _blank(like: Message, to: Deliveries) -> Message:
    """Make room for the messages of all senders, `[R * K, ...]`."""
    return {k: m.new_zeros(to.sender.numel(), *m.shape[1:]) for k, m in like.items()}


def _among_usable(meeting: Meeting, mixed: MixedGroup, architecture: Tensor) -> Meeting:
    """Leave out messages that their reader could not use; `architecture` `[M]`: of the world's clients."""
    star, neighbour = architecture[meeting.star, None], architecture[meeting.neighbour]
    meeting = restricted(meeting, mixed.usable("mix")[star, neighbour])
    return meeting._replace(told=meeting.told & mixed.usable("adopt")[neighbour, star])


def _crossing_gradients(mixed: MixedGroup, meeting: Meeting, architecture: Tensor) -> int:
    """Add up what stars and neighbours take beside, because of foreign messages."""
    algorithm = mixed.group.algorithm
    if not algorithm.crosses:
        return 0
    foreign = {
        act: torch.tensor([[isinstance(w, int) for w in row] for row in rows])
        for act, rows in mixed.ways.items()
    }
    star, neighbour = architecture[meeting.star, None], architecture[meeting.neighbour]
    heard = meeting.heard & foreign["mix"][star, neighbour]
    told = meeting.told & algorithm.listens & foreign["adopt"][neighbour, star]
    return sum(algorithm.crossing_gradients(*star) * often for star, often in counted(heard, told))
