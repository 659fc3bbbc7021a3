"""A peer as a process: everything put together, from its PEER.toml to its last word."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import secrets
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from coterie.core.errors import ConfigError
from coterie.peer.config import PeerConfig
from coterie.peer.errors import IdentityError, PeerError
from coterie.peer.identity import key_files
from coterie.peer.identity.identity import Identity
from coterie.peer.identity.names import UNAUTHENTICATED, Contact
from coterie.peer.learning.client import Client, dry_run
from coterie.peer.learning.inputs import Inputs
from coterie.peer.membership.directory import GossipDirectory, StaticDirectory
from coterie.peer.membership.loop import GossipLoop
from coterie.peer.membership.protocol import Membership
from coterie.peer.membership.records import RECORD_NONCE_BYTES
from coterie.peer.node import Node
from coterie.peer.observability.logging import log_loop_errors, log_to_stderr
from coterie.peer.observability.status_client import ADDRESS
from coterie.peer.observability.status_server import CallCounters, StatusServer
from coterie.peer.observability.tls_failures import StderrTap, tap_stderr
from coterie.peer.persistence.checkpoint import Closed, StateFolder
from coterie.peer.persistence.life import Life

if TYPE_CHECKING:
    from coterie.peer.transport.grpc_client import GrpcTransport
    from coterie.peer.transport.grpc_server import GrpcServer

__all__ = ["client_of", "run"]

log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds for calls under way when the peer leaves."""
ROTATE = 10.0
"""Seconds between two looks at the identity folder."""


def run(file: Path, data: Path | None = None) -> None:
    """Run the peer of a PEER.toml until SIGTERM or Ctrl-C; raise what it cannot start with, or what ended it.

    `data`: folder of data sets, by default beside the file (for a client of an experiment, as there).
    """
    config = PeerConfig.load(file)
    root = data or config.data_folder(file)
    if config.threads > (processors := os.cpu_count() or 1):
        raise ConfigError(
            f"{file}: threads = {config.threads}, but this machine has {processors} processors; "
            "use at most as many"
        )
    torch.set_num_threads(config.threads)
    identity = Identity.load(config.identity)
    faulthandler.enable(2)
    with contextlib.ExitStack() as stack:
        tap = stack.enter_context(tap_stderr()) if config.tls_failures else None
        log_to_stderr()
        folder = stack.enter_context(contextlib.closing(StateFolder.open(config.state)))
        client = client_of(config, identity.id, root, folder)
        dry_run(client)
        asyncio.run(_serve(config, identity, client, folder, tap))


def client_of(config: PeerConfig, peer: str, root: Path | None, folder: StateFolder) -> Client:
    """Build the client that a peer is; what was fitted to its data when its saved model was new stays so."""
    saved = folder.inputs()
    federation = config.federation(root, saved.scaling if saved else None)
    now = Inputs.of(federation)
    if saved is not None:
        saved.refuse_others(now, str(folder.path))
    if now.scaling is not None:
        how = "as saved with the model" if saved else "by mean and deviation of the rows not for testing"
        log.info("inputs_scaled", extra={"how": how})
    return config.client_of(peer, federation)


