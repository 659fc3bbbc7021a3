"""One client, bare: its method, its model, its data, and its own clock.

A client calls what the simulator calls (`local`, `close`, `settle`, `ask`, `question`, `reply`, `mix`,
`offer`, `adopt`) on the simulator's very types, and draws the batches, probes and keys that its simulated
twin draws: no network, no file, no thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm, guarded_adopt, guarded_mix
from coterie.core.attack import Attack
from coterie.core.data import Federation, Samples, Split
from coterie.core.errors import CoterieError, ModelError
from coterie.core.ingredients.feedback import take_feedback
from coterie.core.models.batching import batched_or_alone
from coterie.core.models.model_factory import acquainted, build_task, with_proxy
from coterie.core.precision import Precision, pack, unpack
from coterie.core.registry import describe_error
from coterie.core.sampling import (
    batch_rows,
    first_model,
    first_proxy,
    first_row,
    held_out,
    probe_rows,
    step_keys,
    training_order,
)
from coterie.core.tasks.measuring import measure_client
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Inbox, Info, Message, Probe, Reachable, Start, State
from coterie.core.validation import ValidatingAlgorithm, refuse_without_classes, validate_outputs
from coterie.experiment import World
from coterie.peer.learning.architectures import Architectures
from coterie.peer.learning.inbox import Act, ReceivedMessage, Sent, Way, inbox_of, ways_of
from coterie.peer.learning.inputs import Inputs
from coterie.peer.transport.base import Version
from coterie.schedule import Schedule
from coterie.storage.weights import initial_weights

__all__ = ["Act", "Client", "ClientData", "LocalClient", "ReceivedMessage", "RecordChange", "Snapshot"]
__all__ += ["dry_run"]

TRIED = 4
"""Samples on which a model is tried before it learns."""
AHEAD = 64
"""Iterations whose batches are drawn in one go."""


@dataclass(frozen=True, eq=False)
class ClientData:
    """Samples of one client."""

    train: Samples
    validation: Samples
    personal: Samples
    uniform: Samples
    inputs: Inputs
    group: int
    """The client's true group; 0 if nobody knows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes, targets or tokens."""
        return self.inputs.classes

    @classmethod
    def of(cls, federation: Federation, client: int, dtype: torch.dtype) -> ClientData:
        """Take the samples of one client of a federation."""

        def samples(split: Split) -> Samples:
            first = int(split.count[:client].sum())
            rows = slice(first, first + int(split.count[client]))
            x = federation.pool[split.index[rows]]
            y = split.label[rows]
            return Samples(*(part.to(dtype if part.is_floating_point() else part.dtype) for part in (x, y)))

        f = federation
        parts = samples(f.train), samples(f.validation), samples(f.personal), samples(f.uniform)
        return cls(*parts, Inputs.of(f), int(f.group[client]))


