"""Membership on the move: rounds of gossip by the clock, and what they bring to the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.peer.errors import PeerError, Refused
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import Contact
from coterie.peer.membership.protocol import Event, Membership, Status
from coterie.peer.observability.logging import LogThrottle
from coterie.peer.transport.base import Transport

__all__ = ["GossipLoop"]

log = logging.getLogger(__name__)

TICK = 0.1
"""Seconds between two looks at the clock; news can bring the next round forward."""
GOODBYE = 2.0
"""Seconds for the last words."""
_LOUD = {"refused", "duplicate", "revoked", "expired"}


class GossipLoop:
    """The other members as gossip has them; a `MemberDirectory`."""

    def __init__(self, identity: Identity, membership: Membership) -> None:
        self.identity, self.membership = identity, membership
        self.heed: Callable[[Event], None] = lambda event: None
        """Told of whatever happens."""
        self.refused: Callable[[str, Refused], None] = lambda peer, refusal: None
        """Told of members that do not take our news."""
        self._silent: set[str] = set()
        self._sparing = LogThrottle()

    def alive(self) -> Mapping[str, str]:
        return {m.id: m.address for m in self.membership.alive()}

    def gone(self) -> Sequence[str]:
        there = (m for m in self.membership.members() if m.status in (Status.DEAD, Status.LEFT))
        return [m.id for m in sorted(there, key=lambda m: m.heard)]

    def incarnation(self, peer: str) -> int | None:
        return self.membership.incarnation_of(peer)

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        try:
            return self.membership.answer(sender, packet, time.monotonic())
        finally:
            self._log()

    def news(self, to: str) -> bytes:
        """The packet for a peer."""
        return self.membership.packet(to, time.monotonic())

    def refusals(self) -> Counter[str]:
        return Counter({reason.value: count for reason, count in self.membership.refused.items()})

    def view(self) -> list[dict[str, Any]]:
        return [
            {"id": m.id, "address": m.address, "state": m.status.value} for m in self.membership.members()
        ]

    async def live(self, transport: Transport) -> None:
        """Round after round, until cancelled."""
        calls: set[asyncio.Task[None]] = set()
        while True:
            now = time.monotonic()
            if now < self.membership.due:
                await asyncio.sleep(min(TICK, self.membership.due - now))
                continue
            for contact in self.membership.round(now):
                # A call that hangs must not delay the next round, so it is not waited for.
                call = asyncio.ensure_future(self._dial(transport, contact))
                calls.add(call)
                call.add_done_callback(calls.discard)
            self._log()

    async def leave(self, transport: Transport) -> None:
        """Say goodbye to a few, who tell the others."""
        contacts = self.membership.leave(time.monotonic())
        calls = [asyncio.ensure_future(self._dial(transport, contact)) for contact in contacts]
        if calls:
            _, late = await asyncio.wait(calls, timeout=GOODBYE)
            for call in late:
                call.cancel()

    async def _dial(self, transport: Transport, contact: Contact) -> None:
        try:
            answer = await transport.gossip(contact.id, contact.address, self.news(contact.id))
            self.membership.receive(contact.id, answer, time.monotonic())
        except Refused as refusal:
            self.refused(contact.id, refusal)
        except PeerError as error:
            if contact.id not in self._silent:  # said once, until it answers again
                self._silent.add(contact.id)
                if self.alive():
                    log.info("gossip failed", extra={"peer": str(contact), "why": str(error)})
                else:
                    why = f"{error}; is it running, and is this its address? Meanwhile this peer learns alone"
                    log.warning("gossip failed", extra={"peer": str(contact), "why": why})
        else:
            self._silent.discard(contact.id)
        self._log()

    def _log(self) -> None:
        for event in self.membership.drain_events():
            level = logging.WARNING if event.what in _LOUD else logging.INFO
            if (missing := self._sparing.left_out((event.what, event.id))) is not None:
                more = {"left_out": missing} if missing else {}
                log.log(level, event.what, extra={"peer": event.id, "why": event.text, **more})
            if event.what == "deny-list":
                self._keep()
            self.heed(event)

    def _keep(self) -> None:
        """A new deny list holds from the next start on, too."""
        try:
            self.identity.keep(self.membership.trust.deny)
        except (PeerError, OSError) as error:
            log.error("fault", extra={"why": f"the deny list cannot be kept: {error}"})
