"""Metrics of every client on its own test samples, on the uniform ones, and on its validation samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.tasks.measuring import measure_client
from coterie.core.tasks.task import Task
from coterie.core.types import State, Tensors
from coterie.engine.batches import SplitIndex, StackedData
from coterie.engine.layout import AlgorithmGroup, Clients, Stack, first_client, take_clients
from coterie.engine.memory_budget import chunk_size, most_numbers, nbytes

__all__ = ["Predictor", "measure", "measurements", "predictors", "tested", "verdicts"]


class Predictor(NamedTuple):
    """Some clients of a stack, and how they score samples."""

    clients: slice
    """The clients' part of axis N."""
    state: State
    """`[n, ...]`"""
    predict: Callable[[slice, State, Tensor], Tensor]
    """`(clients of axis N, their states, x [n, width, ...]) -> outputs [n, width, L]`"""
    model: State
    """`[n, ...]`: the model that is tested, in `params` and `buffers`."""

    @classmethod
    def plain(cls, task: Task, clients: slice, state: State) -> Predictor:
        """Score by the outputs of the model that is in `params` and `buffers`."""
        return cls(clients, state, lambda _, states, x: _logits(task, states, x), state)


def predictors(stack: Stack, clients: Clients, t: int) -> Iterator[Predictor]:
    """Part a stack by how its algorithms predict; if all score by the outputs of `params`, not at all.

    Where a method names a model of its own, some clients at a time have theirs made.
    """
    if not any(g.overrides("model") or g.overrides("predict") for g in stack.groups):
        yield Predictor.plain(stack.task, slice(0, stack.size), clients.whole)
        return
    for group, whole in zip(stack.groups, clients.parts, strict=True):
        first, size = group.clients.start, group.clients.stop - group.clients.start
        step = chunk_size(sum(map(nbytes, first_client(whole)[:2])), stack.device)
        for at in range(0, max(1, size), step if group.overrides("model") else max(1, size)):
            inside = slice(at, min(at + step, size) if group.overrides("model") else size)
            some, state = slice(first + inside.start, first + inside.stop), take_clients(whole, inside)
            model = tested(group._replace(hyper={k: v[inside] for k, v in group.hyper.items()}), state)
            if group.overrides("predict"):
                yield Predictor(some, state, partial(_predict, stack, group, t), model)
            else:
                yield Predictor.plain(stack.task, some, model)


def measurements(task: Task, data: StackedData, parts: Iterable[Predictor]) -> dict[str, Tensor]:
    """Measure all clients, `[N]` for each column of `metrics.jsonl`; NaN where a client has no samples."""
    splits = {"personal": data.personal, "global": data.uniform, "validation": data.validation}
    found: dict[str, list[Tensor]] = {
        f"{name}.{metric.name}" if number else name: []
        for name in splits
        for number, metric in enumerate(task.kind.metrics)
    }
    for part in parts:
        for name, split in splits.items():
            measured = measure(task, data, split, part)
            for number, metric in enumerate(task.kind.metrics):
                found[f"{name}.{metric.name}" if number else name].append(measured[metric.name])
    return {column: torch.cat(values) for column, values in found.items()}


def measure(task: Task, data: StackedData, split: SplitIndex, predictor: Predictor) -> Tensors:
    """Measure some clients `[n]` on a split, by the names of the metrics."""
    looks = [_measured(task, data, look) for look in _looks(task, data, split, predictor)]
    size = predictor.clients.stop - predictor.clients.start
    return {
        m.name: torch.cat([one[m.name] for one in looks]).cpu() if looks else torch.full((size,), torch.nan)
        for m in task.kind.metrics
    }


def verdicts(task: Task, data: StackedData, parts: Iterable[Predictor]) -> Tensor:
    """Tell which personal test samples `[S]`, client after client, are right.

    Their losses where there is no right and wrong.
    """
    found = []
    for look in (look for part in parts for look in _looks(task, data, data.personal, part)):
        right = task.kind.correct(look.outputs, look.y)
        if right is None:
            right = vmap(task.kind.losses)(look.outputs, vmap(task.kind.targets)(look.x, look.y)).float()
        found.append(right[look.mask].cpu())
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.bool)


class _Look(NamedTuple):
    """Samples of n clients, and what their models put out for them."""

    clients: slice
    """The clients' part of axis N."""
    model: State
    """`[n, ...]`"""
    x: Tensor
    """`[n, width, ...]`"""
    y: Tensor
    """`[n, width, ...]`"""
    mask: Tensor
    """`[n, width]`: false for padding."""
    outputs: Tensor
    """`[n, width, ...]`"""


def _measured(task: Task, data: StackedData, look: _Look) -> Tensors:
    """Measure clients `[n]` at once if their task can, else one after the other on what is not padding."""
    if (at_once := task.kind.measure_all(look.outputs, look.y, look.mask)) is not None:
        return at_once
    found = []
    for i in range(len(look.mask)):
        real, client = look.mask[i], look.clients.start + i
        if not bool(real.any()):
            found.append({m.name: torch.tensor(torch.nan, dtype=data.dtype) for m in task.kind.metrics})
            continue
        first, count = int(data.train.first[client]), int(data.train.count[client])
        trained = data.samples(data.train, torch.arange(first, first + count, device=data.pool.device))
        model, samples = take_clients(look.model, torch.tensor(i)), (look.x[i][real], look.y[i][real])
        found.append(measure_client(task, model, look.outputs[i][real], samples, trained))
    return {k: torch.stack([one[k] for one in found]) for k in found[0]}


def _looks(task: Task, data: StackedData, split: SplitIndex, predictor: Predictor) -> Iterator[_Look]:
    """Look at all samples of a split, some clients at a time."""
    first, last = predictor.clients.start, predictor.clients.stop
    if first == last:
        return
    width = int(split.count[predictor.clients].max())
    if not width:
        return
    numbers = most_numbers(task, data.pool.shape[1:], data.pool.dtype) * width
    step = chunk_size(3 * numbers * data.pool.element_size(), data.pool.device)  # in, out, and one to spare
    for at in range(first, last, step):
        some = slice(at, min(at + step, last))
        inside = slice(at - first, some.stop - first)
        positions, mask = split.padded(torch.arange(some.start, some.stop, device=data.pool.device), width)
        x, y = data.samples(split, positions)
        outputs = predictor.predict(some, take_clients(predictor.state, inside), x)
        yield _Look(some, take_clients(predictor.model, inside), x, y, mask, outputs)


def tested(group: AlgorithmGroup, state: State) -> State:
    """Put the model that an algorithm names in place of parameters and buffers, for a group's clients."""
    params, buffers = vmap(lambda hyper, s: group.method(hyper).model(s))(group.hyper, state)
    return State(params, buffers, {}, {}, {})


def _predict(stack: Stack, group: AlgorithmGroup, t: int, some: slice, state: State, x: Tensor) -> Tensor:
    """Score samples by the algorithm's own `predict`."""
    inside = slice(some.start - group.clients.start, some.stop - group.clients.start)
    hyper = {k: v[inside] for k, v in group.hyper.items()}
    probe = stack.data.probe(torch.arange(some.start, some.stop), t)
    scores: Tensor = group.vmapped(stack.task, "predict")(hyper, state, x, probe)
    return scores


def _logits(task: Task, state: State, x: Tensor) -> Tensor:
    """Compute the outputs of all clients, `[n, width, L]`."""
    return task.mapped(task.logits)(state, x)
