"""Worlds that fit together, laid end to end on one axis of clients.

Axis N is world after world, client after client, all of one architecture: a world whose clients have several
has a part in as many stacks. Worlds of one algorithm stand beside each other, so that its part of every
tensor is a slice, and a hyper-parameter in which they differ is a vector along it. So a client has several
numbers, each from the start of another slice of axis N:

    stack   its place on axis N: `StackedData`, `Clients.whole`, losses, blocks of clients that step together
    group   from `AlgorithmGroup.clients`: `Clients.parts`, the group's `hyper`, `Deliveries` of an exchange
    range   from `ClientRange.clients`, those that step alike: the range's `state` and `hyper`
    world   from `WorldSlot.clients`, its own name: random streams, slots of rows of W (unless the population
            is large: `RowSlots`), all that is written; `WorldSlot.numbers` has them, since only some of a
            world's clients may be in the stack
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Algorithm
from coterie.core.attack import Attack
from coterie.core.data import Federation
from coterie.core.precision import Precision, received
from coterie.core.sampling import Purpose, first_model, first_proxy, first_row
from coterie.core.support.toml import flat
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Start, State, Tensors
from coterie.engine.batches import StackedData
from coterie.engine.memory_budget import Need, device_memory, split_to_fit, world_need
from coterie.engine.row_slots import RowSlots
from coterie.experiment import Experiment, World
from coterie.federation import recorded
from coterie.schedule import Schedule

__all__ = [
    "AlgorithmGroup",
    "Cast",
    "Clients",
    "Stack",
    "WorldSlot",
    "first_client",
    "parts_stacks",
    "stacks",
    "take_clients",
    "write_clients",
]

FirstTensors: TypeAlias = tuple[Tensors, Tensors]
"""Parameters and buffers of one model."""
FirstModel: TypeAlias = Callable[[str, int, int], FirstTensors]
"""`first_model` of a task: parameters and buffers by `train.init`, seed and client."""


class WorldSlot(NamedTuple):
    """One world in its stack."""

    id: int
    """The world's number in the run."""
    world: World
    algorithm: Algorithm
    federation: Federation
    """The data of these clients."""
    schedule: Schedule
    clients: slice
    """The world's part of axis N."""
    meeting_key: str
    """Cache key: worlds of a stack with the same key draw the same meetings."""
    numbers: Tensor
    """`[m]` int64: the clients' numbers in their world: all, or those of the stack's architecture."""
    recorded: Tensor
    """`[M]` bool: the clients of the whole world that are recorded one by one."""

    @property
    def size(self) -> int:
        """m, the clients that are in this stack."""
        return len(self.numbers)

    @property
    def sampled(self) -> bool:
        """True if only a sample of the world's clients is recorded one by one."""
        return not bool(self.recorded.all())


class AlgorithmGroup(NamedTuple):
    """The worlds of one algorithm that differ in numbers only."""

    algorithm: Algorithm
    hyper: Tensors
    """`[n]` each: the float options in which its worlds differ, for every client of the group."""
    members: tuple[WorldSlot, ...]
    clients: slice
    attack: Attack | None
    """The attack on messages, None if there is none."""
    attacker: Tensor
    """`[n]` bool: who attacks, on the host"""
    precision: Precision
    """The precision of all messages."""

    def method(self, hyper: Tensors) -> Algorithm:
        """Make the algorithm of one client."""
        options: dict[str, Any] = hyper  # floats, or tensors that stand for them
        return dataclasses.replace(self.algorithm, **options) if options else self.algorithm

    def vmapped(self, task: Task, call: str) -> Callable[..., Any]:
        """Map a call of the contract over clients: `(hyper, state, ...)`, each with an axis of them."""

        def one(hyper: Tensors, *given: Any) -> Any:
            return getattr(self.method(hyper), call)(task, *given)

        return task.mapped(one)

    def received(self, messages: Message, dtype: torch.dtype) -> Message:
        """Make what arrives of the messages of S senders `[S, ...]`, in numbers of a model's type."""
        if self.precision == "full" or not messages:
            return messages
        return vmap(partial(received, precision=self.precision, dtype=dtype))(messages)

    def overrides(self, call: str) -> bool:
        """Tell whether the algorithm has its own version of a call of the contract."""
        return getattr(type(self.algorithm), call) is not getattr(Algorithm, call)


