"""What a peer knows of the others from dealing with them: their entries of its row, their newest models,
how calls went. Pure bookkeeping: no clock, no network, no disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.peer.errors import Reason, Refused
from coterie.peer.transport import Letter, Seen, Version

__all__ = ["Company", "Contact", "Place"]

RECENT = 60.0
"""Seconds for which a peer is shown that sends models and is in no list of members."""


@dataclass
class Contact:
    """Dealings with one other peer."""

    weight: float | None = None
    """How much it was listened to the last time."""
    heard: float | None = None
    """When a model of it last came; the process's clock."""
    seconds: float = 0.0
    """How long a pull takes, on average."""
    outcomes: Counter[str] = field(default_factory=Counter)


class Place(NamedTuple):
    """An entry of the own row."""

    slot: int
    new: bool
    """It was given away just now."""
    former: str | None
    """Whose it was before."""


class Company:
    """All others that this peer ever dealt with."""

    def __init__(self, own: int, width: int, slots: Mapping[str, int], newest: Mapping[str, Seen]) -> None:
        """`own`: its own entry of a row of `width`; `newest`: what it took in earlier lives."""
        self._own, self._width = own, width
        self._newest = dict(newest)
        self.slots = dict(slots)
        self.contacts: dict[str, Contact] = {}
        self.refusals: Counter[str] = Counter()

    def newest(self) -> dict[str, Seen]:
        """The newest model that was taken from each other peer; may be asked for by any thread."""
        return dict(self._newest)

    def contact(self, peer: str) -> Contact:
        """Its entry in the books."""
        if peer not in self.contacts and len(self.contacts) >= 4 * self._width:
            self.contacts.pop(next(iter(self.contacts)))  # only members come this far, but they come and go
        return self.contacts.setdefault(peer, Contact())

    def fresh(self, letter: Letter) -> bool:
        """Whether it is newer than all before; the newest once more is not, an older one is refused.

        All before: under this certificate of its sender. What came under an earlier one, be it from a thief
        of its key, ends with the first model under the next, and nothing under it is taken again.
        """
        since, version, mark = self._newest.get(letter.sender, Seen(0, Version(0, -1), ""))
        if (letter.since, letter.version) < (since, version):
            under = " under a later certificate" if letter.since < since else ""
            raise Refused(
                Reason.STALE,
                f"the model {_shown(letter.version)} of {letter.sender} is older than {_shown(version)}, "
                f"which was taken before{under}",
            )
        if (letter.since, letter.version) == (since, version):
            if not letter.digest.startswith(mark):
                raise Refused(Reason.CONFLICT, f"{letter.sender} has two models of version {_shown(version)}")
            return False
        self._newest[letter.sender] = Seen(letter.since, letter.version, letter.mark)
        return True

    def place(self, peer: str, gone: Sequence[str]) -> Place:
        """The entry of the row that belongs to a peer; if all are taken, that of the longest `gone`."""
        if peer in self.slots:
            return Place(self.slots[peer], False, None)
        taken = {self._own, *self.slots.values()}
        slot, former = next((s for s in range(self._width) if s not in taken), None), None
        if slot is None:
            former = next((other for other in gone if other in self.slots), None)
            if former is None:
                raise Refused(
                    Reason.FULL,
                    f"all {self._width} entries of the row belong to members that are alive, none is left "
                    f"for {peer}; start this peer with a larger `members`",
                )
            slot = self.slots.pop(former)
        self.slots[peer] = slot
        return Place(slot, True, former)

    def count(self, peer: str, outcome: str) -> int:
        """How a call ended; how often it ended so with this peer."""
        contact = self.contact(peer)
        contact.outcomes[outcome] += 1
        return contact.outcomes[outcome]

    def refuse(self, peer: str, reason: Reason) -> int:
        """A refusal, on either side; how often it happened with this peer."""
        self.refusals[reason.value] += 1
        return self.count(peer, f"refused: {reason}")

    def weigh(self, senders: Sequence[str], info: Mapping[str, Any]) -> None:
        """Keep the weights that a method reports, for people."""
        weights = info.get("weight")
        if isinstance(weights, list) and len(weights) == len(senders):
            for sender, weight in zip(senders, weights, strict=True):
                self.contact(sender).weight = weight

    def view(self, members: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
        """The members with what is known of them, as plain data; also those who only send models."""
        known = {member["id"] for member in members}
        recent = [p for p, c in self.contacts.items() if c.heard is not None and now - c.heard < RECENT]
        silent = [{"id": p, "address": "", "state": "silent"} for p in recent if p not in known]
        rows = []
        for member in (*members, *silent):
            one = self.contacts.get(member["id"], Contact())
            heard = None if one.heard is None else round(now - one.heard, 1)
            rows.append({**member, "weight": one.weight, "heard": heard, "outcomes": dict(one.outcomes)})
        return rows


def _shown(version: Version) -> str:
    return f"{version.incarnation}:{version.event}"
