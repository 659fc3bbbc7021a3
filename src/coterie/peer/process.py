"""A peer as a process: from its PEER.toml to its end."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import torch

from coterie.core.errors import ConfigError
from coterie.peer.config import Settings
from coterie.peer.identity.identity import Identity
from coterie.peer.learning.client import Client, dry_run
from coterie.peer.learning.inputs import Inputs
from coterie.peer.observability.logging import log_to_stderr
from coterie.peer.observability.tls_failures import overheard
from coterie.peer.persistence.checkpoint import Store

__all__ = ["client_of", "run"]

log = logging.getLogger(__name__)


def run(file: Path, data: Path | None = None) -> None:
    """Run the peer of a PEER.toml until SIGTERM or Ctrl-C; what it cannot start with, or ends it, is raised.

    `data`: where data sets lie, by default beside the file (for a client of an experiment, as there).
    """
    settings = Settings.load(file)
    root = data or settings.beside(file)
    if settings.threads > (processors := os.cpu_count() or 1):
        raise ConfigError(
            f"{file}: threads = {settings.threads}, but this machine has {processors} processors; "
            "use at most as many"
        )
    torch.set_num_threads(settings.threads)
    identity = Identity.load(settings.identity)
    with overheard() as stderr:
        log_to_stderr()
        store = Store(settings.state)
        try:
            client = client_of(settings, identity.id, root, store)
            dry_run(client)
            from coterie.peer.app import serve  # here: gRPC asks once what to say on standard error

            asyncio.run(serve(settings, identity, client, store, stderr))
        finally:
            store.close()


def client_of(settings: Settings, peer: str, root: Path | None, store: Store) -> Client:
    """The client that a peer is; what was fitted to its data when its saved model was new stays as it was."""
    saved = store.inputs()
    federation = settings.federation(root, saved.scaling if saved else None)
    now = Inputs.of(federation)
    if saved is not None:
        saved.refuse_others(now, str(store.path))
    if now.scaling is not None:
        how = "as saved with the model" if saved else "by mean and deviation of the rows not for testing"
        log.info("inputs are scaled", extra={"how": how})
    return settings.client_of(peer, federation)
