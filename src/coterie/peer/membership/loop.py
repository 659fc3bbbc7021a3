"""Gossip by the clock: rounds of dialling, and what they bring, to the log and to the node."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from coterie.peer.errors import PeerError, Refused
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import Contact
from coterie.peer.membership.protocol import Membership, MembershipEvent
from coterie.peer.observability.logging import LogThrottle
from coterie.peer.transport.base import Transport

__all__ = ["GossipLoop"]

log = logging.getLogger(__name__)

TICK = 0.1
"""Seconds between two looks at the clock and at what gossip has brought meanwhile."""
GOODBYE = 2.0
"""Seconds for the last words."""
_LOUD = {"refused", "duplicate", "revoked", "expired"}


class GossipLoop:
    """Rounds of gossip of one peer."""

    def __init__(
        self,
        identity: Identity,
        membership: Membership,
        on_event: Callable[[MembershipEvent], None],
        on_refused: Callable[[str, Refused], None],
    ) -> None:
        """`on_event` hears of whatever happens, `on_refused` of members that do not take our news."""
        self._identity, self._membership = identity, membership
        self._on_event, self._on_refused = on_event, on_refused
        self._silent: set[str] = set()
        self._throttle = LogThrottle()

    async def run(self, transport: Transport) -> None:
        """Gossip round after round, until cancelled."""
        calls: set[asyncio.Task[None]] = set()
        while True:
            self._handle_events()
            now = time.monotonic()
            if now < self._membership.due:
                await asyncio.sleep(min(TICK, self._membership.due - now))
                continue
            for contact in self._membership.round(now):
                # A call that hangs must not delay the next round, so it is not waited for.
                call = asyncio.ensure_future(self._dial(transport, contact))
                calls.add(call)
                call.add_done_callback(calls.discard)

    async def leave(self, transport: Transport) -> None:
        """Say goodbye to a few, who tell the others."""
        contacts = self._membership.leave(time.monotonic())
        calls = [asyncio.ensure_future(self._dial(transport, contact)) for contact in contacts]
        if calls:
            _, late = await asyncio.wait(calls, timeout=GOODBYE)
            for call in late:
                call.cancel()
        self._handle_events()

    def renew(self, identity: Identity) -> None:
        """Go on with a new certificate."""
        self._identity = identity
        self._membership.renew(identity)

    async def _dial(self, transport: Transport, contact: Contact) -> None:
        packet = self._membership.packet(contact.id, time.monotonic())
        try:
            answer = await transport.gossip(contact.id, contact.address, packet)
            self._membership.receive(contact.id, answer, time.monotonic())
        except Refused as refusal:
            self._on_refused(contact.id, refusal)
        except PeerError as error:
            if contact.id not in self._silent:  # said once, until it answers again
                self._silent.add(contact.id)
                alone = "; is it running, and is this its address? Meanwhile this peer learns alone"
                known = self._membership.alive()
                level, more = (logging.INFO, "") if known else (logging.WARNING, alone)
                log.log(level, "gossip_failed", extra={"peer": str(contact), "why": f"{error}{more}"})
        else:
            self._silent.discard(contact.id)

    def _handle_events(self) -> None:
        for event in self._membership.drain_events():
            level = logging.WARNING if event.what in _LOUD else logging.INFO
            if (missing := self._throttle.left_out((event.what, event.id))) is not None:
                more = {"left_out": missing} if missing else {}
                log.log(level, event.what, extra={"peer": event.id, "why": event.text, **more})
            if event.what == "deny-list":
                self._keep_deny_list()
            self._on_event(event)

    def _keep_deny_list(self) -> None:
        """Write a new deny list, so that it holds from the next start on, too."""
        try:
            self._identity.keep(self._membership.trust.deny)
        except (PeerError, OSError) as error:
            log.error("fault", extra={"why": f"the deny list cannot be kept: {error}"})
