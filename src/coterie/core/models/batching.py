"""Trial of a model on two clients at once: can it be batched, and if not, which layer cannot."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.registry import describe_error
from coterie.core.tasks.task import Alone, Task
from coterie.core.types import Batch, State

__all__ = ["batched_or_alone", "entered"]

TRIES = 3
"""Steps of one client, the quickest of which is told."""


def batched_or_alone(task: Task, x: Tensor, y: Tensor) -> Task:
    """Try a task, and those that run in one call with it: if one of them is to run alone, all are.

    A model that does not run at all is returned as it is: a dry run tells why.
    """
    others = [*task.foreign, *([task.proxy] if task.proxy else [])]
    found = (tried.alone for one in (task, *others) if (tried := _tried(one, x, y)).alone)
    if (alone := next(found, None)) is None:
        return task
    foreign = tuple(dataclasses.replace(one, alone=alone) for one in task.foreign)
    proxy = task.proxy and dataclasses.replace(task.proxy, alone=alone)
    return dataclasses.replace(task, alone=alone, foreign=foreign, proxy=proxy)


def _tried(task: Task, x: Tensor, y: Tensor) -> Task:
    """Try a mini-batch `[B, ...]` with its targets: what runs alone, but not batched, is to run alone."""
    params, buffers = task.given()
    state = State(params, buffers, {}, {}, {})
    floating = next(v.dtype for v in params.values())
    x = x.to(floating) if x.is_floating_point() else x
    y = y.to(floating) if y.is_floating_point() else y
    batch = Batch(x, y, torch.ones((), dtype=floating), torch.tensor(0))
    two = State(*({k: torch.stack([v, v]) for k, v in part.items()} for part in state))
    batched = dataclasses.replace(task, autograd=False)
    with entered(batched) as inside, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operations that torch batches by a loop of its own
        try:
            vmap(batched.gradients)(two, Batch(*(torch.stack([v, v]) for v in batch)))
            vmap(batched.logits)(two, torch.stack([x, x]))
        except Exception as error:  # whatever it is: alone it may do
            where, reason = inside[-1], _reason(error)
        else:
            return task
    try:
        task.logits(state, x)
        seconds = min(_seconds(task, state, batch) for _ in range(TRIES))
    except Exception:
        return task
    return dataclasses.replace(
        task, alone=Alone(f"{where} cannot be batched over clients ({reason})", seconds)
    )


def _reason(error: Exception) -> str:
    """Say in a few words what stands in the way of batching."""
    text = describe_error(error)
    if "data-dependent" in text or ".item()" in text:
        return "what is computed depends on the numbers"
    return text.partition(". ")[0]


def _seconds(task: Task, state: State, batch: Batch) -> float:
    began = time.perf_counter()
    task.gradients(state, batch)
    return time.perf_counter() - began


@contextmanager
def entered(task: Task) -> Iterator[list[str]]:
    """List the layers of a task's model that are being run, the innermost last; the model is the first."""
    inside = [f"model {type(task.model).__name__}"]

    def enter(name: str, _module: nn.Module, _args: Any) -> None:
        inside.append(name)

    def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
        inside.pop()

    hooks = []
    for evaluated in task.modules:
        for name, module in evaluated.named_modules():
            where = f"layer {name!r} ({type(module).__name__})" if name else inside[0]
            hooks.append(module.register_forward_pre_hook(partial(enter, where)))
            hooks.append(module.register_forward_hook(leave))
    try:
        yield inside
    finally:
        for hook in hooks:
            hook.remove()
