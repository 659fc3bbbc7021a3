"""Post between processes: a reader's process names the senders it needs, and theirs send what these offer.

Every process draws the whole schedule by itself, so nobody is asked who meets whom; a request is only the
numbers of the clients whose messages are needed, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.types import Message
from coterie.engine.distributed.wire import Wire
from coterie.engine.exchanges.crossing import MixedGroup
from coterie.engine.exchanges.deliveries import Deliveries
from coterie.engine.exchanges.mail import Party, rows_of
from coterie.engine.exchanges.post import Post

__all__ = ["AcrossRanks"]

Serve = Callable[[Tensor, Message], Message]
"""Messages of some clients `[S]` of this process, given what came with the request for each."""


class Letters(NamedTuple):
    """Parcels for some clients, sorted by their processes, and those that come from others."""

    order: Tensor
    """`[S]` int64: the place that each had before"""
    to: list[int]
    """Number of those that go to each process"""
    back: list[int]
    """Number of those that come from each"""
    rows: Message
    """`[S, ...]`: what goes"""
    wanted: Tensor
    """Clients of this process, for whom there is something from others, by their numbers in their group"""


class AcrossRanks(Post):
    """Clients are in several processes."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._owners: dict[int, Tensor] = {}
        self._bad, self._sound = 0, dict[int, Tensor]()
        """Number of clients that have diverged anywhere, and who has not, when that was asked last."""

    def introduce(self, mixed: MixedGroup) -> None:
        own = mixed.here.nonzero()[:, 0]
        numbers = self.wire.every_tensor(own)
        architectures = self.wire.every_tensor(mixed.architecture[own])
        owner = torch.full_like(mixed.place, -1)
        for rank, (who, theirs) in enumerate(zip(numbers, architectures, strict=True)):
            owner[who], mixed.architecture[who] = rank, theirs
        self._owners[id(mixed)] = owner

    def sound(self, found: dict[int, Tensor]) -> dict[int, Tensor]:
        bad = self.wire.total(sum(int((~part).sum()) for part in found.values()))
        if bad != self._bad:
            self._bad = bad
            self._sound = {world: ~self.wire.anywhere(~part) for world, part in found.items()}
        return self._sound if bad else found

    def chosen(self, chosen: Tensor) -> Tensor:
        return self.wire.anywhere(chosen)

    def turns(self, parts: Iterable[Deliveries], nobody: Deliveries) -> Iterator[Deliveries]:
        own = list(parts)
        return chain(own, [nobody] * (self.wire.most(len(own)) - len(own)))

    def offers(self, mixed: MixedGroup, place: int, who: Tensor, t: int) -> Message:
        party = mixed.parties[place]
        each, where = torch.unique(who, return_inverse=True)

        def serve(wanted: Tensor, _: Message) -> Message:
            return party.offers(wanted, t)

        found = self._asked(mixed, place, each, {}, serve, _as_it_arrives(party, party.mail.offers))
        return rows_of(found, party.stack.to_device(where))

    def replies(self, mixed: MixedGroup, place: int, who: Tensor, questions: Message, t: int) -> Message:
        party = mixed.parties[place]

        def serve(wanted: Tensor, theirs: Message) -> Message:
            return party.replies(wanted, theirs, t)

        like = _as_it_arrives(party, party.mail.replies)
        return self._asked(mixed, place, who, questions, serve, like)

    def give(self, mixed: MixedGroup, place: int, who: Tensor, sent: Message) -> None:
        party = mixed.parties[place]
        like = _as_it_arrives(party, party.mail.offers)
        letters = self._addressed(mixed, who, sent or like)
        brought = self.wire.swapped(letters.rows, letters.to, letters.back, like)
        party.lay_down(mixed.place[letters.wanted], brought)

    def rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(chain(*self.wire.gathered(rows)))

    def _asked(
        self, mixed: MixedGroup, place: int, who: Tensor, with_it: Message, serve: Serve, like: Message
    ) -> Message:
        """Ask the processes of some clients `[S]` for a message of each, in the same order."""
        party = mixed.parties[place]
        letters = self._addressed(mixed, who, with_it)
        to, back, wanted = letters.to, letters.back, letters.wanted
        nothing = {k: m[:0] for k, m in with_it.items()}
        brought = self.wire.swapped(letters.rows, to, back, nothing) if with_it else {}
        served = serve(mixed.place[wanted], brought) if len(wanted) else like
        found = self.wire.swapped(served, back, to, like)
        return rows_of(found, party.stack.to_device(letters.order.argsort()))

    def _addressed(self, mixed: MixedGroup, who: Tensor, rows: Message) -> Letters:
        """Sort what goes to some clients `[S]` by their processes, and tell these who it is for."""
        owner = self._owners[id(mixed)][who]
        order = owner.argsort(stable=True)
        to = owner.bincount(minlength=self.wire.count)
        back = self.wire.counts(to)
        numbers = who[order]
        wanted = self.wire.swapped({"": numbers}, to.tolist(), back, {"": numbers[:0]})[""]
        ordered = {k: m[order.to(m.device)] for k, m in rows.items()} if len(who) else rows
        return Letters(order, to.tolist(), back, ordered, wanted)


def _as_it_arrives(party: Party, like: Message) -> Message:
    """Give the names and shapes of messages `[0, ...]` the types in which they arrive."""
    if party.group.precision == "full":
        return like
    return {k: m.to(party.stack.dtype) for k, m in like.items()}
