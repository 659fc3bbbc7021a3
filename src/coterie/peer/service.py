"""A peer on the network: everything put together, from the first word to the last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import time
from functools import partial

from coterie.peer import files
from coterie.peer.errors import IdentityError, PeerError
from coterie.peer.gossip import Gossip
from coterie.peer.grpc_client import GrpcTransport
from coterie.peer.grpc_server import GrpcServer
from coterie.peer.identity import Identity
from coterie.peer.ids import STRANGER, Contact
from coterie.peer.learner import Client
from coterie.peer.log import log_loop_errors
from coterie.peer.membership import Event, Membership
from coterie.peer.metrics import Calls, Page
from coterie.peer.node import Node
from coterie.peer.overheard import Overheard
from coterie.peer.records import NONCE, DenyList
from coterie.peer.roster import Fixed
from coterie.peer.settings import Settings
from coterie.peer.store import Store
from coterie.peer.watch import ADDRESS

__all__ = ["serve"]

log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds for calls under way when the peer leaves."""
ROTATE = 10.0
"""Seconds between two looks at the identity folder."""


async def serve(
    settings: Settings, identity: Identity, client: Client, store: Store, stderr: Overheard
) -> None:
    """Learn and exchange until SIGTERM or Ctrl-C."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    log_loop_errors(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    fixed = Fixed(settings.peers, identity.id)
    latest = identity.leaf.latest
    node = Node(identity.id, settings, client, store, fixed, wall=time.time(), latest=latest)
    gossip = None if settings.peers else _gossip(settings, identity, node.incarnation)
    if gossip is not None:
        node.roster = gossip
        gossip.heed = partial(_heed, node, gossip.membership)
        gossip.refused = node.refused
    current = _Current(identity)
    denied = gossip.membership.denied if gossip else current.denied
    calls = Calls()
    terms = identity, node.schema, settings.run, settings.algorithm
    news = gossip.news if gossip else lambda peer: b""
    transport = GrpcTransport(*terms, denied=denied, count=calls.side("out"), seed=client.number, news=news)
    refused = partial(node.refused, said=True)  # whoever refuses something logs it
    server = GrpcServer(*terms, node, denied=denied, count=calls.side("in"), refused=refused)
    loop.add_reader(stderr, stderr.read, partial(refused, STRANGER))
    page = Page(lambda: {**node.status(), "connections": server.guard.status()}, calls)
    tasks: list[asyncio.Task[None]] = []
    try:
        listening = await server.start(settings.listen or settings.address)
        shown = await page.start(settings.status)
        files.replace(store.folder / ADDRESS, f"{shown}\n".encode())  # whole: others look at any moment
        log.info(
            "ready",
            extra={
                "peer": identity.id,
                "federation": identity.federation,
                "run": settings.run,
                "address": settings.address,
                "listen": listening,
                "status": shown,
                "incarnation": node.incarnation,
                "t": node.worker.now.t,
            },
        )
        adoption = client.algorithm.adoption
        if client.algorithm.listens and adoption != "mix":
            log.warning(
                "trusts every member",
                extra={
                    "why": f"adoption = {adoption!r}: any member can change this peer's model by sending it "
                    'its own; method = { ..., adoption = "mix" } or "ignore" is safer'
                },
            )
        if text := client.task.notice:
            log.warning("weights not used", extra={"why": text})
        if gossip is not None:
            tasks.append(asyncio.ensure_future(gossip.live(transport)))
        tasks.append(asyncio.ensure_future(_rotate(current, server, transport, gossip, node)))
        try:
            await node.live(transport, stop, tasks)
        finally:
            if gossip is not None:
                await gossip.leave(transport)
        log.info("left", extra={"peer": identity.id, "t": node.worker.now.t})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await page.stop()
        await server.stop(GRACE)
        await transport.close()
        with contextlib.suppress(OSError):
            (store.folder / ADDRESS).unlink()
        with contextlib.suppress(PeerError):  # a full disk was told before
            node.leave()


def _heed(node: Node, membership: Membership, event: Event) -> None:
    """What gossip tells of this peer itself."""
    if event.what == "outbid":
        node.outbid(membership.incarnation)
    elif event.what == "duplicate":
        node.duplicate(event.text)


def _gossip(settings: Settings, identity: Identity, incarnation: int) -> Gossip:
    membership = Membership(
        identity,
        settings.address,
        time.monotonic(),
        incarnation=incarnation,
        nonce=secrets.token_bytes(NONCE),
        seeds=[Contact.parse(seed) for seed in settings.seeds],
        seed=settings.seed,
    )
    return Gossip(identity, membership)


class _Current:
    """The identity in use, another one after each rotation, and the deny list beside it."""

    def __init__(self, identity: Identity) -> None:
        self.identity, self.deny = identity, identity.deny

    def take(self, deny: DenyList) -> None:
        """Another list, if it is newer."""
        self.deny = max(self.deny, deny, key=lambda one: one.version)

    def denied(self, peer: str, serial: int) -> bool:
        """Without gossip, the deny list is the one in the identity folder."""
        return serial in self.deny.serials


async def _rotate(
    current: _Current, server: GrpcServer, transport: GrpcTransport, gossip: Gossip | None, node: Node
) -> None:
    """Take new certificates and deny lists into use while the peer runs, and warn before one ends."""
    warned = False
    while True:
        new, broken = None, None
        try:
            # First of all the list: it is to be passed on even if this peer itself is on it.
            current.take(await asyncio.to_thread(current.identity.listed))
            if gossip is not None:
                gossip.membership.deny(current.deny, time.monotonic())
            new = await asyncio.to_thread(current.identity.reload)
        except IdentityError as error:
            broken = str(error)
        node.fault("identity", broken)
        if new is not None:
            old, current.identity = current.identity, new
            if gossip is not None:
                gossip.identity = new
                gossip.membership.renew(new)
            if new.certificate_pem != old.certificate_pem:
                warned = False
                transport.rotate(new)
                try:
                    await server.rotate(new)
                except PeerError as error:  # others are still asked; the next certificate is the next try
                    node.fault("listener", str(error))
                else:
                    node.fault("listener", None)
                    log.info("new certificate", extra={"peer": new.id, "until": new.not_after.isoformat()})
        if not warned and (text := current.identity.warning()):
            warned = True
            log.warning("certificate ends", extra={"why": text})
        await asyncio.sleep(ROTATE)
