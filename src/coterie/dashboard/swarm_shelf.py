"""A live swarm, and beside it the run folders of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coterie.core.addresses import is_loopback
from coterie.core.errors import ConfigError, CoterieError
from coterie.dashboard.shelf import RunShelf
from coterie.dashboard.source import Source
from coterie.dashboard.swarm_source import SwarmSource

__all__ = ["SwarmShelf", "located"]

NAME = "live swarm"


class SwarmShelf:
    """The swarm, then the runs."""

    page = f"#/run/{quote(NAME)}/swarm"
    """Where the page shows the swarm."""

    def __init__(self, peers: Sequence[str | Path], runs: Path, run: str | None = None) -> None:
        """`peers` and `run` as for a `SwarmSource`; `runs`: the folder with run folders."""
        self.swarm = SwarmSource(peers, run)
        self.runs = RunShelf(runs)

    def source(self, name: str) -> Source:
        """The swarm or the run of that name."""
        return self.swarm if name == NAME else self.runs.source(name)

    def listing(self) -> dict[str, Any]:
        """The swarm and every run in brief."""
        found = self.runs.listing()
        return {**found, "runs": [self._brief(), *found["runs"]]}

    def _brief(self) -> dict[str, Any]:
        try:
            return {"id": NAME, **self.swarm.answer("status", {})}
        except CoterieError as error:
            return {"id": NAME, "kind": self.swarm.kind, "state": "silent", "error": str(error)}

    def close(self) -> None:
        """Look at the swarm no more."""
        self.swarm.close()

    def stamp(self) -> str:
        """Another text whenever the listing may have changed."""
        return f"{self.swarm.stamp()}|{self.runs.stamp()}"


def located(peer: str) -> str | Path:
    """Where a peer shows its status: HOST:PORT of this machine, or its state folder."""
    if peer and Path(peer).is_dir():
        return Path(peer)
    port = peer.rpartition(":")[2]
    if is_loopback(peer) and port.isdecimal() and 0 < int(port) < 65536:
        return peer
    raise ConfigError(
        f"--peer {peer!r} is neither a folder nor an address of this machine; expected 127.0.0.1:PORT as in "
        "the peer's log under `status`, or its state folder (from another machine, use ssh)"
    )
