"""Plan of a swarm: a throw-away CA, and a PEER.toml on loopback for each client of an experiment."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import ConfigError, RunError
from coterie.core.support.toml import dumps
from coterie.experiment import Experiment, Population, World
from coterie.peer.config import PeerConfig
from coterie.peer.identity.authority import REQUEST, Authority, request

__all__ = ["fit_for_peers", "free_ports", "names", "peer_configs", "states", "world_of", "write_peer_folders"]

FEDERATION = "swarm"
HOST = "127.0.0.1"
_PORTS = range(10240, 32768)
_numbers = itertools.count(97 * os.getpid())


def names(count: int) -> list[str]:
    """Name peers p0, p1, ..."""
    return [f"p{i}" for i in range(count)]


def fit_for_peers(experiment: Experiment) -> None:
    """Refuse what only the simulator can do, rather than leave it out unsaid."""
    if experiment.population != Population():
        raise ConfigError(
            "population: speeds and absences are the simulator's; real peers have clocks of their own, and "
            "are away when they are stopped; leave it out: --set population={}"
        )
    for path, name in experiment.objects().items():
        raise ConfigError(
            f"{path}: {name!r} is an object of Python in this process, and peers are processes of their "
            "own; move "
            "it to a module and name it there"
        )
    if experiment.device != "cpu":
        raise ConfigError(f"device: peers learn on 'cpu', got {experiment.device!r}; leave it out")


def peer_configs(
    world: World, ports: Sequence[int], pages: Sequence[int] = (), **more: Any
) -> list[PeerConfig]:
    """Configure a peer for each client of a world, to wake as often as its twin in the simulator, on average.

    `pages`: ports of their status pages; without them any that are free when they start.
    """
    e = world.experiment
    m, stars = e.data.clients, e.exchange.stars
    count = stars if isinstance(stars, int) else max(1, round(stars * m))
    everybody = names(m)
    common = {
        "run": "swarm",
        "seed": world.seed,
        "method": {**e.plain()["methods"][world.label]},
        "model": e.model.model_dump(mode="json", exclude_none=True),
        "task": e.task.model_dump(),
        "dtype": e.dtype,
        "data": e.data.model_dump(mode="json", exclude_none=True),
        "train": e.train.model_dump(mode="json", exclude_none=True),
        "evaluate": e.evaluate.model_dump(),
        **({"home": str(e.home)} if e.home else {}),
        "attack": e.attack.model_dump(),
        "exchange": {
            "every": max(1, round(e.exchange.every * m / min(count, m))),
            "cap": e.exchange.cap or m - 1,
            "channel": e.exchange.channel.model_dump(),
            "topology": e.exchange.topology.model_dump(),
            "loss": e.exchange.loss,
            "probe": e.exchange.probe,
            "holdout": e.exchange.holdout,
            "precision": e.exchange.precision,
        },
        "quorum": m - 1,
        "slots": {name: i for i, name in enumerate(everybody)},
        **more,
    }
    seed = f"{everybody[0]}@{HOST}:{ports[0]}"
    return [
        PeerConfig.parse(
            {
                **common,
                "address": f"{HOST}:{port}",
                "status": f"{HOST}:{page}",
                "client": i,
                "seeds": [seed] if i else [],
            }
        )
        for i, (port, page) in enumerate(zip(ports, pages or [0] * m, strict=True))
    ]


def write_peer_folders(folder: Path, configs: Sequence[PeerConfig]) -> list[Path]:
    """Write a folder for each peer, with key, certificate and PEER.toml; the CA is gone after this."""
    files = []
    with tempfile.TemporaryDirectory() as scratch:
        authority = Authority.create(Path(scratch) / "ca", FEDERATION)
        for name, one in zip(names(len(configs)), configs, strict=True):
            home = folder / name
            identity = home / "identity"
            request(identity, name)
            authority.issue((identity / REQUEST).read_bytes(), identity, days=1)
            files.append(home / "peer.toml")
            files[-1].write_text(dumps(one.plain()))
    return files


def states(run: Path, count: int) -> list[Path]:
    """Return the state folders of the peers of a swarm."""
    return [run / "peers" / name / "state" for name in names(count)]


def free_ports(wanted: int) -> list[int]:
    """Find ports of loopback that nobody listens on at this moment.

    Systems give ports to outgoing connections from 32768 up, so those here stay free until they are used;
    where the search begins depends on the process, so that two that search at once do not meet.
    """
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for number in itertools.islice(_numbers, len(_PORTS)):
            if len(found) == wanted:
                return found
            one = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind((HOST, port := _PORTS[number % len(_PORTS)]))
                found.append(port)
    raise RunError(
        f"{HOST} has no {wanted} free ports from {_PORTS[0]} to {_PORTS[-1]}; stop what holds them"
    )


def world_of(experiment: Experiment, label: str) -> World:
    """Return the only world of one method and the first seed."""
    (world,) = experiment.only(label).worlds()
    return world
