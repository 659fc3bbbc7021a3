"""Real peers, each a process with its own certificate, on loopback or each on a machine of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from coterie.core.support.toml import dumps
from coterie.peer.config import ENDLESS, PeerConfig
from coterie.peer.identity.authority import BACKDATED, REQUEST, Authority, request
from coterie.peer.identity.identity import Identity
from coterie.peer.persistence import journal
from coterie.swarm.plan import free_ports, names, peer_configs, world_of
from coterie.swarm.process import PeerProcess
from tests.engine.small import experiment
from tests.threats.wire import NoMachinesError, Wire, enter
from tests.waiting import until

__all__ = ["Prepare", "World", "opened"]

Prepare = Callable[[], None]
PORT = 7440
DAY = 86400.0
CALM: dict[str, Any] = {
    "quorum": 0,
    "rate": 20,
    "save": 0.5,
    "train": {"iterations": ENDLESS, "personalize": 0, "batch": 4},
    "exchange": {"every": 8},
    "evaluate": {"every": 200, "uniform": 9},
}
"""It learns until it is stopped, at an easy pace, and wakes a few times a second."""


def _both(first: Prepare, second: Prepare | None) -> None:
    first()
    if second is not None:
        second()


class World:
    """So many peers, p0, p1, ..., and the CA they have in common; p0 is the seed of all others.

    `own`: settings of one of them, by number; `prepare`: what its process does first.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        wire: Wire | None = None,
        own: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
        prepare: Mapping[int, Prepare] = MappingProxyType({}),
        **common: Any,
    ) -> None:
        self.folder, self.wire, self.names = folder, wire, names(count)
        self.authority = Authority.create(folder / "ca", "wards", wall=time.time() - 2 * DAY)
        small = experiment(
            methods={"KD-PDFL": {}},
            dtype="float32",
            data__clients=count + 2,
            data__set={"name": "synthetic", "groups": 2, "classes": 3, "features": 6, "samples": 400},
            exchange__every=8,
        )
        hosts = [wire.host(i) if wire else "127.0.0.1" for i in range(count)]
        ports = [PORT] * count if wire else free_ports(count)
        self.addresses = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
        seed = f"p0@{self.addresses[0]}"
        everybody = peer_configs(
            world_of(small, "KD-PDFL"),
            [PORT] * (count + 2),
            **{**CALM, **common},
        )
        self.processes: dict[str, PeerProcess] = {}
        for i, name in enumerate(self.names):
            values = {
                **everybody[i].plain(),
                "address": self.addresses[i],
                "seeds": [seed] if i else [],
                "slots": {name: i for i, name in enumerate(self.names)},
                **own.get(i, {}),
            }
            self.enrol(name, folder / name / "identity")
            self.settle(name, values)
            first = partial(enter, wire.namespace(i)) if wire else None
            then = prepare.get(i)
            hook = partial(_both, first, then) if first else then
            self.processes[name] = PeerProcess(name, folder / name / "peer.toml", prepare=hook)

    def enrol(self, name: str, identity: Path) -> Identity:
        """A key and a certificate."""
        request(identity, name)
        self.authority.issue((identity / REQUEST).read_bytes(), identity)
        return Identity.load(identity)

    def certify(self, name: str, seconds: float) -> None:
        """The next certificate of a peer, which holds for so long."""
        identity = self.folder / name / "identity"
        wall = time.time() + seconds + BACKDATED.total_seconds() - DAY
        self.authority.issue((identity / REQUEST).read_bytes(), identity, days=1, renew=True, wall=wall)

    def settle(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a peer's settings."""
        file = self.folder / name / "peer.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(dumps(PeerConfig.parse(values).plain()))

    def change(self, name: str, **values: Any) -> None:
        """Other settings, from the next start on."""
        self.settle(name, {**PeerConfig.load(self.folder / name / "peer.toml").plain(), **values})

    def start(self, *some: str) -> None:
        """These, or all."""
        for name in some or self.names:
            self.processes[name].start()

    def kill(self, *some: str) -> None:
        """SIGKILL."""
        for name in some:
            self.processes[name].signal(signal.SIGKILL)
            assert self.processes[name].wait(10) == -signal.SIGKILL

    def signal(self, number: signal.Signals, *some: str) -> None:
        for name in some:
            self.processes[name].signal(number)

    def running(self) -> list[str]:
        """Those whose processes live."""
        return [n for n, p in self.processes.items() if p.pid is not None and p.code is None]

    def status(self, name: str) -> dict[str, Any] | None:
        """What a peer says of itself; None: nothing."""
        process = self.processes[name]
        return self.wire.on(self.names.index(name), process.status) if self.wire else process.status()

    def t(self, name: str) -> int:
        """Its own clock; -1: it does not answer."""
        return int((self.status(name) or {"t": -1})["t"])

    def alive(self, name: str) -> set[str]:
        """Whom it takes for alive."""
        return self.members(name, "alive")

    def members(self, name: str, *states: str) -> set[str]:
        """Whom it takes for one of these."""
        status = self.status(name) or {"members": []}
        return {m["id"] for m in status["members"] if m["state"] in states}

    def agreed(self, *some: str) -> bool:
        """Whether these (or all that run) take each other, and nobody else, for alive."""
        here = set(some or self.running())
        return all(self.alive(name) == here - {name} for name in here)

    def agree(self, *some: str, seconds: float = 10.0) -> float:
        """Until they do; how long it took."""
        began = time.monotonic()
        self.until(lambda: self.agreed(*some), seconds)
        return time.monotonic() - began

    def learned_on(self, *some: str) -> None:
        """Each of them (or all that run) takes further steps."""
        before = {name: self.t(name) for name in some or self.running()}
        self.until(lambda: all(self.t(name) > t + 3 for name, t in before.items()), 15)

    def exchanged(self, *some: str) -> None:
        """Each of them (or all that run) hears a model once more."""

        def exchanges(name: str) -> int:
            return int((self.status(name) or {"exchanges": -1})["exchanges"])

        before = {name: exchanges(name) for name in some or self.running()}
        self.until(lambda: all(exchanges(name) > n for name, n in before.items()), 20)

    def until(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait for something that the peers bring about."""
        until(condition, seconds, told=lambda: {name: self._last(name) for name in self.names})

    def _last(self, name: str) -> Any:
        status = self.status(name) if name in self.running() else None
        state = status and {m["id"]: m["state"] for m in status["members"]}
        return self.processes[name].code, state, self.said(name)[-3:]

    def rows(self, name: str, *kinds: str) -> list[dict[str, Any]]:
        """Its history, or the lines of some kinds."""
        rows = journal.read(self.processes[name].state / "journal.jsonl")
        return [row for row in rows if not kinds or row["kind"] in kinds]

    def said(self, name: str, *whats: str) -> list[dict[str, Any]]:
        """Its log, or the lines of some kinds."""
        log = self.processes[name].log
        found = []
        for line in log.read_text().splitlines() if log.exists() else ():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [line for line in found if not whats or line["what"] in whats]

    def complained(self, name: str, *words: str) -> bool:
        """Whether a warning or an error in its log has all these words."""
        told = (json.dumps(line) for line in self.said(name) if line["level"] in ("warning", "error"))
        return any(all(word in line for word in words) for line in told)

    def metric(self, name: str, start: str) -> float:
        """The sum of its metrics whose names begin like this."""
        import urllib.request

        def ask() -> str:
            where = (self.processes[name].state / "status.address").read_text().strip()
            with urllib.request.urlopen(f"http://{where}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
            return text

        text = self.wire.on(self.names.index(name), ask) if self.wire else ask()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(start))

    def held(self, name: str) -> tuple[int, int]:
        """How many files a peer has open, and how many kilobytes of memory."""
        process = f"/proc/{self.processes[name].pid}"
        memory = next(x for x in Path(process, "status").read_text().splitlines() if x.startswith("VmRSS"))
        return len(os.listdir(f"{process}/fd")), int(memory.split()[1])

    def leave(self) -> None:
        """SIGTERM to all that run; each must end with 0."""
        here = self.running()
        self.signal(signal.SIGTERM, *here)
        assert {name: self.processes[name].wait(30) for name in here} == dict.fromkeys(here, 0)

    def states(self) -> list[Path]:
        """The state folders of all that were ever started."""
        return [p.state for p in self.processes.values() if (p.state / "journal.jsonl").exists()]

    def close(self) -> None:
        """Whatever still runs is killed."""
        for process in self.processes.values():
            process.signal(signal.SIGKILL)
            if process.pid:
                process.wait(10)
        if self.wire:
            self.wire.close()


@contextlib.contextmanager
def opened(folder: Path, count: int, machines: bool = False, **settings: Any) -> Iterator[World]:
    """A world, not yet started; `machines`: each peer on its own, joined by a wire."""
    try:
        wire = Wire(count) if machines else None
    except NoMachinesError as error:
        pytest.skip(str(error))
    world = World(folder, count, wire, **settings)
    try:
        yield world
    finally:
        world.close()
