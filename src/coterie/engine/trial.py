"""What cannot be run, found before the start: one step and one exchange of two clients.

A model is any `nn.Module`, so whether it can be batched over clients is not known until it is tried. So are
methods, attacks and channels: they may be anybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.algorithm import Algorithm, heard_only
from coterie.core.attack import Attack
from coterie.core.contract import Checked, same_tensors
from coterie.core.errors import CoterieError, ModelError
from coterie.core.registry import own_code, told
from coterie.core.task import Task
from coterie.core.types import Batch, Inbox, Message, Probe, State, Tensors
from coterie.engine.pace import try_pace
from coterie.engine.stack import Group, Stack, gather
from coterie.schedule import Schedule

__all__ = ["trial"]

T = TypeVar("T")


def trial(stack: Stack, group: Group) -> None:
    """Try a method, its attack and its channels on its first two clients; an error names what is wrong."""
    _try_clients(stack, group)
    for member in {repr(m.algorithm): m for m in group.members}.values():
        for t in (1, member.schedule.last):
            try_pace(member, t)
    for schedule in {id(m.schedule): m.schedule for m in group.members}.values():
        _try_links(schedule)


def _try_clients(stack: Stack, group: Group) -> None:
    task, feed, two = stack.task, stack.feed, slice(group.clients.start, group.clients.start + 2)
    world, classes = group.members[0].world, len(group.members[0].federation.classes)
    t = torch.zeros(1, dtype=torch.int64, device=stack.device)
    x, y = feed.samples(feed.train, feed.draws(t, two, stack.experiment.train.batch)[0])
    ones = torch.ones(2, dtype=stack.dtype, device=stack.device)
    key = feed.keys(t, two)[0]
    batch = Batch(x, y, 0 * ones, key)
    mask = torch.ones_like(y, dtype=torch.bool)
    mask[:, 1:] = False  # all but one are padding
    probe = Probe(x, y, mask, ones)
    hyper = {k: v[:2] for k, v in group.hyper.items()}
    start, label = stack.start([task.start(0)], 2, 2), f"methods.{world.label}"

    def attempt(do: Callable[..., Any], *args: Any) -> Any:
        def one(hyper: Tensors, *its: Any) -> Any:
            method = group.method(hyper)
            return do(Checked(method=method, its=label, where=", batched over clients"), *its)

        return _named(stack, group, lambda: vmap(one)(hyper, *args))

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
    state = attempt(lambda method, s, b: method.local(task, s, b)[0], state, batch)
    offers: Message = attempt(lambda method, s: method.offer(task, s), state)
    if not offers:
        return
    for act, senders in ((Checked.mix, 2), (Checked.mix, 1), (Checked.adopt, 1)):
        attempt(lambda method, *a, act=act: act(method, task, *a)[0], state, _inbox(offers, senders), probe)
    if group.attack:
        attempt(partial(_lie, world.experiment.attack.name, group.attack, task), state, offers, probe, key)


def _lie(
    name: str,
    attack: Attack,
    task: Task,
    _: Algorithm,
    state: State,
    honest: Message,
    probe: Probe,
    key: Tensor,
) -> Message:
    with own_code(f"attack: offer of {name!r} failed, batched over clients"):
        given = attack.offer(task, state, honest, probe, key)
    return same_tensors(f"attack: offer of {name!r}", given, honest)


def _inbox(offers: Message, senders: int) -> Inbox:
    """What two clients hear: one message, and padding up to so many."""
    device = next(iter(offers.values())).device
    messages = {k: m[:, None].expand(2, senders, *m.shape[1:]) for k, m in offers.items()}
    heard = (torch.arange(senders, device=device) == 0).expand(2, senders)
    slot = torch.tensor([[1, 0], [0, 0]], device=device)[:, :senders]
    return heard_only(Inbox(messages, heard, slot, torch.zeros(2, dtype=torch.int64, device=device)))


def _try_links(schedule: Schedule) -> None:
    """The links of one star."""
    star = torch.zeros(1, dtype=torch.int64)
    candidate = schedule.graph.candidates(star)
    schedule.links(torch.full(candidate.shape, 0.5, dtype=torch.float64), star, candidate)


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
        raise ModelError(
            f"{inside[-1]} cannot be run batched over clients on samples of this shape and type: "
            f"{told(error)}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
