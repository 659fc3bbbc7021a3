"""Membership by gossip, as a pure state machine: who is a member, where, and whether it lives.

Every period a peer signs a new version of its own record (its heartbeat) and exchanges all it knows with one
random member: push and pull, so news reaches n members in about log n periods. A member whose version has
not grown for a while is suspected, later taken for dead. That is each peer's own judgement and is never told:
only the owner signs anything about itself, so nobody can accuse anybody. It needs no refutation either: the
next version of the record, by whatever way it comes, makes the member alive again. `left` is signed by the
owner, and so is told.

- The dead are not told of any more, but dialled now and then, with jittered back-off: partitions heal. So
  are seeds that are not known to live.
- Whoever is dialled or answered gets what is known of itself, dead or not: a peer that lost its memory
  learns from it which incarnation to outdo.
- A peer that is outdone itself, again and again, has a double: two processes run under one id.
- Only what is verified enters, the table is bounded, and the revoked leave at once.

No input or output, no clock and no generator: `now` (monotonic seconds) is an argument, randomness is a
Stream, and the wall clock is asked for nothing but the validity of certificates.

Das, Gupta, Motivala: SWIM: scalable weakly-consistent infection-style process group membership. DSN 2002.
van Renesse, Minsky, Hayden: A gossip-style failure detection service. Middleware 1998.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coterie.core.streams import Stream
from coterie.peer.errors import PeerError, Reason, Refused
from coterie.peer.identity.certificates import PeerCertificate
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import Contact, address_error
from coterie.peer.identity.trust import DenyList, Trust
from coterie.peer.membership.records import MOST_RECORDS, Packet, Record

__all__ = ["Member", "Membership", "MembershipEvent", "Status", "Timing"]

RETRIES = 2
"""Dead members and unknown seeds that are dialled in one round."""
GOODBYES = 3
ROUNDS_OF_SILENCE = 60
"""Rounds in which the same refusal of the same peer is logged once; it is counted always."""
OUTBIDS = 3
"""Incarnations of itself that a peer outdoes, then one in ROUNDS_OF_SILENCE: if it lost its state there may
be a few older ones; a double does not end."""


@dataclass(frozen=True)
class Timing:
    """Times of gossip in seconds; the limits of silence grow with log10 of the number of members."""

    period: float = 1.0
    suspect_after: float = 5.0
    dead_after: float = 15.0
    forget_after: float = 3600.0
    retry_first: float = 0.5
    retry_last: float = 4.0


class Status(StrEnum):
    """A peer's judgement of another one."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"
    LEFT = "left"


class Member(NamedTuple):
    """One row of the table."""

    id: str
    address: str
    status: Status
    incarnation: int
    version: int
    heard: float
    """Monotonic seconds at which its version last grew here."""


class MembershipEvent(NamedTuple):
    """News of membership, to be logged."""

    what: str
    """A status, or joined, revoked, expired, forgotten, refused, deny-list, outbid or duplicate."""
    id: str
    text: str
    incarnation: int | None = None
    """Own incarnation, if it was outbid."""


@dataclass
class _Entry:
    record: Record
    leaf: PeerCertificate
    heard: float
    status: Status
    deny_version: int = 0


class _Retry(NamedTuple):
    at: float
    delay: float


