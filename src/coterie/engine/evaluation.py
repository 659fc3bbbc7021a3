"""Every client's accuracy on its own test samples, on the uniform ones, and on its validation samples."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.task import Task
from coterie.core.types import State
from coterie.engine.analytic import analytic_model
from coterie.engine.feed import Feed, Part
from coterie.engine.memory import at_once
from coterie.engine.stack import gather

__all__ = ["accuracies", "accuracy"]


def accuracies(task: Task, feed: Feed, state: State) -> dict[str, Tensor]:
    """Accuracy `[N]` of all clients on each kind of samples; NaN where a client has none."""
    return {
        "personal": accuracy(task, feed, feed.personal, state),
        "global": accuracy(task, feed, feed.uniform, state),
        "validation": accuracy(task, feed, feed.validation, state),
    }


def accuracy(task: Task, feed: Feed, part: Part, state: State) -> Tensor:
    """The share of a part's samples `[N]` whose label has the largest output."""
    n, width = len(part.count), int(part.count.max())
    if not width:
        return torch.full((n,), torch.nan)
    numbers = _most_numbers(task, feed.pool.shape[1:], feed.pool.dtype) * width
    step = at_once(3 * numbers * feed.pool.element_size(), feed.pool.device)  # in, out, and one to spare
    results = []
    for at in range(0, n, step):
        some = torch.arange(at, min(at + step, n), device=feed.pool.device)
        positions, mask = part.padded(some, width)
        x, y = feed.samples(part, positions)
        logits = _logits(task, gather(state, slice(at, at + step)), x)
        hits = (logits.argmax(dim=-1) == y) & mask
        results.append(hits.sum(dim=-1) / mask.sum(dim=-1))
    return torch.cat(results).cpu()


@lru_cache(maxsize=8)
def _most_numbers(task: Task, inputs: torch.Size, dtype: torch.dtype) -> int:
    """The most that any layer takes in or puts out for one sample."""
    most = [inputs.numel()]
    model = task.evaluated[1]

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
