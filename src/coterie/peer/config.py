"""PEER.toml: what one peer is, has and does, as frozen and validated data.

PeerConfig
  address, listen                          where others dial it, and where it listens
  seeds, peers, identity, state            whom it knows, who it is
  run, members, seed, client, slots        which run of the federation, and its place in it
  method, model, architecture              what it computes
  dtype, threads                           and how
  data, train, evaluate                    as in an experiment
  exchange                                 when it wakes and whom it asks
  status                                   metrics, health and status, for this machine only
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from zlib import crc32

import torch
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BeforeValidator, ValidationError, model_validator

from coterie.core.data import Federation, Scaling
from coterie.core.errors import ConfigError, DataError
from coterie.core.precision import Precision
from coterie.core.registry import registered, resolve
from coterie.core.support.addresses import is_loopback
from coterie.experiment import (
    NO_ATTACK,
    Attackers,
    Count,
    Data,
    Evaluate,
    Experiment,
    Method,
    Named,
    Plugin,
    Section,
    Share,
    Train,
    World,
    config_error,
    named,
    settled,
)
from coterie.experiment.schema import Model
from coterie.federation import Dealer
from coterie.peer.errors import PeerError
from coterie.peer.identity.names import Contact, address_error, id_error
from coterie.peer.learning.architectures import Architectures
from coterie.peer.learning.client import Client, ClientData
from coterie.peer.membership.records import MOST_RECORDS

__all__ = ["ENDLESS", "Exchange", "PeerConfig"]

ENDLESS = 2**31 - 1
"""`train.iterations` of a peer that learns until it is stopped."""

MOST_SAMPLES = 2**20
"""Samples at a time: more than a peer can look at."""

KEPT = 256.0
"""Megabytes of journal of a peer with data of its own, which may learn for months."""


def _address(text: str, example: str = "10.0.0.1:7440", dialled: bool = True) -> str:
    if wrong := address_error(text, dialled):
        raise ValueError(f"{wrong}; expected HOST:PORT, such as {example}")
    return text


def _own_address(text: str) -> str:
    if address_error(text, dialled=False) is None and (wrong := address_error(text)):
        raise ValueError(f"{wrong}, and listen = {text!r} beside it")
    return _address(text)


def _listen(text: str) -> str:
    return _address(text, "0.0.0.0:7440", dialled=False)


def _contact(text: str) -> str:
    try:
        return str(Contact.parse(text))
    except PeerError as error:
        raise ValueError(str(error)) from None


def _id(text: str) -> str:
    if wrong := id_error(text):
        raise ValueError(f"{text!r} is no id: {wrong}")
    return text


def _local(text: str) -> str:
    port = text.rpartition(":")[2]
    if not (is_loopback(text) and port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise ValueError("metrics and status are for this machine only: expected 127.0.0.1:PORT")
    return text


def _word(text: str) -> str:
    if not (0 < len(text) <= 64 and text.isascii() and all(c.isalnum() or c in "._-" for c in text)):
        raise ValueError("expected at most 64 letters, digits or '._-'")
    return text


Address: TypeAlias = Annotated[str, AfterValidator(_address)]
Id: TypeAlias = Annotated[str, AfterValidator(_id)]


class Exchange(Section):
    """Times of the exchanges, and whom this peer asks."""

    every: Count = 20
    """T_ex: own iterations from one wake to the next, on average."""
    jitter: Annotated[float, Ge(0), Lt(1)] = 0.5
    """Share by which that varies: from every x (1 - jitter) to every x (1 + jitter)."""
    choice: Literal["random", "best"] = "random"
    """Members to ask if more than `cap` are in reach: any of them, or those with the best links."""
    cap: Count = 8
    """Members to ask at most."""
    probe: Count | Literal["all"] = "all"
    """Samples on which it probes others' models: all its own, or a batch this large."""
    holdout: Annotated[float, Gt(0), Lt(1)] = 0.2
    """Share of its training samples that are set aside, where the method wants that."""
    precision: Precision = "full"
    """Numbers of a message on the wire, as in an experiment; all peers of a run must have the same."""
    channel: Named | None = None
    """A channel of the simulator to be played on top of the real network, for experiments."""
    topology: Named = Plugin(name="all")
    """A topology of the simulator, for experiments: it asks its neighbours there only."""
    loss: Share = 0.0
    """Share of models that are lost on purpose, for experiments."""