@dataclass(frozen=True, eq=False)
class Client:
    """Parts of a client that do not change."""

    task: Task
    algorithm: Algorithm
    own: ClientData
    schedule: Schedule
    seed: int
    number: int
    """Key of its random streams."""
    slot: int
    """Own entry of its row of W."""
    batch: int
    probe_size: int | None
    """Samples of a probe; None: all."""
    dtype: torch.dtype
    init: str
    attack: Attack | None
    """The attack made in place of what the method does, for experiments; None: the client is honest."""
    precision: Precision
    """The precision of all messages on the wire."""
    held: int
    """The number of training samples, the last ones, that are set aside: no mini-batch has one of them."""
    architectures: Architectures
    tasks: tuple[Task, ...]
    """Tasks of all architectures; `task` is the own one."""

    @classmethod
    def of(
        cls, world: World, own: ClientData, architectures: Architectures, number: int, slot: int
    ) -> Client:
        """Make a client of a world (one method, one seed, one setting) with these samples."""
        e, held = world.experiment, 0
        refuse_without_classes(world.algorithm, f"method {world.label!r}", e.task_kind, e.task.name)
        if world.algorithm.holds_out:
            count = torch.tensor([len(own.train.y)])
            (order,) = training_order(world.seed, torch.tensor([number]), count)
            own = dataclasses.replace(own, train=Samples(own.train.x[order], own.train.y[order]))
            held = int(held_out(count, e.exchange.holdout))
        dtype = getattr(torch, e.dtype)
        inputs, names, init = tuple(own.train.x.shape[1:]), own.names, e.train.init
        how, proxy = (e.task_kind, dtype, e.train.optimizer, init), world.algorithm.proxy
        few = own.train.x[:TRIED], own.train.y[:TRIED]
        begin = partial(build_task, weights=initial_weights(init, e.home), freeze=e.train.freeze, samples=few)
        built = [begin(one.name, one.options, inputs, names, *how) for one in architectures.models]
        where = f"method {world.label!r}: proxy"
        known = (with_proxy(task, proxy, inputs, names, init, where) for task in acquainted(built))
        tasks = tuple(batched_or_alone(task, *few) for task in known)
        return cls(
            task=tasks[architectures.own],
            algorithm=world.algorithm,
            own=own,
            schedule=Schedule.of(e, world.seed),
            seed=world.seed,
            number=number,
            slot=slot,
            batch=e.train.batch,
            probe_size=None if e.exchange.probe == "all" else e.exchange.probe,
            dtype=dtype,
            init=e.train.init,
            attack=e.attack.attack if bool(world.attackers[slot]) else None,
            precision=e.exchange.precision,
            held=held,
            architectures=architectures,
            tasks=tasks,
        )

    def first(self) -> State:
        """Return the state before the first iteration."""
        params, buffers = first_model(self.task, self.init, self.seed, self.number)
        row = first_row(self.slot, self.schedule.clients, self.dtype)
        proxy = first_proxy(self.task, self.init, self.seed)
        start = Start(params, buffers, row, torch.tensor(self.own.group), proxy)
        return self.algorithm.init(self.task, start, self.schedule.context("init", 0, self.number))

    def closed(self, state: State) -> State:
        """Make the state of the closing phase of the last one before it."""
        schedule = self.schedule
        ctx = schedule.context("close", schedule.last + 1, self.number)
        return self.algorithm.close(self.task, state, ctx)

    def ask(self, state: State, t: int, slots: Sequence[int]) -> list[bool]:
        """Choose whom to ask in that state at iteration t, by their entries of the row."""
        if not slots:
            return []
        reachable = Reachable(torch.tensor(slots), torch.ones(len(slots), dtype=torch.bool))
        ctx = self.schedule.context("ask", t, self.number)
        chosen: list[bool] = self.algorithm.ask(self.task, state, reachable, ctx).tolist()
        return chosen

    def question(self, state: State, t: int) -> Message:
        """Make what it sends to those whom it asks in that state at iteration t, packed."""
        ctx = self.schedule.context("question", t, self.number)
        return pack(self.algorithm.question(self.task, state, self.draw_probe(t), ctx), self.precision)

    def reply(self, state: State, t: int, question: Message) -> Message:
        """Make the message that answers a question in that state at iteration t, both packed."""
        probe, ctx = self.draw_probe(t), self.schedule.context("offer", t, self.number)
        asked = self.unpacked(question)
        return self._sent(state, t, probe, self.algorithm.reply(self.task, state, asked, probe, ctx))

    def offer(self, state: State, t: int) -> Message:
        """Make the message that it sends to anybody in that state at iteration t, packed."""
        probe, ctx = self.draw_probe(t), self.schedule.context("offer", t, self.number)
        return self._sent(state, t, probe, self.algorithm.offer(self.task, state, probe, ctx))

    def unpacked(self, message: Message) -> Message:
        """Unpack a message that another client sent."""
        return unpack(message, self.precision, self.dtype)

    @cached_property
    def sent(self) -> tuple[Sent, ...]:
        """Make what clients of each architecture send first, by code of this peer's own."""
        return tuple(dataclasses.replace(self, task=task)._first_sent() for task in self.tasks)

    def way(self, act: Act, architecture: int) -> Way:
        """Tell how a message of that architecture is heard, in a star's turn or a neighbour's."""
        return "own" if architecture == self.architectures.own else self._ways[act][architecture]

    def inbox(self, act: Act, heard: Sequence[ReceivedMessage]) -> Inbox:
        """Put messages, unpacked, among the own or those of their architecture."""
        ways = [self.way(act, h.architecture) for h in heard]
        own = next((h.message for h, way in zip(heard, ways, strict=True) if way == "own"), None)
        if own is None:
            sent = self.sent[self.architectures.own]
            own = self.unpacked(sent.reply if act == "mix" else sent.offer)
        return inbox_of(heard, ways, own, len(self.task.foreign) if self.algorithm.crosses else 0)

    def feedback(
        self, state: State, t: int, heard: Sequence[ReceivedMessage], info: Info
    ) -> tuple[Info, list[Message | None]]:
        """Part what a mix in that state at iteration t reports from what goes back to each, packed.

        None: nothing goes back.
        """
        info, found = take_feedback(info)
        back: list[Message | None] = []
        for k, sender in enumerate(heard):
            way = self.way("mix", sender.architecture)
            if way is None or way not in found or not info["heard"][k]:
                back.append(None)
                continue
            honest = {name: m[k] for name, m in found[way].items()}
            other = None if way == "own" else self.task.foreign[way]
            back.append(self._sent(state, t, self.draw_probe(t), honest, other))
        return info, back

    @cached_property
    def _ways(self) -> Mapping[Act, Sequence[Way]]:
        known = self.sent, self.tasks, self.architectures.own, self.algorithm.crosses
        mix = ways_of("mix", *known)
        if self.algorithm.feeds_back:  # whoever can use a message can send one back
            return {"mix": mix, "adopt": [None if way is None else "own" for way in mix]}
        return {"mix": mix, "adopt": ways_of("adopt", *known)}

    def _first_sent(self) -> Sent:
        state = self.first()
        offer = self.offer(state, 0)
        if not self.algorithm.answers:
            return Sent(offer, {}, offer)
        question = self.question(state, 0)
        return Sent(offer, question, self.reply(state, 0, question))

    def _sent(
        self, state: State, t: int, probe: Probe, honest: Message, other: Task | None = None
    ) -> Message:
        """Pack the message that is sent in place of an honest one; that one, unless the client attacks.

        `other`: the task of another architecture whose model the message is.
        """
        if self.attack is None:
            return pack(honest, self.precision)
        its = honest, probe, self.schedule.context("attack", t, self.number)
        lie = self.attack.feedback(other, *its) if other else self.attack.offer(self.task, state, *its)
        return pack(lie, self.precision)

    def lr(self, t: int) -> float:
        """Compute the size of the local step at iteration t."""
        return self.schedule.lr(t, self.algorithm)

    def draw_probe(self, t: int) -> Probe:
        """Draw the own samples on which it probes others' models at iteration t."""
        x, y = self.own.train.x, self.own.train.y
        size, rows = torch.tensor(len(y), dtype=self.dtype), torch.arange(len(y))
        if self.probe_size is not None:
            rows = probe_rows(self.seed, t, self.number, len(y), self.probe_size)
            x, y = x[rows], y[rows]
        held = rows >= len(self.own.train.y) - self.held
        return Probe(_channels_last(x), y, torch.ones_like(held), size, held)

    def measure(self, state: State, t: int) -> dict[str, float | None]:
        """Compute the metrics on each kind of samples, as the simulator names them; None: it has none."""
        own, probe, found = self.own, self.draw_probe(t), {}
        parts = {"personal": own.personal, "global": own.uniform, "validation": own.validation}
        predict = partial(self.algorithm.predict, self.task, state, probe=probe)
        params, buffers = self.algorithm.model(state)
        model = state._replace(params=params, buffers=buffers)
        for name, part in parts.items():
            measured = _measured(self.task, model, predict, part, own.train)
            for number, metric in enumerate(self.task.kind.metrics):
                found[f"{name}.{metric.name}" if number else name] = measured.get(metric.name)
        return found