async def _serve(
    config: PeerConfig, identity: Identity, client: Client, folder: StateFolder, tap: StderrTap | None
) -> None:
    # Here: gRPC decides when it is loaded what to write to standard error (`tls_failures`).
    from coterie.peer.transport.grpc_client import GrpcTransport
    from coterie.peer.transport.grpc_server import GrpcServer

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    log_loop_errors(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    latest, closed = identity.leaf.latest, Closed.of(client)
    life = Life.open(folder, identity.id, config.run, client.first(), time.time(), latest, closed)
    membership = None if config.peers else _membership(config, identity, life.incarnation)
    directory = GossipDirectory(membership) if membership else StaticDirectory(config.peers, identity.id)
    node = Node(identity.id, config, client, folder, directory, life, identity.federation)
    gossip = GossipLoop(identity, membership, node.on_member_event, node.refused) if membership else None
    rotation = _Rotation(identity, node, membership, gossip)
    calls = CallCounters()
    terms = identity, node.schema, config.run, config.algorithm
    transport = GrpcTransport(
        *terms,
        denied=rotation.denied,
        count=calls.side("out"),
        seed=client.number,
        news=lambda peer: membership.packet(peer, time.monotonic()) if membership else b"",
    )
    refused = partial(node.refused, logged=True)  # whoever refuses something logs it
    server = GrpcServer(*terms, node, denied=rotation.denied, count=calls.side("in"), refused=refused)
    if tap is not None:
        loop.add_reader(tap, tap.read, partial(refused, UNAUTHENTICATED))
    page = StatusServer(lambda: {**node.status(), "connections": server.guard.status()}, calls)
    tasks: list[asyncio.Task[None]] = []
    node.begin()
    try:
        listening = await server.start(config.listen or config.address)
        shown = await page.start(config.status)
        key_files.replace(folder.root / ADDRESS, f"{shown}\n".encode())  # whole: others look at any moment
        log.info(
            "ready",
            extra={
                "peer": identity.id,
                "federation": identity.federation,
                "run": config.run,
                "address": config.address,
                "listen": listening,
                "status": shown,
                "incarnation": node.incarnation,
                "t": node.trainer.now.t,
            },
        )
        _warn(client)
        if gossip is not None:
            tasks.append(asyncio.ensure_future(gossip.run(transport)))
        tasks.append(asyncio.ensure_future(rotation.run(server, transport)))
        try:
            await node.run(transport, stop, tasks)
        finally:
            if gossip is not None:
                await gossip.leave(transport)
        log.info("left", extra={"peer": identity.id, "t": node.trainer.now.t})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await page.stop()
        await server.stop(GRACE)
        await transport.close()
        with contextlib.suppress(OSError):
            (folder.root / ADDRESS).unlink()
        with contextlib.suppress(PeerError):  # a full disk was told before
            node.close()


def _warn(client: Client) -> None:
    """Log what the owner of this peer should know of its method, its model and its settings."""
    adoption = client.algorithm.adoption
    if client.algorithm.listens and adoption != "mix":
        why = (
            f"adoption = {adoption!r}: any member can change this peer's model by sending it its own; "
            'method = { ..., adoption = "mix" } or "ignore" is safer'
        )
        log.warning("adoption_unsafe", extra={"why": why})
    if text := client.task.notice:
        log.warning("weights_not_used", extra={"why": text})
    if text := client.task.unfit:
        log.warning("weights_do_not_fit", extra={"why": text})
    own = len(client.own.train.y)
    amounts = {"train.batch": client.batch, "exchange.probe": client.probe_size or 0}
    for key, size in amounts.items():
        if size > own:
            why = f"{key} = {size}, but this peer has {own} samples to train on; use a smaller one"
            log.info("samples_drawn_again", extra={"why": why})
    if alone := client.task.alone:
        # Its own steps are those of one client anyway; what takes longer is to look at several neighbours.
        why = f"{alone.why}, so the models of neighbours run one at a time; its own steps take no longer"
        log.info("models_one_at_a_time", extra={"why": why})


def _membership(config: PeerConfig, identity: Identity, incarnation: int) -> Membership:
    return Membership(
        identity,
        config.address,
        time.monotonic(),
        incarnation=incarnation,
        nonce=secrets.token_bytes(RECORD_NONCE_BYTES),
        seeds=[Contact.parse(seed) for seed in config.seeds],
        seed=config.seed,
    )


class _Rotation:
    """New certificates and deny lists, taken into use while the peer runs, and a warning before one ends."""

    def __init__(
        self, identity: Identity, node: Node, membership: Membership | None, gossip: GossipLoop | None
    ) -> None:
        self._identity, self._deny = identity, identity.deny
        self._node, self._membership, self._gossip = node, membership, gossip
        self._warned = False

    def denied(self, peer: str, serial: int) -> bool:
        """Tell whether the CA took this certificate back; without gossip, by the list in the folder."""
        if self._membership is not None:
            return self._membership.denied(peer, serial)
        return serial in self._deny.serials

    async def run(self, server: GrpcServer, transport: GrpcTransport) -> None:
        """Look at the identity folder again and again, until cancelled."""
        while True:
            broken = None
            try:
                new = await self._reload()
            except IdentityError as error:
                new, broken = None, str(error)
            self._node.set_fault("identity", broken)
            if new is not None:
                await self._use(new, server, transport)
            if not self._warned and (text := self._identity.warning()):
                self._warned = True
                log.warning("certificate_expiring", extra={"why": text})
            await asyncio.sleep(ROTATE)

    async def _reload(self) -> Identity | None:
        # First of all the list: it is to be passed on even if this peer itself is on it.
        listed = await asyncio.to_thread(self._identity.listed)
        self._deny = max(self._deny, listed, key=lambda one: one.version)
        if self._membership is not None:
            self._membership.deny(self._deny, time.monotonic())
        return await asyncio.to_thread(self._identity.reload)

    async def _use(self, new: Identity, server: GrpcServer, transport: GrpcTransport) -> None:
        old, self._identity = self._identity, new
        if self._gossip is not None:
            self._gossip.renew(new)
        if new.certificate_pem == old.certificate_pem:
            return
        self._warned = False
        transport.rotate(new)
        try:
            await server.rotate(new)
        except PeerError as error:  # others are still asked; the next certificate is the next try
            self._node.set_fault("listener", str(error))
        else:
            self._node.set_fault("listener", None)
            log.info("certificate_renewed", extra={"peer": new.id, "until": new.not_after.isoformat()})
