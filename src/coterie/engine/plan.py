"""Everything before the first iteration: data, models, a dry run of each algorithm, the stacks."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from coterie.core.data import Federation, Split
from coterie.core.errors import ConfigError
from coterie.core.graph import SMALL
from coterie.core.models.batching import batched_or_alone
from coterie.core.models.model_factory import acquainted, build_task, with_proxy
from coterie.core.tasks.task import Alone, Task
from coterie.engine.analytic import analytic_model, by_hand
from coterie.engine.dry_run import dry_run
from coterie.engine.execution import AnalyticExecution, Execution, OneByOneExecution, VmapExecution
from coterie.engine.layout import AlgorithmGroup, Cast, Stack, stacks
from coterie.engine.memory_budget import check_clients_fit
from coterie.engine.ranks import ALONE, Ranks
from coterie.engine.sinks import Progress
from coterie.experiment import Experiment, World
from coterie.federation import Dealer, architectures
from coterie.storage.weights import ENDING, initial_weights

__all__ = ["Plan", "choose_execution", "prepare", "tf32"]

_LESS = "use a smaller one"
SHARED = 100
"""Clients that hold a sample on average from which this is said."""
WORTH_COMPILING = 2e10
"""Parameters x local steps x clients from which compiling wins more time than it takes."""


class Plan(NamedTuple):
    """An experiment that is ready to go."""

    experiment: Experiment
    worlds: list[World]
    federations: list[Federation]
    """The clients of each world; worlds of one seed and setting share one."""
    stacks: list[Stack]
    """One after the other; of worlds with several architectures the first, with `others`."""

    def data_hash(self) -> str:
        """Hash all samples, as the clients have and name them, and the owners if models are dealt by them."""
        digest = hashlib.sha256()
        for pool in {id(f.pool): f.pool for f in self.federations}.values():
            digest.update(pool.contiguous().numpy().data)
        for world, federation in zip(self.worlds, self.federations, strict=True):
            if world.experiment.deals_by_owner:
                digest.update(repr(federation.owners).encode())
            for split in (federation.train, federation.validation, federation.personal, federation.uniform):
                for part in (split.index, split.label, split.count):
                    digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def notices(self) -> list[str]:
        """List what is set but never happens, or given but not used, one sentence each."""
        parts = [one for stack in self.stacks for one in stack.together]
        found = [text for stack in parts if (text := stack.task.notice)]
        found += [stack.task.unfit for stack in parts if stack.task.unfit]
        found += [_alone(stack.task.alone, stack) for stack in parts if stack.task.alone]
        members = [m for stack in self.stacks for m in stack.members]
        for member in members:
            schedule, train = member.schedule, member.schedule.train
            closing = f", the last {train.personalize:.0%} of them local only" if train.personalize else ""
            rest = f"train.iterations = {train.iterations}{closing}; use a smaller one"
            if schedule.phase(every := schedule.exchange.every) != "exchange":
                found.append(f"there is no exchange at all: exchange.every = {every}, but {rest}")
            elif text := member.algorithm.unused_options(schedule.last):
                found.append(f"methods.{member.world.label} {text}, but {rest}")
            found += _too_many_stars(member.world.experiment)
            if not member.algorithm.pools:
                found += _shared(member.federation)
        most = ((m.world.experiment, max(m.federation.train.count.tolist(), default=0)) for m in members)
        return list(dict.fromkeys([*found, *_too_large(most)]))


def _alone(alone: Alone, stack: Stack) -> str:
    """Say why the clients of a stack compute one at a time, and how long that takes."""
    total = alone.seconds * stack.size * stack.iterations
    return (
        f"{alone.why}, so clients compute one at a time: {1000 * alone.seconds:.1f} ms a local step here, "
        f"some {_duration(total)} for the local steps of all {stack.size} clients"
    )


def _duration(seconds: float) -> str:
    units = ((86400, "days"), (3600, "hours"), (60, "minutes"))
    size, unit = next(((s, u) for s, u in units if seconds >= 2 * s), (1, "seconds"))
    return f"{max(1, round(seconds / size))} {unit}"


def _too_many_stars(experiment: Experiment) -> Iterator[str]:
    stars, clients = experiment.exchange.stars, experiment.data.clients
    if stars > clients:
        yield f"all clients are stars: exchange.stars = {stars}, but data.clients = {clients}; {_LESS}"


def _too_large(most: Iterable[tuple[Experiment, int]]) -> Iterator[str]:
    """Name batches larger than what clients have, once for all seeds, which deal other amounts.

    `most`: of each world, how many training samples the client with the most has.
    """
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for e, samples in most:
        for key, size in (("train.batch", e.train.batch), ("exchange.probe", e.exchange.probe)):
            if size != "all":
                found[key, size].append(samples)
    for (key, size), each in found.items():
        if size > max(each):
            yield f"samples are drawn again: {key} = {size}, but no client has over {max(each)}; {_LESS}"
        elif size > min(each):
            said = f"{key} = {size}, but with some seeds no client has over {min(each)}"
            yield f"samples are drawn again: {said}; {_LESS}"


def _shared(federation: Federation) -> Iterator[str]:
    """Say so where very many clients share each sample."""
    index = federation.train.index
    if len(index) < SHARED:  # quick, since it is asked of each world
        return
    samples = int((index.bincount() > 0).sum())
    if len(index) >= SHARED * samples:
        yield (
            f"each of the {samples:,} training samples is held by {len(index) // samples:,} of the "
            f"{len(federation.train.count):,} clients on average (data.overlap = true): what comes out is "
            "how methods do in a large network, not on a large population"
        )


def prepare(
    experiment: Experiment,
    root: Path | None = None,
    progress: Progress | None = None,
    *,
    worlds: Sequence[World] | None = None,
    tested: bool = True,
    ranks: Ranks = ALONE,
) -> Plan:
    """Load the data, deal them, build the models and try each method on them.

    `worlds`: others than those of the experiment. Without `tested`, clients have no test samples. `ranks`:
    the processes that share each world's clients.
    """
    device, dtype = _device(ranks.device(experiment.device)), getattr(torch, experiment.dtype)
    if progress:
        most = max(w.experiment.data.clients for w in worlds or experiment.worlds())
        progress.stage("dealing the data" + (f" to {most:,} clients" if most > SMALL else ""))
    worlds = list(experiment.worlds() if worlds is None else worlds)
    check_clients_fit(worlds)
    dealer = Dealer(root)
    federations = [dealer.of(w) for w in worlds]
    if not tested:
        federations = _without_tests(federations)
    if progress:
        progress.stage("trying the model")
    casts = [_dealt(cast, ranks) for cast in _casts(worlds, federations, dtype)]
    notice, memory = progress.notice if progress else None, ranks.memory(device)
    found = stacks(worlds, federations, casts, device, dtype, notice, memory)
    for stack in found:
        for place, one in enumerate(stack.together):
            for group in one.groups:
                if ranks.rank == _first_with_some(group, place, casts):  # what fails for one fails for all
                    dry_run(one, group)
        if len(found) > 1:
            stack.free_data()
    plan = Plan(experiment, worlds, federations, found)
    if progress:
        for text in plan.notices():
            progress.notice(text)
    return plan


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Let GPUs multiply float32 in TF32, or not, as long as this lasts; plans are made and run inside."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = allowed
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def _without_tests(federations: Sequence[Federation]) -> list[Federation]:
    """Take the test samples away; clients of one federation stay one object."""
    blind = {}
    for f in federations:
        nothing = Split(f.train.index[:0], f.train.label[:0], torch.zeros_like(f.train.count))
        blind[id(f)] = dataclasses.replace(f, personal=nothing, uniform=nothing)
    return [blind[id(f)] for f in federations]


def _casts(worlds: Sequence[World], federations: Sequence[Federation], dtype: torch.dtype) -> list[Cast]:
    """Make the tasks of all worlds; those with the same models, optimiser and shapes share theirs."""
    tasks: dict[str, Task] = {}
    together: dict[tuple[object, ...], tuple[Task, ...]] = {}
    found = []
    for world, federation in zip(worlds, federations, strict=True):
        e = world.experiment
        inputs, names, init = tuple(federation.pool.shape[1:]), federation.classes, e.train.init
        how, proxy = (e.task_kind, dtype, e.train.optimizer, init), world.algorithm.proxy
        train, batch = federation.train, min(e.train.batch, len(federation.train.index))
        x, y = federation.pool[train.index[:batch]], train.label[:batch]
        begins = init if init.endswith(ENDING) else init == "given"
        shared = f"{e.task!r} {e.train.optimizer!r} {inputs} {len(names)} {e.train.freeze} {begins}"
        every = []
        for model in e.architectures:
            if (key := f"{model!r} {shared}") not in tasks:
                tasks[key] = build_task(
                    model.name,
                    model.options,
                    inputs,
                    names,
                    *how,
                    weights=initial_weights(init, e.home),
                    freeze=e.train.freeze,
                    samples=(x, y),
                    by_hand=partial(analytic_model, inputs=inputs),
                )
            every.append(tasks[key])
        cast = _cast(every, architectures(world, federation))
        group = *(id(task) for task in cast.tasks), repr(proxy)
        if group not in together:
            where = f"methods.{world.label}.proxy"
            known = (with_proxy(t, proxy, inputs, names, init, where) for t in acquainted(cast.tasks))
            together[group] = tuple(_ready(task, inputs, x, y) for task in known)
        found.append(cast._replace(tasks=together[group]))
    return found


def _ready(task: Task, inputs: tuple[int, ...], x: Tensor, y: Tensor) -> Task:
    """Let a task compute as fast as it can; whether it can be batched is tried where a layer is not known."""
    made = by_hand(task, inputs)
    if all(one.backend for one in (made, *made.foreign, *([made.proxy] if made.proxy else []))):
        return made
    return by_hand(batched_or_alone(task, x, y), inputs)


def _cast(tasks: Sequence[Task], dealt: Tensor) -> Cast:
    """Leave out what nobody has; two entries with the same model are one architecture."""
    had = list(dict.fromkeys(id(tasks[place]) for place in np.unique(dealt.numpy()).tolist()))
    numbers = torch.tensor([had.index(id(task)) if id(task) in had else -1 for task in tasks])
    by_id = {id(task): task for task in tasks}
    return Cast(tuple(by_id[i] for i in had), numbers[dealt])


def _dealt(cast: Cast, ranks: Ranks) -> Cast:
    """Give this process its share of a world's clients, which may have none of an architecture."""
    if (clients := len(cast.architecture)) < ranks.count:
        raise ConfigError(
            f"{clients} client{'s'[: clients != 1]} cannot be dealt to {ranks.count} devices, each of which "
            f"needs one; use --devices {clients}, or a larger data.clients"
        )
    return cast._replace(rank=ranks.rank, ranks=ranks.count)