class Snapshot(NamedTuple):
    """A moment of a client: states are values, so this is a reference and never changes."""

    version: Version
    t: int
    state: State


RecordChange: TypeAlias = Callable[[Snapshot, Info], None]
"""Told of a change before it is made: if it raises, nothing has changed."""


def _unrecorded(_after: Snapshot, _info: Info) -> None:
    """Keep no record."""


class LocalClient:
    """A client on its way: the one place where its state changes."""

    def __init__(self, client: Client, incarnation: int = 1, at: Snapshot | None = None) -> None:
        """Begin, or go on from a snapshot in a new incarnation."""
        self.client = client
        start = at or Snapshot(Version(incarnation, 0), 0, client.first())
        self.now = start._replace(version=Version(incarnation, start.version.event))
        self.feedback: list[Message | None] = []
        """What goes back to each of those heard in the last mix, packed; empty: nothing."""
        self._drawn: tuple[int, Tensor, Tensor] | None = None

    def local(self) -> float:
        """Do one iteration of the own clock with a local step; return its loss."""
        c, (t, state) = self.client, self._next()
        rows, key = self._draws(t)
        batch = Batch(
            _channels_last(c.own.train.x[rows]),
            c.own.train.y[rows],
            torch.tensor(c.lr(t), dtype=torch.float64).to(c.dtype),
            key,
        )
        new, info = c.algorithm.local(c.task, state, batch, c.schedule.context("local", t, c.number))
        if c.schedule.closing(t):
            new = c.algorithm.settle(c.task, new, c.schedule.context("settle", t, c.number))
        self._commit(new if c.attack is None or c.attack.trains else state, t, info)
        return float(info["loss"])

    def idle(self) -> None:
        """Do one iteration of the own clock without a local step."""
        t, state = self._next()
        self.now = self.now._replace(t=t, state=state)

    def offer(self) -> Message:
        """Return the message that it sends to anybody."""
        return self.client.offer(self.now.state, self.now.t)

    def question(self) -> Message:
        """Return what it sends to those whom it asks."""
        return self.client.question(self.now.state, self.now.t)

    def reply(self, question: Message) -> Message:
        """Return the message that answers a question."""
        return self.client.reply(self.now.state, self.now.t, question)

    def ask(self, slots: Sequence[int]) -> list[bool]:
        """Choose whom to ask, by their entries of the row."""
        return self.client.ask(self.now.state, self.now.t, slots)

    def mix(self, heard: Sequence[ReceivedMessage], record: RecordChange = _unrecorded) -> Info:
        """Mix as a star, once the replies are in."""
        return self._exchange("mix", heard, record)

    def adopt(self, heard: ReceivedMessage, record: RecordChange = _unrecorded) -> Info:
        """Adopt as a neighbour, on the star's broadcast."""
        return self._exchange("adopt", [heard], record)

    def raise_incarnation(self, incarnation: int) -> None:
        """Go on with the same model in a higher incarnation."""
        self.now = self.now._replace(version=Version(incarnation, self.now.version.event))

    def reset_slot(self, slot: int, record: RecordChange = _unrecorded) -> None:
        """Set an entry of the row to what it was at the start: it will belong to another peer."""
        state, fresh = self.now.state, self.client.first().rows
        rows = {k: v.index_copy(0, torch.tensor([slot]), fresh[k][slot, None]) for k, v in state.rows.items()}
        self._commit(state._replace(rows=rows), self.now.t, {}, record)

    def _next(self) -> tuple[int, State]:
        """Name the next iteration, and the state that it begins with."""
        c, (_, t, state) = self.client, self.now
        return t + 1, c.closed(state) if c.schedule.closes(t + 1) else state

    def _exchange(self, act: Act, heard: Sequence[ReceivedMessage], record: RecordChange) -> Info:
        c, (_, t, state) = self.client, self.now
        inbox = c.inbox(act, [h._replace(message=c.unpacked(h.message)) for h in heard])
        guarded = guarded_mix if act == "mix" else guarded_adopt
        ctx = c.schedule.context(act, t, c.number)
        new, info = guarded(c.algorithm, c.task, state, inbox, c.draw_probe(t), ctx)
        if act == "mix" and c.algorithm.feeds_back:
            info, self.feedback = c.feedback(state, t, heard, info)
        self._commit(new, t, info, record)
        return info

    def _commit(self, state: State, t: int, info: Info, record: RecordChange = _unrecorded) -> None:
        incarnation, event = self.now.version
        after = Snapshot(Version(incarnation, event + 1), t, state)
        record(after, info)
        self.now = after

    def _draws(self, t: int) -> tuple[Tensor, Tensor]:
        if self._drawn is None or not 0 <= t - self._drawn[0] < AHEAD:
            c, ts = self.client, torch.arange(t, t + AHEAD)
            rows = batch_rows(c.seed, ts, c.number, len(c.own.train.y) - c.held, c.batch)
            self._drawn = t, rows, step_keys(c.seed, ts, c.number)
        first, rows, keys = self._drawn
        return rows[t - first], keys[t - first]