class Membership:
    """Table of what one peer knows of the others.

    A loop waits until `due`, calls `round` and dials each contact with `packet`, then hands the reply to
    `receive`; what others send goes to `answer`. A contact that does not answer needs no word: it is silent.
    """

    def __init__(
        self,
        identity: Identity,
        address: str,
        now: float,
        *,
        incarnation: int,
        nonce: bytes,
        seeds: Iterable[Contact] = (),
        seed: int = 0,
        timing: Timing | None = None,
        capacity: int = MOST_RECORDS - 2,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if wrong := address_error(address):
            raise PeerError(f"the own address: {wrong}")
        if not 1 <= capacity <= MOST_RECORDS - 2:
            raise PeerError(f"a table holds 1 to {MOST_RECORDS - 2} members, got {capacity}")
        self.trust = Trust(identity.anchor, identity.deny)
        self.refused: Counter[Reason] = Counter()
        self._identity = identity
        self._own = Record(identity.id, address, incarnation, nonce, 0, False, identity.certificate_der).sign(
            identity.sign, identity.federation
        )
        self._seeds = tuple(s for s in dict.fromkeys(seeds) if s.id != identity.id)
        self._timing = timing or Timing()
        self._capacity, self._wall = capacity, wall
        self._stream = Stream(seed, f"gossip of {identity.id}")
        self._table: dict[str, _Entry] = {}
        self._retries: dict[Contact, _Retry] = {}
        self._events: deque[MembershipEvent] = deque(maxlen=1000)
        self._said: set[tuple[str, Reason]] = set()
        self._rounds = self._outbids = 0
        self._last = now
        self.due = now + self._timing.period * self._draw(1)[0]
        """Monotonic seconds of the next round."""

    # What is known.

    @property
    def id(self) -> str:
        """Own id."""
        return self._own.id

    @property
    def incarnation(self) -> int:
        """Own incarnation; it grows when it has to outdo an earlier process of the same id."""
        return self._own.incarnation

    def members(self) -> list[Member]:
        """List all others, by id, as the last round and the gossip since then left them."""
        return [
            Member(peer, e.record.address, e.status, e.record.incarnation, e.record.version, e.heard)
            for peer, e in sorted(self._table.items())
        ]

    def incarnation_of(self, peer: str) -> int | None:
        """Return the incarnation in a peer's signed record; None: it has said nothing of itself."""
        record = self._record(peer)
        return None if record is None else record.incarnation

    def alive(self) -> list[Member]:
        """List the members to learn from."""
        return [m for m in self.members() if m.status is Status.ALIVE]

    def denied(self, peer: str, serial: int) -> bool:
        """Tell whether the CA took back this certificate; servers ask at every call."""
        return serial in self.trust.deny.serials

    def drain_events(self) -> list[MembershipEvent]:
        """Return what happened since this was last asked."""
        events = list(self._events)
        self._events.clear()
        return events

    # What to do.

    def round(self, now: float) -> list[Contact]:
        """Make a new heartbeat and a new judgement of everybody; return whom to dial now."""
        pause = now - self._last
        if pause > 2 * self._timing.period:  # the silence was ours: this process stood still
            for entry in self._table.values():
                entry.heard = min(now, entry.heard + pause - self._timing.period)
        self._last = now
        self._rounds += 1
        if self._rounds % ROUNDS_OF_SILENCE == 0:
            self._said.clear()
            self._outbids = max(0, self._outbids - 1)  # a double that has ended since can be outdone
        self._judge(now)
        if not self._own.left:
            self._sign_own_record()
        draws = self._draw(2 + RETRIES)
        self.due = now + self._timing.period * (0.75 + 0.5 * draws[0])
        live = [Contact(m.id, m.address) for m in self.members() if _is_reachable(m.status)]
        chosen = [live[int(draws[1] * len(live))]] if live else []
        return chosen + self._retry(now, draws[2:])

    def packet(self, to: str, now: float) -> bytes:
        """Encode what to send to a peer."""
        told = self._timing.dead_after * self._scale()
        records = [
            e.record
            for k, e in sorted(self._table.items())
            if k == to or _is_reachable(e.status) or (e.status is Status.LEFT and now - e.heard < told)
        ]
        deny = self.trust.deny
        needed = deny.version > (self._table[to].deny_version if to in self._table else 0)
        return Packet(deny.version, deny if needed else None, (self._own, *records)).encode()

    def receive(self, sender: str, data: bytes, now: float) -> None:
        """Take what a peer sent, as far as it is news; raise Refused.

        Honest peers verify before they tell, so a packet with a forged signature or a certificate of another
        CA is refused as a whole, at the first of them: a flood of them costs little. What may differ between
        honest peers (the clock, the deny list, the room in the table) costs one record.
        """
        try:
            packet = Packet.decode(data)
            if packet.deny is not None and self.trust.renew(packet.deny):
                self._purge(now)
            news = list(self._verified(sender, packet.records))
        except Refused as refused:
            self._refuse(sender, refused)
            raise
        for record, leaf in news:
            if record.id == self._own.id:
                self._handle_duplicate_id(record, leaf, now)
            else:
                self._merge(record, leaf, sender, now)
        if sender in self._table:
            self._table[sender].deny_version = packet.deny_version

    def answer(self, sender: str, data: bytes, now: float) -> bytes:
        """Take what a peer sent and give what is known; raise Refused."""
        self.receive(sender, data, now)
        return self.packet(sender, now)

    def leave(self, now: float) -> list[Contact]:
        """Say goodbye; return whom to dial with a last `packet`."""
        self._sign_own_record(left=True)
        live = self.alive()
        order = sorted(zip(self._draw(len(live)), live, strict=True)) if live else []
        return [Contact(m.id, m.address) for _, m in order[:GOODBYES]]

    def renew(self, identity: Identity) -> None:
        """Go on with a new certificate."""
        self._identity = identity
        self._own = self._own._replace(certificate=identity.certificate_der)
        self._sign_own_record(left=self._own.left)

    def deny(self, deny: DenyList, now: float) -> None:
        """Take this deny list, if it is newer."""
        if self.trust.renew(deny):
            self._purge(now)

    # The parts of it.

    def _sign_own_record(self, left: bool = False, incarnation: int | None = None) -> None:
        own = self._own._replace(
            version=self._own.version + 1, left=left, incarnation=incarnation or self._own.incarnation
        )
        self._own = own.sign(self._identity.sign, self._identity.federation)

    def _verified(self, sender: str, records: Iterable[Record]) -> Iterable[tuple[Record, PeerCertificate]]:
        newest: dict[str, Record] = {}
        for record in records:  # honest peers tell of each once; no more than that is verified
            if record.id not in newest or self._rank(record) > self._rank(newest[record.id]):
                newest[record.id] = record
        for record in newest.values():
            known = self._own if record.id == self._own.id else self._record(record.id)
            if known is not None and self._rank(record) <= self._rank(known):
                continue
            record.owner(self.trust)
            try:
                yield record, record.verify(self.trust, self._wall())
            except Refused as refused:
                if refused.reason in (Reason.SIGNATURE, Reason.IDENTITY):
                    raise
                self._refuse(sender, refused)

    def _merge(self, record: Record, leaf: PeerCertificate, sender: str, now: float) -> None:
        known = self._table.get(record.id)
        if known is not None and self._rank(record) <= self._rank(known.record):
            return
        status = Status.LEFT if record.left else Status.ALIVE
        if known is None:
            if not self._room():
                text = f"{record.id} is left out: the table is full with {self._capacity} members"
                self._refuse(sender, Refused(Reason.FULL, text))
                return
            if not record.left:
                self._emit("joined", record.id, f"{record.id} joined at {record.address}")
        elif status is not known.status:
            self._emit(status, record.id, f"{record.id} is {status} at {record.address}, was {known.status}")
        self._table[record.id] = _Entry(record, leaf, now, status, known.deny_version if known else 0)

    def _handle_duplicate_id(self, record: Record, leaf: PeerCertificate, now: float) -> None:
        """Handle a record of the own id that outranks us: somebody else speaks or spoke under it."""
        if self._rank(record) <= self._rank(self._own):
            return
        own = self._identity.leaf
        rivals = self._outbids >= OUTBIDS and not record.left
        if rivals or record.incarnation >= own.latest or leaf.since > own.since:
            text = (
                f"another process runs as {record.id} at {record.address}, and this one at "
                f"{self._own.address}; stop one of them"
            )
            self._refuse(record.id, Refused(Reason.DUPLICATE_ID, text), "duplicate")
            return
        self._outbids += 1
        self._sign_own_record(left=self._own.left, incarnation=record.incarnation + 1)
        self.due = min(self.due, now)
        new = self._own.incarnation
        self._events.append(
            MembershipEvent("outbid", record.id, f"{record.id} goes on with incarnation {new}", new)
        )

    def _judge(self, now: float) -> None:
        timing, scale = self._timing, self._scale()
        for peer, entry in list(self._table.items()):
            silent = now - entry.heard
            if silent > timing.forget_after:
                self._drop(peer, "forgotten", f"{peer} is forgotten after {silent:.0f} s of silence")
                continue
            if wrong := entry.leaf.validity_error(self._wall()):
                self._drop(peer, "expired", f"{peer} is left out, its certificate does not hold: {wrong}")
                continue
            if entry.status is Status.LEFT:
                continue
            status = Status.ALIVE
            if silent > timing.suspect_after * scale:
                status = Status.DEAD if silent > timing.dead_after * scale else Status.SUSPECT
            if status is not entry.status:
                self._emit(status, peer, f"{peer} is {status} after {silent:.1f} s of silence")
                entry.status = status

    def _purge(self, now: float) -> None:
        """Drop the revoked; the others are to hear of the new deny list at once."""
        deny = self.trust.deny
        self.due = min(self.due, now)
        self._emit(
            "deny-list", self._own.id, f"deny list of version {deny.version}: {len(deny.serials)} entries"
        )
        for peer, entry in list(self._table.items()):
            if entry.leaf.serial in deny.serials:
                self._drop(peer, "revoked", f"{peer} is no member any more: the CA revoked its certificate")

    def _retry(self, now: float, draws: list[float]) -> list[Contact]:
        """Choose dead members and seeds that are not known to live, those first that have waited longest."""
        dead = [Contact(m.id, m.address) for m in self.members() if m.status is Status.DEAD]
        gone = [s for s in self._seeds if (e := self._table.get(s.id)) is None or not _is_reachable(e.status)]
        first = _Retry(now, self._timing.retry_first)
        self._retries = {c: self._retries.get(c, first) for c in dict.fromkeys((*dead, *gone))}
        ready = sorted((r.at, c) for c, r in self._retries.items() if r.at <= now)[:RETRIES]
        for (_, contact), draw in zip(ready, draws, strict=False):
            delay = self._retries[contact].delay
            self._retries[contact] = _Retry(
                now + delay * (0.75 + 0.5 * draw), min(2 * delay, self._timing.retry_last)
            )
        return [contact for _, contact in ready]

    def _room(self) -> bool:
        """Tell whether there is room for one more, if need be that of the one who is gone longest."""
        if len(self._table) < self._capacity:
            return True
        gone = [(e.heard, k) for k, e in self._table.items() if not _is_reachable(e.status)]
        if gone:
            peer = min(gone)[1]
            self._drop(peer, "forgotten", f"{peer} is forgotten: the table is full and it is gone")
        return bool(gone)

    def _rank(self, record: Record) -> tuple[object, ...]:
        return record.rank(self.trust)

    def _record(self, peer: str) -> Record | None:
        return self._table[peer].record if peer in self._table else None

    def _drop(self, peer: str, what: str, text: str) -> None:
        del self._table[peer]
        self._emit(what, peer, text)

    def _refuse(self, peer: str, refused: Refused, what: str = "refused") -> None:
        """Count a refusal; say it once in a while, since gossip repeats itself."""
        refused.told = True
        self.refused[refused.reason] += 1
        if (peer, refused.reason) not in self._said:
            self._said.add((peer, refused.reason))
            self._emit(what, peer, str(refused))

    def _emit(self, what: str, peer: str, text: str) -> None:
        self._events.append(MembershipEvent(what, peer, text))

    def _scale(self) -> float:
        return max(1.0, math.log10(len(self._table) + 1))

    def _draw(self, count: int) -> list[float]:
        return list(self._stream.uniform(count, t=self._rounds, client=self._own.incarnation).tolist())


def _is_reachable(status: Status) -> bool:
    """Tell whether a member lives, as far as is known."""
    return status in (Status.ALIVE, Status.SUSPECT)