@dataclass(frozen=True, eq=False)
class Stack:
    """Everything about the worlds of one batched run that does not change."""

    task: Task
    groups: tuple[AlgorithmGroup, ...]
    device: torch.device
    dtype: torch.dtype
    others: tuple[Stack, ...] = ()
    """The stacks of the same worlds' clients of other architectures, which go through time together with this
    one; the same groups of the same worlds, in the same order."""

    @property
    def together(self) -> tuple[Stack, ...]:
        """All stacks of these worlds, this one first."""
        return (self, *self.others)

    @cached_property
    def data(self) -> StackedData:
        """Samples of all clients, brought to the device when they are first needed."""
        federations = [m.federation for m in self.members]
        seeds = [m.world.seed for m in self.members]
        holdouts = [
            m.world.experiment.exchange.holdout if m.algorithm.holds_out else 0.0 for m in self.members
        ]
        probe = self.experiment.exchange.probe
        numbers = torch.cat([m.numbers for m in self.members])
        return StackedData.of(
            federations, seeds, probe, self.device, self.dtype, holdouts=holdouts, numbers=numbers
        )

    def context(self, purpose: Purpose, t: int | Tensor, clients: slice | Tensor) -> Context:
        """Make the context of calls of some clients of axis N; all worlds of a stack share its phases."""
        seed, client = self.data.seed[clients], self.data.client[clients]
        before, then = (rates[clients] for rates in self._rates)
        return self.members[0].schedule.context_of(purpose, t, client, seed, (before, then))

    @cached_property
    def _rates(self) -> tuple[Tensor, Tensor]:
        """The sizes of local steps by all worlds' settings, `[N]`: before the closing phase, and in it."""
        rates = torch.tensor([m.schedule.rates for m in self.members], dtype=torch.float64)
        sizes = torch.tensor([m.size for m in self.members])
        before, then = self.to_device(rates.repeat_interleave(sizes, dim=0)).unbind(1)
        return before, then

    def free_data(self) -> None:
        """Free the data's place on the device for the next stack."""
        for stack in self.together:
            stack.__dict__.pop("data", None)

    @property
    def members(self) -> list[WorldSlot]:
        return [m for g in self.groups for m in g.members]

    @property
    def experiment(self) -> Experiment:
        """The experiment of any of its worlds: they agree in all that concerns the whole stack."""
        return self.groups[0].members[0].world.experiment

    @property
    def iterations(self) -> int:
        return self.experiment.train.iterations

    @property
    def large(self) -> bool:
        """True if a world has more clients than a small population."""
        return any(m.schedule.large for m in self.members)

    @property
    def size(self) -> int:
        """N, the clients of all worlds."""
        return int(self.groups[-1].clients.stop)

    def to_device(self, tensor: Tensor) -> Tensor:
        """Copy a tensor of the host to the device, without waiting for what the device is at."""
        return tensor.to(self.device, non_blocking=True)

    def initial(self) -> Clients:
        """Make every client's state before the first iteration."""
        width = max(m.schedule.slots for m in self.members)
        first = cache(partial(first_model, self.task))  # worlds of one seed begin with the same

        def begun(group: AlgorithmGroup) -> State:
            starts, ctx = self._starts(group, width, first), self.context("init", 0, group.clients)
            state: State = group.vmapped(self.task, "init")(group.hyper, starts, ctx)
            return state

        return Clients.of(self.groups, begun)

    def _starts(self, group: AlgorithmGroup, width: int, first: FirstModel) -> Start:
        """Make what all clients of a group begin with."""
        starts = [self._start(m, width, first) for m in group.members]
        return Start(
            {k: _end_to_end([s.params[k] for s in starts]) for k in starts[0].params},
            {k: _end_to_end([s.buffers[k] for s in starts]) for k in starts[0].buffers},
            _end_to_end([s.row for s in starts]),
            _end_to_end([s.group for s in starts]),
            _proxies([s.proxy for s in starts]),
        )

    def _start(self, member: WorldSlot, width: int, first: FirstModel) -> Start:
        """Make what the clients of one world begin with."""
        how, slots = member.world.experiment.train.init, member.schedule.slots
        clients = member.numbers.tolist() if how == "independent" and member.size else [0]
        models = [first(how, member.world.seed, client) for client in clients]
        proxy = first_proxy(self.task, how, member.world.seed)
        everybody = slots == member.schedule.clients
        own = member.numbers if everybody else torch.zeros_like(member.numbers)
        return self.start(models, proxy, member.federation.group, own, slots, width)

    def start(
        self,
        models: Sequence[FirstTensors],
        proxy: FirstTensors,
        group: Tensor,
        own: Tensor,
        slots: int,
        width: int,
    ) -> Start:
        """Stack θ(0), one model for each of m clients or one for all, and first rows of W `[m, width]`.

        `proxy`: the first model of the proxy, if there is one; `group` `[m]`: the clients' true groups;
        `own` `[m]`: the slots of their rows that are their own, of so many slots.
        """
        m = len(group)

        def stacked(models: Sequence[FirstTensors], part: int) -> Tensors:
            tensors = {k: torch.stack([model[part][k] for model in models]) for k in models[0][part]}
            return {k: self._home(v.expand(m, *v.shape[1:])) for k, v in tensors.items()}

        row = first_row(own, slots, self.dtype)
        rows = torch.nn.functional.pad(row, (0, width - slots))
        proxies = stacked([proxy], 0), stacked([proxy], 1)
        return Start(stacked(models, 0), stacked(models, 1), self._home(rows), self._home(group), proxies)

    def _home(self, tensor: Tensor) -> Tensor:
        dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self.device, dtype).contiguous()


