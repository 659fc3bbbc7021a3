"""Contacts: what dealing with the others has told a peer of them (slots, newest models, how calls went).

Pure bookkeeping: no clock, no network, no disk.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.peer.errors import Reason, Refused
from coterie.peer.transport.base import ModelEnvelope, Seen, Version

__all__ = ["ContactBook", "ContactStats", "SlotChoice"]

RECENT = 60.0
"""Seconds for which a peer is shown that sends models and is in no list of members."""
UNUSABLE = 60.0
"""Seconds for which a peer is not asked whose architecture is of no use here; it may have another then."""


@dataclass
class ContactStats:
    """Dealings with one other peer."""

    weight: float | None = None
    """Weight in the last exchange."""
    heard: float | None = None
    """Time of its last model; the process's clock."""
    seconds: float | None = None
    """Seconds that a pull takes, on average; None: not known."""
    asked: float = 0.0
    """Time of the last pull; the process's clock."""
    unusable: float = -math.inf
    """Time at which one side could not use models of the other's architecture; the process's clock."""
    outcomes: Counter[str] = field(default_factory=Counter)

    def took(self, seconds: float) -> None:
        """Average in the seconds that a pull took."""
        self.seconds = seconds if self.seconds is None else 0.7 * self.seconds + 0.3 * seconds

    def view(self, now: float) -> dict[str, Any]:
        """Give plain data for people, with the age of the last model in seconds."""
        heard = None if self.heard is None else round(now - self.heard, 1)
        seconds = None if self.seconds is None else round(self.seconds, 3)
        return {"weight": self.weight, "heard": heard, "seconds": seconds, "outcomes": {**self.outcomes}}


class SlotChoice(NamedTuple):
    """An entry of the own row, for one peer."""

    slot: int
    new: bool
    """True if it is not this peer's yet."""
    former: str | None
    """Former owner."""


class ContactBook:
    """All others that this peer ever dealt with.

    What was taken and whose the entries are changes in the training thread only, any thread may look; the
    rest is the event loop's.
    """

    def __init__(self, own: int, width: int, slots: Mapping[str, int], newest: Mapping[str, Seen]) -> None:
        """`own`: its own entry of a row of `width`; `newest`: what it took in earlier lives."""
        self._own, self._width = own, width
        self._newest = dict(newest)
        self.slots: Mapping[str, int] = dict(slots)
        """Entry of the row of each other peer; replaced as a whole."""
        self.stats: dict[str, ContactStats] = {}
        self.refusals: Counter[str] = Counter()

    def newest(self) -> dict[str, Seen]:
        """Return the newest model that was taken from each other peer."""
        return dict(self._newest)

    def stats_of(self, peer: str) -> ContactStats:
        """Return the dealings with a peer, to be changed."""
        if peer not in self.stats and len(self.stats) >= 4 * self._width:
            self.stats.pop(next(iter(self.stats)))  # only members come this far, but they come and go
        return self.stats.setdefault(peer, ContactStats())

    def is_newer(self, envelope: ModelEnvelope) -> bool:
        """Tell whether a model is newer than all taken before; raise Refused if it is older.

        Taken before: under this certificate of its sender. What came under an earlier one, be it from a thief
        of its key, ends with the first model under the next, and nothing under it is taken again.
        """
        sender = envelope.sender
        since, version, mark = self._newest.get(sender, Seen(0, Version(0, -1), ""))
        if (envelope.since, envelope.version) < (since, version):
            under = " under a later certificate" if envelope.since < since else ""
            raise Refused(
                Reason.STALE,
                f"the model {_shown(envelope.version)} of {sender} is older than {_shown(version)}, "
                f"which was taken before{under}",
            )
        if (envelope.since, envelope.version) == (since, version):
            if envelope.mark and not envelope.digest.startswith(mark):
                raise Refused(Reason.CONFLICT, f"{sender} has two models of version {_shown(version)}")
            return False
        return True

    def record_newest(self, envelope: ModelEnvelope) -> None:
        """Record a model that was taken as the newest of its sender."""
        self._newest[envelope.sender] = Seen(envelope.since, envelope.version, envelope.mark)

    def find_slot(self, peer: str, gone: Sequence[str]) -> SlotChoice:
        """Choose the entry of the row for a peer: its own, a free one, or else that of the longest `gone`."""
        if peer in self.slots:
            return SlotChoice(self.slots[peer], False, None)
        taken = {self._own, *self.slots.values()}
        if (free := next((s for s in range(self._width) if s not in taken), None)) is not None:
            return SlotChoice(free, True, None)
        former = next((other for other in gone if other in self.slots), None)
        if former is None:
            raise Refused(
                Reason.FULL,
                f"all {self._width} entries of the row belong to members that are alive, none is left "
                f"for {peer}; start this peer with a larger `members`",
            )
        return SlotChoice(self.slots[former], True, former)

    def assign_slot(self, peer: str, choice: SlotChoice) -> None:
        """Give the chosen entry to this peer."""
        kept = {other: slot for other, slot in self.slots.items() if other != choice.former}
        self.slots = {**kept, peer: choice.slot}

    def count(self, peer: str, outcome: str) -> int:
        """Count how a call ended; return how often it ended so with this peer."""
        stats = self.stats_of(peer)
        stats.outcomes[outcome] += 1
        return stats.outcomes[outcome]

    def count_late(self, peer: str) -> int:
        """Count an exchange that went on without an answer; return how often that was with this peer."""
        self.refusals[Reason.LATE.value] += 1
        return self.count(peer, "late")

    def count_refusal(self, peer: str, reason: Reason) -> int:
        """Count a refusal, on either side; return how often that was with this peer."""
        self.refusals[reason.value] += 1
        return self.count(peer, f"refused: {reason}")

    def is_resting(self, peer: str, now: float, patience: float) -> bool:
        """Tell whether to leave a peer alone: one whose models are of no use here, or one so slow that no
        exchange waits for it, and asked lately.

        The slow one is asked for half of the time at most, so its line has room for what it wants to do
        itself.
        """
        one = self.stats.get(peer, ContactStats())
        if now - one.unusable < UNUSABLE:
            return True
        seconds = one.seconds or 0.0
        return seconds > patience and now - one.asked < 2 * seconds

    def usual_seconds(self, peers: Collection[str]) -> dict[str, float]:
        """Look up the seconds that a pull from each of these takes, where that is known."""
        known = {peer: self.stats[peer].seconds for peer in peers if peer in self.stats}
        return {peer: seconds for peer, seconds in known.items() if seconds is not None}

    def record_weights(self, senders: Sequence[str], info: Mapping[str, Any]) -> None:
        """Keep the weights that a method reports, for people."""
        weights = info.get("weight")
        if isinstance(weights, list) and len(weights) == len(senders):
            for sender, weight in zip(senders, weights, strict=True):
                self.stats_of(sender).weight = weight

    def view(self, members: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
        """Join the members with what is known of them, as plain data; also those who only send models."""
        known = {member["id"] for member in members}
        recent = [p for p, c in self.stats.items() if c.heard is not None and now - c.heard < RECENT]
        silent = [{"id": p, "address": "", "state": "silent"} for p in recent if p not in known]
        everybody = (*members, *silent)
        return [{**m, **self.stats.get(m["id"], ContactStats()).view(now)} for m in everybody]


def _shown(version: Version) -> str:
    return f"{version.incarnation}:{version.event}"
