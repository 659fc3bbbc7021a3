"""Accuracy of every client on its own test samples, on the uniform ones, and on its validation samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.task import Task
from coterie.core.types import State
from coterie.engine.analytic import analytic_model
from coterie.engine.feed import Feed, Part
from coterie.engine.memory import at_once
from coterie.engine.stack import Clients, Group, Stack, gather

__all__ = ["Predictor", "accuracies", "accuracy"]


class Predictor(NamedTuple):
    """Some clients of a stack and their outputs."""

    clients: slice
    """Their part of axis N."""
    state: State
    """`[n, ...]`, with the model that is tested as parameters and buffers."""
    predict: Callable[[slice, State, Tensor], Tensor]
    """`(clients, their states, x [n, width, ...]) -> scores [n, width, L]`; clients: of axis N."""


def predictors(stack: Stack, clients: Clients, t: int) -> list[Predictor]:
    """Part a stack by how its algorithms predict; if all use the outputs of params, there is one part."""
    plain = partial(_logits, stack.task)
    if not any(g.overrides("model") or g.overrides("predict") for g in stack.groups):
        return [Predictor(slice(0, stack.size), clients.whole, lambda _, state, x: plain(state, x))]
    found = []
    for group, state in zip(stack.groups, clients.parts, strict=True):
        if group.overrides("predict"):
            found.append(Predictor(group.clients, state, partial(_predict, stack, group, t)))
        else:
            found.append(Predictor(group.clients, _tested(group, state), lambda _, state, x: plain(state, x)))
    return found


def accuracies(stack: Stack, clients: Clients, t: int) -> dict[str, Tensor]:
    """Measure the accuracy `[N]` of all clients on each kind of samples; NaN where a client has none."""
    data, parts = stack.feed, predictors(stack, clients, t)
    kinds = {"personal": data.personal, "global": data.uniform, "validation": data.validation}
    return {
        name: torch.cat([accuracy(stack.task, data, kind, part) for part in parts])
        for name, kind in kinds.items()
    }


def accuracy(task: Task, feed: Feed, part: Part, predictor: Predictor) -> Tensor:
    """Measure the share of a part's samples `[n]` whose label has the largest score."""
    first, last = predictor.clients.start, predictor.clients.stop
    width = int(part.count[predictor.clients].max())
    if not width:
        return torch.full((last - first,), torch.nan)
    numbers = _most_numbers(task, feed.pool.shape[1:], feed.pool.dtype) * width
    step = at_once(3 * numbers * feed.pool.element_size(), feed.pool.device)  # in, out, and one to spare
    results = []
    for at in range(first, last, step):
        some = slice(at, min(at + step, last))
        positions, mask = part.padded(torch.arange(some.start, some.stop, device=feed.pool.device), width)
        x, y = feed.samples(part, positions)
        scores = predictor.predict(some, gather(predictor.state, slice(at - first, some.stop - first)), x)
        hits = (scores.argmax(dim=-1) == y) & mask
        results.append(hits.sum(dim=-1) / mask.sum(dim=-1))
    return torch.cat(results).cpu()


def _tested(group: Group, state: State) -> State:
    """Put the model that an algorithm names in place of parameters and buffers."""
    params, buffers = vmap(lambda hyper, s: group.method(hyper).model(s))(group.hyper, state)
    return State(params, buffers, {}, {}, {})


def _predict(stack: Stack, group: Group, t: int, some: slice, state: State, x: Tensor) -> Tensor:
    """Score samples by the algorithm's own `predict`."""
    inside = slice(some.start - group.clients.start, some.stop - group.clients.start)
    hyper = {k: v[inside] for k, v in group.hyper.items()}
    probe = stack.feed.probe(torch.arange(some.start, some.stop), t)
    scores: Tensor = group.vmapped(stack.task, "predict")(hyper, state, x, probe)
    return scores


@lru_cache(maxsize=8)
def _most_numbers(task: Task, inputs: torch.Size, dtype: torch.dtype) -> int:
    """The most that any layer takes in or puts out for one sample."""
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
    """The outputs of all clients, `[n, width, L]`."""
    if known := analytic_model(task, x.shape[2:]):
        return known.logits({**state.params, **state.buffers}, x)
    return vmap(task.logits)(state, x)
