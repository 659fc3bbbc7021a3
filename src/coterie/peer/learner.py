"""One client, bare: its method, its model, its data, and its own clock.

It calls what the simulator calls (`local`, `offer`, `wake`, `receive`) on the very types of the
simulator, and draws the very batches, probes and keys that its simulated twin draws. It knows no
network, no file and no thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm, receive, wake
from coterie.core.attack import Attack, attack_key
from coterie.core.contract import Checked
from coterie.core.data import Federation, Samples, Split
from coterie.core.draws import batch_rows, first_model, first_row, probe_rows, step_keys
from coterie.core.errors import CoterieError, ModelError
from coterie.core.model_factory import build_task
from coterie.core.registry import told
from coterie.core.task import Task
from coterie.core.types import Batch, Inbox, Info, Message, Probe, Start, State
from coterie.experiment import World
from coterie.peer.inputs import Inputs
from coterie.peer.transport import Version
from coterie.schedule import Schedule

__all__ = ["Client", "Heard", "Learner", "Own", "Record", "Snapshot", "trial"]

AHEAD = 64
"""Iterations whose batches are drawn in one go."""


@dataclass(frozen=True, eq=False)
class Own:
    """The samples of one client."""

    train: Samples
    validation: Samples
    personal: Samples
    uniform: Samples
    inputs: Inputs

    @property
    def names(self) -> tuple[str, ...]:
        """Of the classes."""
        return self.inputs.classes

    @property
    def classes(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, federation: Federation, client: int, dtype: torch.dtype) -> Own:
        """Those of one client of a federation."""

        def samples(split: Split) -> Samples:
            first = int(split.count[:client].sum())
            rows = slice(first, first + int(split.count[client]))
            x = federation.pool[split.index[rows]]
            return Samples(x.to(dtype if x.is_floating_point() else x.dtype), split.label[rows])

        f = federation
        parts = samples(f.train), samples(f.validation), samples(f.personal), samples(f.uniform)
        return cls(*parts, Inputs.of(f))


@dataclass(frozen=True, eq=False)
class Client:
    """What a learner is and does not change."""

    task: Task
    algorithm: Algorithm
    own: Own
    schedule: Schedule
    seed: int
    number: int
    """Keys its random streams."""
    slot: int
    """Its own entry of its row of W."""
    batch: int
    probe: int | None
    """Samples of a probe; None: all."""
    dtype: torch.dtype
    init: str
    attack: Attack | None
    """What it does in place of its method, for experiments; None: it is honest."""

    @classmethod
    def of(cls, world: World, own: Own, number: int, slot: int) -> Client:
        """A client of a world (one method, one seed, one setting) with these samples."""
        e = world.experiment
        dtype = getattr(torch, e.dtype)
        inputs, how = tuple(own.train.x.shape[1:]), (dtype, e.train.optimizer, e.train.init)
        return cls(
            task=build_task(e.model.name, e.model.options, inputs, own.classes, *how),
            algorithm=world.algorithm,
            own=own,
            schedule=Schedule.of(e, world.seed),
            seed=world.seed,
            number=number,
            slot=slot,
            batch=e.train.batch,
            probe=None if e.exchange.probe == "all" else e.exchange.probe,
            dtype=dtype,
            init=e.train.init,
            attack=e.attack.attack if bool(world.attackers[slot]) else None,
        )

    def first(self) -> State:
        """The state before the first iteration."""
        params, buffers = first_model(self.task, self.init, self.seed, self.number)
        row = first_row(self.slot, self.schedule.clients, self.dtype)
        return self.algorithm.init(self.task, Start(params, buffers, row))

    def offer(self, state: State, t: int) -> Message:
        """What it sends in that state at iteration t."""
        honest = self.algorithm.offer(self.task, state)
        if self.attack is None:
            return honest
        key = attack_key(self.seed, t, self.number)
        return self.attack.offer(self.task, state, honest, self.look(t), key)

    def lr(self, t: int) -> float:
        """The size of the local step at iteration t; the closing phase is the same for every method."""
        pace = 1.0 if self.schedule.closing(t) else self.algorithm.pace(t)
        return self.schedule.lr(t) * pace

    def look(self, t: int) -> Probe:
        """The own samples on which it looks at others' models at iteration t."""
        x, y = self.own.train.x, self.own.train.y
        size = torch.tensor(len(y), dtype=self.dtype)
        if self.probe is not None:
            rows = probe_rows(self.seed, t, self.number, len(y), self.probe)
            x, y = x[rows], y[rows]
        return Probe(_channels_last(x), y, torch.ones_like(y, dtype=torch.bool), size)

    def accuracy(self, state: State) -> dict[str, float | None]:
        """On each kind of samples, as the simulator names them; None where it has none."""
        own = self.own
        parts = {"personal": own.personal, "global": own.uniform, "validation": own.validation}
        return {name: _accuracy(self.task, state, part) for name, part in parts.items()}


class Heard(NamedTuple):
    """A message, and the entry of the row that belongs to its sender."""

    slot: int
    message: Message


class Snapshot(NamedTuple):
    """A moment of a learner: states are values, so this is a reference and never changes."""

    version: Version
    t: int
    state: State


