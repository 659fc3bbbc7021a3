"""Free-running peers inside one process, over a network in memory that loses what it is told to lose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from coterie.peer.app import client_of
from coterie.peer.config import PeerConfig
from coterie.peer.membership.directory import StaticDirectory
from coterie.peer.node import Node
from coterie.peer.persistence.checkpoint import Closed, StateFolder
from coterie.peer.persistence.life import Life
from tests.peer.in_memory import InMemoryNetwork
from tests.waiting import eventually

__all__ = ["Peer", "lone_node", "peer_config"]

SMALL: dict[str, Any] = {
    "model": {"name": "mlp", "hidden": [5]},
    "data": {
        "set": {"name": "synthetic", "groups": 2, "classes": 3, "features": 6, "samples": 60},
        "clients": 4,
        "sizes": [3, 12],
        "test": 10,
    },
    "train": {"iterations": 60, "batch": 4},
    "exchange": {"every": 6},
    "evaluate": {"every": 20, "uniform": 9},
    "rate": 200,
}


def peer_config(number: int, folder: Path, **changes: Any) -> PeerConfig:
    """Peer `p<number>` of four small ones; tables are merged."""
    values: dict[str, Any] = {
        **SMALL,
        "address": f"127.0.0.1:{7000 + number}",
        "client": number,
        "peers": {f"p{i}": f"127.0.0.1:{7000 + i}" for i in range(4)},
        "state": str(folder / f"p{number}"),
    }
    for key, value in changes.items():
        tables = isinstance(value, dict) and isinstance(values.get(key), dict)
        values[key] = {**values[key], **value} if tables else value
    return PeerConfig.parse(values)


class Peer:
    """One peer that can be started, stopped and started again."""

    def __init__(
        self, network: InMemoryNetwork, config: PeerConfig, wall: float = 0.0, name: str = ""
    ) -> None:
        self.network, self.config = network, config
        self.name = name or f"p{config.client}"
        self.folder = StateFolder.open(config.state)
        client = client_of(config, self.name, config.data_folder(config.state), self.folder)
        directory = StaticDirectory(config.peers, self.name)
        life = Life.open(self.folder, self.name, config.run, client.first(), wall, then=Closed.of(client))
        self.node = Node(self.name, config, client, self.folder, directory, life, "wards")
        self.node.begin()
        self.stop = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Node]:
        """Lives inside the block; leaves politely at its end."""
        transport = self.network.join(self.name, self.config.address, self.node)
        life = asyncio.ensure_future(self.node.run(transport, self.stop))
        try:
            await eventually(lambda: self.node.learning or life.done())
            yield self.node
        finally:
            self.stop.set()
            await life
            await transport.close()
            self.close()

    def close(self) -> None:
        """Write the last line and let go of the folder."""
        self.node.close()
        self.folder.close()


@asynccontextmanager
async def lone_node(folder: Path, **changes: Any) -> AsyncIterator[Node]:
    """One peer whose neighbours do not answer."""
    async with Peer(InMemoryNetwork(), peer_config(0, folder, **changes)).running() as node:
        yield node