@dataclass(frozen=True, eq=False)
class Clients:
    """The tensors that change while a run goes on; they change in place only.

    But for the memory of an algorithm with a `close` of its own, which may have others in the closing phase.

    Parameters, buffers and optimiser of all algorithms are one tensor each, of which a group's are
    views, so that all clients can step together and each group can mix on its own.
    """

    whole: State
    """`[N, ...]`, without memory and rows"""
    parts: tuple[State, ...]
    """`[n, ...]` of each group, with its algorithm's memory and rows"""
    slots: tuple[RowSlots | None, ...]
    """Whose entries the rows of each group hold; None: number 3 in its world is in slot 3"""

    @classmethod
    def of(cls, groups: Sequence[AlgorithmGroup], begun: Callable[[AlgorithmGroup], State]) -> Clients:
        """Lay out what each group begins with, one after the other, for it may be most of the memory."""
        whole, own = State({}, {}, {}, {}, {}), []
        for group in groups:
            state = begun(group)
            own.append({"memory": _apart(state.memory), "rows": _apart(state.rows)})
            state = state._replace(memory={}, rows={})
            if len(groups) == 1:  # the only one is not copied, but for a tensor under two names
                whole = state._replace(
                    params={k: v.contiguous() for k, v in state.params.items()},
                    buffers=_apart(state.buffers),
                    optim=_apart(state.optim),
                )
            else:
                if not whole.params:
                    whole = State(*(_room(part, groups[-1].clients.stop) for part in state))
                write_clients(whole, group.clients, state)
            del state
        parts = tuple(
            take_clients(whole, g.clients)._replace(**its) for g, its in zip(groups, own, strict=True)
        )
        return cls(whole, parts, tuple(_row_slots(g, part) for g, part in zip(groups, parts, strict=True)))

    def close(self, number: int, closed: Callable[[slice], State], step: int) -> None:
        """Put the memory of the closing phase in place of that of a group, by its number, and write the rest.

        `closed` makes the new states of some clients of the group, `step` of them at a time.
        """
        state, memory = self.parts[number], dict[str, Tensor]()
        n = len(next(iter(state.params.values())))
        for at in range(0, max(1, n), step):
            some = slice(at, min(at + step, n))
            new = closed(some)
            memory = memory or _room(new.memory, n, state.memory)
            write_clients(state._replace(memory=memory), some, new)
        state.memory.clear()
        state.memory.update(memory)

    def tensors(self) -> Tensors:
        """Name everything, for a checkpoint."""
        whole = {f"{part}/{k}": v for part, values in self.whole._asdict().items() for k, v in values.items()}
        own = {
            f"{name}/{i}/{k}": v
            for i, part in enumerate(self.parts)
            for name in ("memory", "rows")
            for k, v in getattr(part, name).items()
        }
        slots = {
            f"slots/{i}/{k}": v
            for i, table in enumerate(self.slots)
            for k, v in (table.tensors() if table else {}).items()
        }
        return {**whole, **own, **slots}


_ALIKE = ("train", "exchange.every", "exchange.probe", "evaluate")
"""Keys, with those below them, in which worlds of a stack agree, besides their model and its shapes ..."""
_FREE = ("train.lr", "train.personalize_lr", "train.init")
"""... but for these."""


def parts_stacks(path: str) -> bool:
    """Tell whether worlds with different values of a key cannot share a stack, whatever their models."""
    return path not in _FREE and f"{path}.".startswith(tuple(f"{key}." for key in _ALIKE))


