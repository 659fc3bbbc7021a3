"""Accuracy of every client on its own test samples, on the uniform ones, and on its validation samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.task import Task
from coterie.core.types import State
from coterie.engine.analytic import analytic_model
from coterie.engine.batches import SplitIndex, StackedData
from coterie.engine.layout import AlgorithmGroup, Clients, Stack, take_clients
from coterie.engine.memory_budget import chunk_size

__all__ = ["Predictor", "accuracies", "accuracy", "correct", "predictors", "tested"]


class Predictor(NamedTuple):
    """Some clients of a stack, and how they score samples."""

    clients: slice
    """The clients' part of axis N."""
    state: State
    """`[n, ...]`"""
    predict: Callable[[slice, State, Tensor], Tensor]
    """`(clients of axis N, their states, x [n, width, ...]) -> scores [n, width, L]`"""

    @classmethod
    def plain(cls, task: Task, clients: slice, state: State) -> Predictor:
        """Score by the outputs of the model that is in `params` and `buffers`."""
        return cls(clients, state, lambda _, states, x: _logits(task, states, x))


def predictors(stack: Stack, clients: Clients, t: int) -> list[Predictor]:
    """Part a stack by how its algorithms predict; if all score by the outputs of `params`, not at all."""
    if not any(g.overrides("model") or g.overrides("predict") for g in stack.groups):
        return [Predictor.plain(stack.task, slice(0, stack.size), clients.whole)]
    return [
        Predictor(group.clients, state, partial(_predict, stack, group, t))
        if group.overrides("predict")
        else Predictor.plain(stack.task, group.clients, tested(group, state))
        for group, state in zip(stack.groups, clients.parts, strict=True)
    ]


def accuracies(task: Task, data: StackedData, parts: Sequence[Predictor]) -> dict[str, Tensor]:
    """Measure the accuracy `[N]` of all clients on each kind of samples; NaN where a client has none."""
    kinds = {"personal": data.personal, "global": data.uniform, "validation": data.validation}
    return {
        name: torch.cat([accuracy(task, data, kind, part) for part in parts]) for name, kind in kinds.items()
    }


def accuracy(task: Task, data: StackedData, part: SplitIndex, predictor: Predictor) -> Tensor:
    """Measure the share of a part's samples `[n]` whose label has the largest score."""
    shares = [hits.sum(dim=-1) / mask.sum(dim=-1) for hits, mask in _hits(task, data, part, predictor)]
    size = predictor.clients.stop - predictor.clients.start
    return torch.cat(shares).cpu() if shares else torch.full((size,), torch.nan)


def correct(task: Task, data: StackedData, parts: Sequence[Predictor]) -> Tensor:
    """Find the personal test samples `[S]`, client after client, whose label has the largest score."""
    looks = (look for part in parts for look in _hits(task, data, data.personal, part))
    return torch.cat([torch.zeros(0, dtype=torch.bool), *(hits[mask].cpu() for hits, mask in looks)])


def _hits(
    task: Task, data: StackedData, part: SplitIndex, predictor: Predictor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the samples `[n, width]` that some clients at a time get right, and the mask of real ones."""
    first, last = predictor.clients.start, predictor.clients.stop
    width = int(part.count[predictor.clients].max())
    if not width:
        return
    numbers = _most_numbers(task, data.pool.shape[1:], data.pool.dtype) * width
    step = chunk_size(3 * numbers * data.pool.element_size(), data.pool.device)  # in, out, and one to spare
    for at in range(first, last, step):
        some = slice(at, min(at + step, last))
        positions, mask = part.padded(torch.arange(some.start, some.stop, device=data.pool.device), width)
        x, y = data.samples(part, positions)
        scores = predictor.predict(
            some, take_clients(predictor.state, slice(at - first, some.stop - first)), x
        )
        yield (scores.argmax(dim=-1) == y) & mask, mask


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


@lru_cache(maxsize=8)
def _most_numbers(task: Task, inputs: torch.Size, dtype: torch.dtype) -> int:
    """Count the most numbers that any layer takes in or puts out for one sample."""
    most = [inputs.numel()]
    model = task.modules[1]

    def look(_module: nn.Module, _args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            most.append(output.numel() // 2)

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    try:
        device = next(model.parameters()).device
        with torch.no_grad():
            # Two samples: a normalisation by the batch cannot do with one.
            model(torch.zeros(2, *inputs, dtype=dtype, device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return max(most)


def _logits(task: Task, state: State, x: Tensor) -> Tensor:
    """Compute the outputs of all clients, `[n, width, L]`."""
    if not task.alone and (known := analytic_model(task, x.shape[2:])):
        return known.logits({**state.params, **state.buffers}, x)
    return task.mapped(task.logits)(state, x)
