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

from coterie.core.algorithm import receive, wake
from coterie.core.errors import CoterieError, ModelError
from coterie.core.types import Batch, Inbox, Message, Probe, State
from coterie.engine.stack import Group, Stack, gather

__all__ = ["trial"]

T = TypeVar("T")


def trial(stack: Stack, group: Group) -> None:
    """Try a method on its first two clients; a ModelError names the layer that cannot be run."""
    task, feed, two = stack.task, stack.feed, slice(group.clients.start, group.clients.start + 2)
    classes = len(group.members[0].federation.classes)
    t = torch.zeros(1, dtype=torch.int64, device=stack.device)
    x, y = feed.samples(feed.train, feed.draws(t, two, stack.experiment.train.batch)[0])
    ones = torch.ones(2, dtype=stack.dtype, device=stack.device)
    batch = Batch(x, y, 0 * ones, feed.keys(t, two)[0])
    probe = Probe(x, y, torch.ones_like(y, dtype=torch.bool), y.shape[1] * ones)
    hyper = {k: v[:2] for k, v in group.hyper.items()}
    start = stack.start([task.start(0)], 2, 2)

    def attempt(do: Callable[..., Any], *args: Any) -> Any:
        return _named(stack, group, lambda: vmap(lambda h, *a: do(group.method(h), *a))(hyper, *args))

    state: State = attempt(lambda method, s: method.init(task, s), start)
    one = gather(state, torch.tensor(0))  # alone first: messages about shapes are plainer
    logits: Any = _named(stack, group, lambda: task.logits(one, x[0]))
    shape, wanted = (
        tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__,
        (len(x[0]), classes),
    )
    if shape != wanted:
        raise ModelError(
            f"model {type(task.model).__name__} puts out {shape} for {wanted[0]} samples, but the labels "
            f"need {wanted}: one number for each of {classes} classes"
        )
    attempt(lambda _, s, inputs: task.logits(s, inputs), state, x)
    state, _ = attempt(lambda method, s, b: method.local(task, s, b), state, batch)
    offers: Message = attempt(lambda method, s: method.offer(task, s), state)
    if offers:
        heard = torch.ones(2, 1, dtype=torch.bool, device=stack.device)
        other = torch.tensor([[1], [0]], device=stack.device)
        inbox = Inbox({k: m[:, None] for k, m in offers.items()}, heard, other, t.expand(2))
        for act in (wake, receive):
            attempt(lambda method, *a, act=act: act(method, task, *a), state, inbox, probe)


def _named(stack: Stack, group: Group, call: Callable[[], T]) -> T:
    """The call's result, or an error that names the layer in which it failed."""
    model, method = type(stack.task.model).__name__, type(group.algorithm).__name__
    inside = [f"method {method} with model {model}"]

    def enter(name: str, _module: nn.Module, _args: Any) -> None:
        inside.append(name)

    def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
        inside.pop()

    hooks = []
    for evaluated in stack.task.evaluated:
        for name, module in evaluated.named_modules():
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