def dry_run(client: Client) -> None:
    """Try one step and one exchange with itself, so that what cannot be run is told before the start."""
    name, method = type(client.task.model).__name__, type(client.algorithm).__name__
    checked = ValidatingAlgorithm(inner=client.algorithm, its=f"method {method}")
    try:
        local_client = LocalClient(dataclasses.replace(client, algorithm=checked))
        x, y, first = client.own.train.x[:2], client.own.train.y[:2], local_client.now.state
        validate_outputs(client.task, first, client.task.logits(first, x), x, y, client.own.names)
        client.algorithm.predict(
            client.task, local_client.now.state, client.own.train.x[:1], client.draw_probe(0)
        )
        local_client.local()
        closed = dataclasses.replace(client, algorithm=checked).closed(local_client.now.state)
        settled = checked.settle(client.task, closed, client.schedule.context("settle", 1, client.number))
        client.algorithm.predict(client.task, settled, client.own.train.x[:1], client.draw_probe(0))
        offer, own = local_client.offer(), client.architectures.own
        others = [b for b in range(len(client.tasks)) if b != own]
        if reply := local_client.reply(local_client.question()) if checked.answers else offer:
            itself = ReceivedMessage(client.slot, reply, own)
            foreign = [
                ReceivedMessage(client.slot, client.sent[b].reply, b)
                for b in others
                if client.way("mix", b) is not None
            ]
            local_client.ask([client.slot])
            local_client.mix([itself, itself])
            for heard in ([itself], [itself, *foreign], foreign):
                local_client.mix(heard)
        if offer:
            local_client.adopt(ReceivedMessage(client.slot, offer, own))
        for b in others:
            if client.sent[b].offer and client.way("adopt", b) is not None and not checked.feeds_back:
                local_client.adopt(ReceivedMessage(client.slot, client.sent[b].offer, b))
    except CoterieError:
        raise
    except Exception as error:
        raise ModelError(
            f"model {name} cannot be trained by {method} on samples of shape "
            f"{list(client.own.train.x.shape[1:])}: {describe_error(error)}"
        ) from error


def _channels_last(x: Tensor) -> Tensor:
    """Copy images with their channels last in memory, as processors convolve and pool them best."""
    if x.dim() != 4:
        return x
    return x.movedim(1, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 1)


def _measured(
    task: Task, model: State, predict: Callable[[Tensor], Tensor], samples: Samples, trained: Samples
) -> dict[str, float]:
    if not len(samples.y):
        return {}
    with torch.no_grad():
        pairs = (samples.x, samples.y), (trained.x, trained.y)
        found = measure_client(task, model, predict(samples.x), *pairs)
    return {name: float(value) for name, value in found.items()}