class PeerConfig(Section):
    """Configuration of one peer."""

    address: Annotated[str, AfterValidator(_own_address)]
    """HOST:PORT at which the others reach it: what it signs and gossips."""
    listen: Annotated[str, AfterValidator(_listen)] | None = None
    """HOST:PORT at which it listens, where that is another (a container, a port mapping), such as
    0.0.0.0:7440; absent: `address`."""
    seeds: tuple[Annotated[str, AfterValidator(_contact)], ...] = ()
    """Members to ask for the others, as ID@HOST:PORT; one that answers is enough."""
    peers: dict[Id, Address] = {}  # noqa: RUF012
    """A fixed list of members, by id, instead of gossip."""
    identity: Path = Path("identity")
    """Folder with ca.pem, peer.pem and peer.key."""
    state: Path = Path("state")
    """Folder for its model and its journal."""
    run: Annotated[str, AfterValidator(_word)] = "main"
    """Name of this run of the federation; all its peers must have the same."""
    members: Annotated[Count, Ge(2), Le(MOST_RECORDS)] = 64
    """Peers that it can keep a weight for at most, itself included."""
    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed, the same for all peers of a run, so that they start from the same model."""
    client: Annotated[int, Ge(0)] | None = None
    """Client i: have only the part of the data that it has among `data.clients`; absent: all data."""
    slots: dict[Id, Annotated[int, Ge(0)]] = {}  # noqa: RUF012
    """Entries of its row of W that belong to certain peers; the others get theirs when they are met."""
    method: Annotated[Method, BeforeValidator(named)] = Method(name="KD-PDFL")
    """Without `client`, its `adoption` is "mix" unless it is named: nobody overwrites its model unweighed."""
    model: Model = Plugin(name="mlp")
    """Model of all peers of a run; or a list of those that they may have, the same for all of them."""
    architecture: Annotated[int, Ge(0)] | str | None = None
    """Model of this peer, by its place in that list, from 0, or by name; a `client` has it dealt."""
    task: Named = Plugin(name="classification")
    dtype: Literal["float32", "float64"] = "float32"
    threads: Count = 1
    """Threads that compute, at most as many as the machine has processors."""
    data: Data = Data()
    train: Train = Train(iterations=ENDLESS, personalize=0)
    """Training as in an experiment; without `iterations` until it is stopped."""
    evaluate: Evaluate = Evaluate()
    exchange: Exchange = Exchange()
    attack: Annotated[Attackers, BeforeValidator(named)] = Attackers()
    """Attack as in an experiment, if its `client` is among the attackers; for experiments only."""
    rate: Annotated[float, Ge(1e-3)] | None = None
    """Iterations a second at most, on a machine that has other things to do."""
    quorum: Annotated[int, Ge(0), Le(MOST_RECORDS)] = 0
    """Others that must be known before it begins to learn (or half a minute, if they do not come)."""
    save: Annotated[float, Gt(0), Le(86400)] = 10.0
    """Seconds between two saves of its model, at most a day."""
    journal: Annotated[float, Gt(0)] | None = None
    """Megabytes of journal that are kept; older lines go, and `coterie replay` with them. None: all, but with
    data of its own 256 unless it is named."""
    status: Annotated[str, AfterValidator(_local)] = "127.0.0.1:0"
    """HOST:PORT at which metrics, health and status are shown; port 0: any free one."""
    tls_failures: bool = False
    """Log and count failed TLS handshakes, by reading what gRPC writes to standard error."""
    home: Path | None = None
    """Folder in which modules of your own are looked for first; absent: that of this file."""

    @model_validator(mode="before")
    @classmethod
    def _endless(cls, values: Any) -> Any:
        values = dict(values)
        if isinstance(train := values.get("train", {}), Mapping) and "iterations" not in train:
            values["train"] = {"iterations": ENDLESS, "personalize": 0, **train}
        return values

    @model_validator(mode="before")
    @classmethod
    def _careful(cls, values: Any) -> Any:
        method = named(values.get("method", "KD-PDFL"))
        if values.get("client") is None and isinstance(method, Mapping):
            values = {"journal": KEPT, **values, "method": {"adoption": "mix", **method}}
        return values

    @model_validator(mode="after")
    def _fitting(self) -> PeerConfig:
        if self.client is not None and self.client >= self.data.clients:
            raise ValueError(f"client = {self.client}, but data.clients = {self.data.clients}")
        if self.client is None and self.attack.name != NO_ATTACK:
            raise ValueError("attack is for experiments, in which every peer has a `client`; leave it out")
        amounts = {"train.batch": self.train.batch, "exchange.probe": self.exchange.probe}
        amounts |= {"data.test": self.data.test, "evaluate.uniform": self.evaluate.uniform}
        for key, samples in amounts.items():
            if samples != "all" and samples > MOST_SAMPLES:
                raise ValueError(f"{key} = {samples}, but a peer looks at {MOST_SAMPLES} samples at most")
        if self.width > MOST_SAMPLES:
            raise ValueError(f"data.clients = {self.width}, but a peer keeps {MOST_SAMPLES} weights at most")
        if self.seeds and self.peers:
            raise ValueError("seeds (gossip) and peers (a fixed list) exclude each other; leave one out")
        taken = [self.slot, *self.slots.values()]
        if max(taken) >= self.width or len(set(self.slots.values())) < len(self.slots):
            raise ValueError(f"slots must be different numbers below {self.width}, got {dict(self.slots)}")
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> PeerConfig:
        """Validate plain data; every mistake is a ConfigError with a path."""
        try:
            config = cls.model_validate(dict(values))
        except ValidationError as error:
            raise config_error(cls, error, values) from None
        config.world()  # names and options of plugins
        return config

    @classmethod
    def load(cls, file: Path) -> PeerConfig:
        """Read a TOML file; folders are relative to it."""
        try:
            values = tomllib.loads(file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file} is not valid TOML: {error}") from None
        try:
            config = cls.parse(settled(values, file))
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        home = file.resolve().parent
        return config.model_copy(update={"identity": home / config.identity, "state": home / config.state})

    def plain(self) -> dict[str, Any]:
        """Give plain data, complete, fit for TOML and JSON."""
        values: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return values

    @property
    def width(self) -> int:
        """Number of entries of its row of W."""
        return self.members if self.client is None else self.data.clients

    @property
    def slot(self) -> int:
        """Own entry of the row."""
        return self.client or 0

    @property
    def algorithm(self) -> str:
        """Registered name of its method, however it is spelt here: all peers of a run have the same."""
        plugin = resolve("algorithm", self.method.name)
        return next(
            (name for name, one in registered("algorithm").items() if one is plugin), self.method.name
        )

    @property
    def endless(self) -> bool:
        return self.train.iterations == ENDLESS

    def world(self) -> World:
        """Build the experiment of which this peer is one client."""
        e = self.exchange
        exchange: dict[str, Any] = {"every": max(3, e.every)}
        exchange |= {"loss": e.loss, "probe": e.probe, "holdout": e.holdout, "cap": e.cap}
        exchange["precision"] = e.precision
        exchange["topology"] = e.topology.model_dump()
        exchange["channel"] = (e.channel or Plugin(name="ideal")).model_dump()
        method = self.method.model_dump(exclude_none=True)
        values = {
            "name": self.run,
            "seeds": [self.seed],
            "methods": {self.method.name: method},
            "model": self.model.model_dump(exclude_none=True),
            "task": self.task.model_dump(),
            "data": {**self.data.model_dump(exclude_none=True), "clients": self.width},
            "train": self.train.model_dump(exclude_none=True),
            "exchange": exchange,
            "evaluate": self.evaluate.model_dump(),
            "attack": self.attack.model_dump(),
            "dtype": self.dtype,
            "home": self.home,
        }
        (world,) = Experiment.parse(values).worlds()
        return world

    def data_folder(self, file: Path) -> Path | None:
        """Return the default data folder: that of PEER.toml for a peer with its own data, else None."""
        return file.resolve().parent if self.client is None else None

    def federation(self, root: Path | None, scaling: Scaling | None = None) -> Federation:
        """Deal the data of all clients if `client` is given, else of itself alone.

        `scaling`: that of a model trained before.
        """
        world, least = self.world(), self.data.min_partition_size
        if self.client is None:
            if world.algorithm.knows_the_truth:
                raise ConfigError(
                    f"method {self.method.name!r} needs what only an experiment knows (true groups, all "
                    "clients' samples), but this peer has data of its own; choose another method"
                )
            # One client that has everything: more than an experiment allows, so it is not validated.
            alone = {"clients": 1, "sizes": "all", "partition": Plugin(name="iid"), "min_partition_size": 0}
            e = world.experiment
            world = world._replace(experiment=e.model_copy(update={"data": e.data.model_copy(update=alone)}))
        federation = Dealer(root, scaling, steady=self.client is None).of(world)
        if self.client is None and (own := int(federation.train.count[0])) < least:
            raise DataError(
                f"of this peer's own data only {own} samples are left to train on, once those for testing "
                f"and validation are set aside, and data.min_partition_size = {least}; give it more samples, "
                "or set smaller data.test_share and data.validation"
            )
        return federation

    def number(self, peer: str) -> int:
        """Return the key of its random streams."""
        return crc32(peer.encode()) if self.client is None else self.client

    def client_of(self, peer: str, federation: Federation) -> Client:
        """Build the client that this peer is."""
        own, world = ClientData.of(federation, self.slot, getattr(torch, self.dtype)), self.world()
        if self.client is None or self.architecture is not None:
            among = Architectures.chosen(world.experiment, self.architecture)
        else:
            among = Architectures.dealt(world, federation, self.client)
        return Client.of(world, own, among, self.number(peer), self.slot)
