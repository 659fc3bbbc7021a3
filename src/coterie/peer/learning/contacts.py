"""What a peer knows of the others from dealing with them: their entries of its row, their newest models,
how calls went. Pure bookkeeping: no clock, no network, no disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.peer.errors import Reason, Refused
from coterie.peer.transport.base import ModelEnvelope, Seen, Version

__all__ = ["ContactBook", "ContactStats", "SlotChoice"]

RECENT = 60.0
"""Seconds for which a peer is shown that sends models and is in no list of members."""


@dataclass
class ContactStats:
    """Dealings with one other peer."""

    weight: float | None = None
    """How much it was listened to the last time."""
    heard: float | None = None
    """When a model of it last came; the process's clock."""
    seconds: float | None = None
    """Seconds that a pull takes, on average; None: not known."""
    asked: float = 0.0
    """When it was last asked for its model; the process's clock."""
    outcomes: Counter[str] = field(default_factory=Counter)

    def took(self, seconds: float) -> None:
        """A pull took so long."""
        self.seconds = seconds if self.seconds is None else 0.7 * self.seconds + 0.3 * seconds


class SlotChoice(NamedTuple):
    """An entry of the own row."""

    slot: int
    new: bool
    """It is not this peer's yet."""
    former: str | None
    """Whose it was before."""


class ContactBook:
    """All others that this peer ever dealt with.

    What was taken and whose the entries are changes in the learning thread only, any thread may look; the
    rest is the event loop's.
    """

    def __init__(self, own: int, width: int, slots: Mapping[str, int], newest: Mapping[str, Seen]) -> None:
        """`own`: its own entry of a row of `width`; `newest`: what it took in earlier lives."""
        self._own, self._width = own, width
        self._newest = dict(newest)
        self.slots: Mapping[str, int] = dict(slots)
        """Which entry of the row belongs to whom; replaced as a whole."""
        self.stats: dict[str, ContactStats] = {}
        self.refusals: Counter[str] = Counter()

    def newest(self) -> dict[str, Seen]:
        """The newest model that was taken from each other peer."""
        return dict(self._newest)

    def stats_of(self, peer: str) -> ContactStats:
        """Its entry in the books."""
        if peer not in self.stats and len(self.stats) >= 4 * self._width:
            self.stats.pop(next(iter(self.stats)))  # only members come this far, but they come and go
        return self.stats.setdefault(peer, ContactStats())

    def is_newer(self, letter: ModelEnvelope) -> bool:
        """Tell whether a model is newer than all taken before; raise Refused if it is older.

        Taken before: under this certificate of its sender. What came under an earlier one, be it from a thief
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
        return True

    def record_newest(self, letter: ModelEnvelope) -> None:
        """It was taken: the newest of its sender from now on."""
        self._newest[letter.sender] = Seen(letter.since, letter.version, letter.mark)

    def find_slot(self, peer: str, gone: Sequence[str]) -> SlotChoice:
        """The entry of the row for a peer: its own, a free one, or else that of the longest `gone`."""
        if peer in self.slots:
            return SlotChoice(self.slots[peer], False, None)
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
            slot = self.slots[former]
        return SlotChoice(slot, True, former)

    def assign_slot(self, peer: str, place: SlotChoice) -> None:
        """The entry belongs to this peer from now on."""
        kept = {other: slot for other, slot in self.slots.items() if other != place.former}
        self.slots = {**kept, peer: place.slot}

    def count(self, peer: str, outcome: str) -> int:
        """How a call ended; how often it ended so with this peer."""
        contact = self.stats_of(peer)
        contact.outcomes[outcome] += 1
        return contact.outcomes[outcome]

    def count_late(self, peer: str) -> int:
        """An exchange went on without its answer; how often that happened with this peer."""
        self.refusals[Reason.LATE.value] += 1
        return self.count(peer, "late")

    def is_resting(self, peer: str, now: float, patience: float) -> bool:
        """Whether it is left alone for now: a peer so slow that no exchange waits for it, asked lately.

        So it is asked for half of the time at most, and its line has room for what it wants to do itself.
        """
        one = self.stats.get(peer, ContactStats())
        seconds = one.seconds or 0.0
        return seconds > patience and now - one.asked < 2 * seconds

    def usual_seconds(self, peers: Collection[str]) -> dict[str, float]:
        """Look up the seconds that a pull from each of these takes, where that is known."""
        known = {peer: self.stats[peer].seconds for peer in peers if peer in self.stats}
        return {peer: seconds for peer, seconds in known.items() if seconds is not None}

    def count_refusal(self, peer: str, reason: Reason) -> int:
        """A refusal, on either side; how often it happened with this peer."""
        self.refusals[reason.value] += 1
        return self.count(peer, f"refused: {reason}")

    def record_weights(self, senders: Sequence[str], info: Mapping[str, Any]) -> None:
        """Keep the weights that a method reports, for people."""
        weights = info.get("weight")
        if isinstance(weights, list) and len(weights) == len(senders):
            for sender, weight in zip(senders, weights, strict=True):
                self.stats_of(sender).weight = weight

    def view(self, members: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
        """The members with what is known of them, as plain data; also those who only send models."""
        known = {member["id"] for member in members}
        recent = [p for p, c in self.stats.items() if c.heard is not None and now - c.heard < RECENT]
        silent = [{"id": p, "address": "", "state": "silent"} for p in recent if p not in known]
        rows = []
        for member in (*members, *silent):
            one = self.stats.get(member["id"], ContactStats())
            heard = None if one.heard is None else round(now - one.heard, 1)
            seconds = None if one.seconds is None else round(one.seconds, 3)
            rows.append(
                {
                    **member,
                    "weight": one.weight,
                    "heard": heard,
                    "seconds": seconds,
                    "outcomes": {**one.outcomes},
                }
            )
        return rows


def _shown(version: Version) -> str:
    return f"{version.incarnation}:{version.event}"
