"""A swarm of real processes on loopback, to be killed, stopped and started at will."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coterie.peer.config import PeerConfig
from coterie.swarm.plan import free_ports, names, peer_configs, world_of, write_peer_folders
from coterie.swarm.process import PeerProcess
from tests import waiting
from tests.engine.small import experiment

__all__ = ["running_swarm", "until"]


@contextmanager
def running_swarm(
    folder: Path, method: str, peers: int = 4, own: Mapping[int, Any] = MappingProxyType({}), **changes: Any
) -> Iterator[list[PeerProcess]]:
    """So many peers, started; what is still running at the end is killed. `own`: settings of one of them."""
    e = experiment(
        methods={method: {}},
        dtype="float32",
        data__clients=peers,
        train__iterations=100,
        exchange__every=5,
        exchange__loss=0.2,
        evaluate__every=25,
    )
    world = world_of(e, method)
    settings = peer_configs(world, free_ports(peers), **changes)
    settings = [PeerConfig.parse({**one.plain(), **own.get(i, {})}) for i, one in enumerate(settings)]
    files = write_peer_folders(folder, settings)
    processes = [PeerProcess(name, file) for name, file in zip(names(peers), files, strict=True)]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.signal(signal.SIGKILL)
            if process.pid:
                process.wait(10)


def until(condition: Callable[[], bool], processes: list[PeerProcess], seconds: float = 60.0) -> None:
    """Wait for something that the peers bring about; one that ends by itself is an error at once."""

    def check() -> None:
        for process in processes:
            process.check()

    waiting.until(condition, seconds, check, told=lambda: [process.status() for process in processes])