def _first_with_some(group: AlgorithmGroup, place: int, casts: Sequence[Cast]) -> int:
    """Find the first process that has clients of a group, of the architecture of this place."""
    own = [casts[member.id] for member in group.members]
    return next(r for r in range(own[0].ranks) if any(len(cast.clients(place, r)) for cast in own))


def choose_execution(stack: Stack, progress: Progress | None) -> Execution:
    """Choose: by hand where all layers are known, else stacked; compiled if that is asked for, or pays."""
    if stack.task.alone:
        return OneByOneExecution(stack.task)
    experiment, known = (
        stack.experiment,
        analytic_model(stack.task, stack.members[0].federation.pool.shape[1:]),
    )
    parameters = sum(p.numel() for p in stack.task.model.parameters())
    work = float(parameters) * stack.size * experiment.train.iterations
    pays = work > WORTH_COMPILING and not (known and known.convolves and stack.device.type == "cpu")
    # What meets functions on their way (`KeyedFunctions`) is not compiled.
    wanted = experiment.compile == "on" or (experiment.compile == "auto" and pays)
    compiled = wanted and not stack.task.draws
    if compiled and stack.device.type == "cpu" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        if progress:
            slower = "somewhat" if known else "some three times"
            progress.notice(f"no C++ compiler found, so local steps run uncompiled, {slower} slower")
        compiled = False
    if compiled:
        torch.compiler.reset()  # what an earlier stack compiled would count against this one
        if progress:
            progress.stage("compiling the local step")
    return AnalyticExecution(stack.task, known, compiled) if known else VmapExecution(stack.task, compiled)


def _device(name: str) -> torch.device:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"device {name!r} is not available here: expected cpu, cuda or cuda:1 and so on")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} is not available here: {reason}; use device = 'cpu'") from None
    return device
