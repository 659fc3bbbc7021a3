"""What cannot be run, found before the start: one step and one exchange of two clients.

A model is any `nn.Module`, so whether it can be batched over clients is not known until it is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.algorithm import Algorithm, receive, wake
from coterie.core.errors import CoterieError, ModelError
from coterie.core.task import Task
from coterie.core.types import Batch, Inbox, Probe, Start, State
from coterie.engine.stack import gather

__all__ = ["trial"]

T = TypeVar("T")


def trial(task: Task, algorithm: Algorithm, x: Tensor, y: Tensor, classes: int) -> None:
    """Try a method on two clients with samples x `[n, ...]`, y; a ModelError names the layer."""
    params, buffers = task.start(0)
    cast = {k: v.to(x.dtype) if v.is_floating_point() else v for k, v in {**params, **buffers}.items()}
    two = {k: v.expand(2, *v.shape).clone() for k, v in cast.items()}
    start = Start(
        {k: two[k] for k in params}, {k: two[k] for k in buffers}, torch.full((2, 2), 0.5, dtype=x.dtype)
    )
    xs, ys = x.expand(2, *x.shape), y.expand(2, *y.shape)
    ones = torch.ones(2, dtype=x.dtype)
    batch = Batch(xs, ys, 0 * ones, torch.zeros(2, dtype=torch.int64))
    probe = Probe(xs, ys, torch.ones(2, len(x), dtype=torch.bool), len(x) * ones)

    state: State = _named(task, algorithm, lambda: vmap(partial(algorithm.init, task))(start))
    one = gather(state, torch.tensor(0))  # alone first: messages about shapes are plainer
    logits: Any = _named(task, algorithm, lambda: task.logits(one, x))
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if shape != (len(x), classes):
        raise ModelError(
            f"model {type(task.model).__name__} puts out {shape} for {len(x)} samples, but the labels need "
            f"{(len(x), classes)}: one number for each of {classes} classes"
        )
    _named(task, algorithm, lambda: vmap(task.logits)(state, xs))
    state, _ = _named(task, algorithm, lambda: vmap(partial(algorithm.local, task))(state, batch))
    offers = _named(task, algorithm, lambda: vmap(partial(algorithm.offer, task))(state))
    inbox = Inbox(
        {k: m[:, None] for k, m in offers.items()},
        torch.ones(2, 1, dtype=torch.bool),
        torch.tensor([[1], [0]]),
        torch.zeros(2, dtype=torch.int64),
    )
    if offers:
        for act in (wake, receive):
            _named(task, algorithm, partial(vmap(partial(act, algorithm, task)), state, inbox, probe))


def _named(task: Task, algorithm: Algorithm, call: Callable[[], T]) -> T:
    """The call's result, or an error that names the layer in which it failed."""
    inside = [f"method {type(algorithm).__name__} with model {type(task.model).__name__}"]

    def enter(name: str, _module: nn.Module, _args: Any) -> None:
        inside.append(name)

    def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
        inside.pop()

    hooks = []
    for model in task.evaluated:
        for name, module in model.named_modules():
            where = f"layer {name!r} ({type(module).__name__})" if name else f"model {type(module).__name__}"
            hooks.append(module.register_forward_pre_hook(partial(enter, where)))
            hooks.append(module.register_forward_hook(leave))
    try:
        return call()
    except CoterieError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{inside[-1]} cannot be run batched over clients on samples of this shape and type: {reason}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