Record: TypeAlias = Callable[[Snapshot, Info], None]
"""Told of a change before it is made: if it raises, nothing has changed."""


def _unrecorded(_after: Snapshot, _info: Info) -> None:
    """Keep no record."""


class Learner:
    """A client on its way: the one place where its state changes."""

    def __init__(self, client: Client, incarnation: int = 1, at: Snapshot | None = None) -> None:
        """From the beginning, or on from a snapshot in a new incarnation."""
        self.client = client
        start = at or Snapshot(Version(incarnation, 0), 0, client.first())
        self.now = start._replace(version=Version(incarnation, start.version.event))
        self._drawn: tuple[int, Tensor, Tensor] | None = None

    def local(self) -> float:
        """One iteration of the own clock with a local step; its loss."""
        c, (_, t, state) = self.client, self.now
        t += 1
        rows, key = self._draws(t)
        batch = Batch(
            _channels_last(c.own.train.x[rows]),
            c.own.train.y[rows],
            torch.tensor(c.lr(t), dtype=torch.float64).to(c.dtype),
            key,
        )
        new, info = c.algorithm.local(c.task, state, batch)
        self._become(new if c.attack is None or c.attack.learns else state, t, info)
        return float(info["loss"])

    def idle(self) -> None:
        """One iteration of the own clock without a local step."""
        self.now = self.now._replace(t=self.now.t + 1)

    def offer(self) -> Message:
        """What it sends when it is asked."""
        return self.client.offer(self.now.state, self.now.t)

    def wake(self, heard: Sequence[Heard], record: Record = _unrecorded) -> Info:
        """As a star, once the replies are in."""
        return self._exchange(wake, heard, record)

    def receive(self, heard: Heard, record: Record = _unrecorded) -> Info:
        """As a neighbour, on the star's broadcast."""
        return self._exchange(receive, [heard], record)

    def rise(self, incarnation: int) -> None:
        """The same model in a higher incarnation."""
        self.now = self.now._replace(version=Version(incarnation, self.now.version.event))

    def forget(self, slot: int, record: Record = _unrecorded) -> None:
        """An entry of the row as it was at the start: it will belong to another peer."""
        state, fresh = self.now.state, self.client.first().rows
        rows = {k: v.index_copy(0, torch.tensor([slot]), fresh[k][slot, None]) for k, v in state.rows.items()}
        self._become(state._replace(rows=rows), self.now.t, {}, record)

    def _exchange(
        self, act: Callable[..., tuple[State, Info]], heard: Sequence[Heard], record: Record
    ) -> Info:
        c, (_, t, state) = self.client, self.now
        names = heard[0].message if heard else {}
        inbox = Inbox(
            {k: torch.stack([h.message[k] for h in heard]) for k in names},
            torch.ones(len(heard), dtype=torch.bool),
            torch.tensor([h.slot for h in heard], dtype=torch.int64),
            torch.tensor(t),
        )
        new, info = act(c.algorithm, c.task, state, inbox, c.look(t))
        self._become(new, t, info, record)
        return info

    def _become(self, state: State, t: int, info: Info, record: Record = _unrecorded) -> None:
        incarnation, event = self.now.version
        after = Snapshot(Version(incarnation, event + 1), t, state)
        record(after, info)
        self.now = after

    def _draws(self, t: int) -> tuple[Tensor, Tensor]:
        if self._drawn is None or not 0 <= t - self._drawn[0] < AHEAD:
            c, ts = self.client, torch.arange(t, t + AHEAD)
            rows = batch_rows(c.seed, ts, c.number, len(c.own.train.y), c.batch)
            self._drawn = t, rows, step_keys(c.seed, ts, c.number)
        first, rows, keys = self._drawn
        return rows[t - first], keys[t - first]


def trial(client: Client) -> None:
    """One step, one exchange with itself: what cannot be run is told before the start."""
    name, method = type(client.task.model).__name__, type(client.algorithm).__name__
    checked = Checked(method=client.algorithm, its=f"method {method}")
    try:
        learner = Learner(dataclasses.replace(client, algorithm=checked))
        logits = client.task.logits(learner.now.state, client.own.train.x[:1])
        if logits.shape != (1, client.own.classes):
            raise ModelError(
                f"model {name} puts out {list(logits.shape)} for one sample, but the labels need "
                f"[1, {client.own.classes}]: one number for each class"
            )
        learner.local()
        if message := learner.offer():
            itself = Heard(client.slot, message)
            learner.wake([itself, itself])
            learner.wake([itself])
            learner.receive(itself)
    except CoterieError:
        raise
    except Exception as error:
        raise ModelError(
            f"model {name} cannot be trained by {method} on samples of shape "
            f"{list(client.own.train.x.shape[1:])}: {told(error)}"
        ) from error


def _channels_last(x: Tensor) -> Tensor:
    """The same; images with their channels last in memory, as processors convolve and pool them best."""
    if x.dim() != 4:
        return x
    return x.movedim(1, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 1)


def _accuracy(task: Task, state: State, samples: Samples) -> float | None:
    if not len(samples.y):
        return None
    with torch.no_grad():
        hits = task.logits(state, samples.x).argmax(dim=-1) == samples.y
    return float(hits.double().mean())