class Cast(NamedTuple):
    """The architectures of one world, and which client has which."""

    tasks: tuple[Task, ...]
    """One for each architecture that some client has."""
    architecture: Tensor
    """`[M]` int64: the place of each client's among them"""
    rank: int = 0
    """Which of the processes this is, if several share the clients."""
    ranks: int = 1

    def clients(self, place: int, rank: int | None = None) -> Tensor:
        """Number the clients of this process, or of that one, that have one of the architectures, `[m]`.

        Of each architecture they have consecutive clients, as many as the others or one more; who has one
        more of the next goes on where this one ended, so that it is so of all clients, too.
        """
        rank = self.rank if rank is None else rank
        every = self.everybody(place)
        each, more = divmod(len(every), self.ranks)
        begin = sum(len(self.everybody(before)) for before in range(place)) % self.ranks
        luckier = [(r - begin) % self.ranks < more for r in range(self.ranks)]
        first = each * rank + sum(luckier[:rank])
        return every[first : first + each + luckier[rank]]

    def everybody(self, place: int) -> Tensor:
        """Number all clients that have one of the architectures."""
        return (self.architecture == place).nonzero()[:, 0]

    def most(self, place: int) -> int:
        """Count those of one architecture in the process that has most of them."""
        return -(-len(self.everybody(place)) // self.ranks)


def stacks(
    worlds: Sequence[World],
    federations: Sequence[Federation],
    casts: Sequence[Cast],
    device: torch.device,
    dtype: torch.dtype,
    notice: Callable[[str], None] | None = None,
    memory: int | None = None,
) -> list[Stack]:
    """Group worlds into as few stacks as their shapes, phases and memory allow, in their order.

    Of worlds with several architectures there is a stack of the first, with `others`. `memory`: bytes of the
    smallest device, if there are several, so that all processes make the same stacks.
    """
    together: dict[Any, list[int]] = {}
    schedules = _schedules(worlds)
    for i, (world, cast) in enumerate(zip(worlds, casts, strict=True)):
        settings = flat(world.experiment.model_dump(include={key.partition(".")[0] for key in _ALIKE}))
        models = tuple(id(task) for task in cast.tasks)
        key = models, repr({path: value for path, value in settings.items() if parts_stacks(path)})
        together.setdefault(key, []).append(i)
    found = []
    for ids in together.values():
        needs = [
            sum(
                (
                    world_need(
                        worlds[i], federations[i], task, casts[i].most(place), schedules[i].slots, device
                    )
                    for place, task in enumerate(casts[i].tasks)
                ),
                Need(0, 0, 0, 0),
            )
            for i in ids
        ]
        counts = [worlds[i].experiment.data.clients for i in ids]
        parts = split_to_fit(needs, counts, memory or device_memory(device), casts[ids[0]].ranks)
        if len(parts) > 1 and notice:
            notice(f"too little memory for all {len(ids)} worlds at once, so in {len(parts)} parts")
        for part in parts:
            some = [
                _Dealt(i, worlds[i], federations[i], casts[i], schedules[i]) for i in (ids[k] for k in part)
            ]
            lead, *others = (_stack(some, place, device, dtype) for place in range(len(casts[ids[0]].tasks)))
            found.append(dataclasses.replace(lead, others=tuple(others)))
    return found


class _Dealt(NamedTuple):
    """A world with all that it is laid out from."""

    id: int
    world: World
    federation: Federation
    cast: Cast
    schedule: Schedule


def _meeting_key(world: World) -> str:
    e = world.experiment
    return f"{world.seed} {e.data.clients} {e.exchange!r} {e.population!r}"


def _schedules(worlds: Sequence[World]) -> list[Schedule]:
    """Make the schedules of worlds; those that differ in their method only share one."""
    made: dict[str, Schedule] = {}
    found = []
    for world in worlds:
        e = world.experiment
        if (same := f"{_meeting_key(world)} {e.train!r} {e.attack!r}") not in made:
            made[same] = Schedule.of(e, world.seed)
        found.append(made[same])
    return found


def _stack(
    worlds: Sequence[_Dealt],
    place: int,
    device: torch.device,
    dtype: torch.dtype,
) -> Stack:
    """Stack the clients of some worlds that have the architecture of this place."""
    alike: dict[Any, list[tuple[_Dealt, Algorithm]]] = {}
    for dealt in worlds:
        world, algorithm = dealt.world, dealt.world.algorithm
        # Those with the default local step come first: they can take that step together.
        own_step = type(algorithm).local is not Algorithm.local
        options, precision = repr(_options(algorithm, numbers=False)), world.experiment.exchange.precision
        key = (own_step, type(algorithm), options, _attack(world), precision)
        alike.setdefault(key, []).append((dealt, algorithm))
    groups: list[AlgorithmGroup] = []
    at = 0
    for _, items in sorted(alike.items(), key=lambda item: item[0][0]):
        members, first = [], at
        for (i, world, federation, cast, schedule), algorithm in items:
            numbers = cast.clients(place)
            clients = slice(at, at + len(numbers))
            own = federation if len(numbers) == world.experiment.data.clients else federation.of(numbers)
            meeting_key, kept = _meeting_key(world), recorded(world.experiment.data.clients, world.seed)
            members.append(WorldSlot(i, world, algorithm, own, schedule, clients, meeting_key, numbers, kept))
            at = clients.stop
        lead, algorithm = items[0]
        groups.append(
            AlgorithmGroup(
                algorithm,
                _vectors(members, device, dtype),
                tuple(members),
                slice(first, at),
                _attack(lead.world),
                torch.cat([m.world.attackers[m.numbers] for m in members]),
                lead.world.experiment.exchange.precision,
            )
        )
    return Stack(worlds[0].cast.tasks[place], tuple(groups), device, dtype)


def _attack(world: World) -> Attack | None:
    """Build the attack on messages of a world, if there is one."""
    attack = world.experiment.attack.attack
    return None if attack is None or type(attack).offer is Attack.offer else attack


def _options(algorithm: Algorithm, numbers: bool) -> dict[str, Any]:
    values = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(algorithm)}
    return {k: v for k, v in values.items() if isinstance(v, float) is numbers}


def _vectors(members: Sequence[WorldSlot], device: torch.device, dtype: torch.dtype) -> Tensors:
    """Spread the float options that differ between worlds to clients, `[n]` each."""
    sizes = torch.tensor([m.size for m in members])
    vectors = {}
    for name in _options(members[0].algorithm, numbers=True):
        values = [getattr(m.algorithm, name) for m in members]
        if len(set(values)) > 1:
            vectors[name] = torch.tensor(values, dtype=dtype).repeat_interleave(sizes).to(device)
    return vectors


def _end_to_end(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate on the axis of clients; a single one is not copied, for it may be most of the memory."""
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(list(parts))


def _proxies(parts: Sequence[FirstTensors]) -> FirstTensors:
    """Concatenate the parameters and the buffers of proxies on the axis of clients."""
    params, buffers = ({k: _end_to_end([p[i][k] for p in parts]) for k in parts[0][i]} for i in (0, 1))
    return params, buffers


def _row_slots(group: AlgorithmGroup, state: State) -> RowSlots | None:
    """Lay out the slots of a group's rows."""
    slots = [(m.schedule.slots, m.schedule.clients) for m in group.members]
    return RowSlots.of([m.numbers for m in group.members], slots, state)


def _room(tensors: Tensors, clients: int, there: Mapping[str, Tensor] = MappingProxyType({})) -> Tensors:
    """Make room for the tensors of so many clients, where there is none yet."""

    def fits(k: str, v: Tensor) -> bool:
        return k in there and (there[k].shape[1:], there[k].dtype) == (v.shape[1:], v.dtype)

    return {k: there[k] if fits(k, v) else v.new_empty(clients, *v.shape[1:]) for k, v in tensors.items()}


def _apart(tensors: Tensors) -> Tensors:
    """Copy: an algorithm may start with one tensor under two names, or one for all clients."""
    return {k: v.clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}


def first_client(state: State) -> State:
    """Take the first client's tensors, without an axis of clients; zeros if there is nobody."""
    return State(
        *({k: v[0] if len(v) else v.new_zeros(v.shape[1:]) for k, v in part.items()} for part in state)
    )


def take_clients(state: State, index: Tensor | slice | int | None) -> State:
    """Index the axis of clients: a slice gives views, an int drops the axis, None adds one."""
    if isinstance(index, Tensor) and index.dim() == 1:
        return State(*({k: v.index_select(0, index) for k, v in part.items()} for part in state))
    return State(*({k: v[index] for k, v in part.items()} for part in state))


def write_clients(state: State, index: Tensor | slice, new: State) -> None:
    """Write the states of some clients in place: the one way in which `Clients` change."""
    for part, values in zip(state, new, strict=True):
        for k, v in values.items():
            target = part[k]
            if isinstance(index, Tensor):
                target.index_copy_(0, index, v)
            elif target[index].data_ptr() != v.data_ptr():  # else it was changed in place already
                target[index] = v
