"""Dry run: one step and one exchange of two clients, to find what cannot be run before the start.

A model is any `nn.Module`, so whether it can be batched over clients is not known until it is tried. So are
algorithms, attacks and channels: they may be anybody's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from coterie.core.algorithm import Algorithm, drop_unsound
from coterie.core.attack import Attack
from coterie.core.errors import CoterieError, ModelError
from coterie.core.ingredients.messages import alike
from coterie.core.models.batching import entered
from coterie.core.registry import describe_error, user_code
from coterie.core.sampling import Purpose, first_proxy
from coterie.core.tasks.task import Task
from coterie.core.types import (
    Batch,
    Context,
    Foreign,
    Inbox,
    Message,
    Probe,
    Reachable,
    Start,
    State,
    Tensors,
)
from coterie.core.validation import (
    ValidatingAlgorithm,
    refuse_without_classes,
    same_tensors,
    validate_outputs,
)
from coterie.engine.analytic import by_autograd
from coterie.engine.layout import AlgorithmGroup, Stack, take_clients
from coterie.schedule import Schedule

__all__ = ["dry_run"]

T = TypeVar("T")


def dry_run(stack: Stack, group: AlgorithmGroup) -> None:
    """Try an algorithm, its attack and its channels on two clients; an error names what is wrong."""
    try:
        _try_clients(stack, group, stack.task)
    except CoterieError:
        _try_clients(stack, group, by_autograd(stack.task))  # torch's own layers can tell which of them it is
        raise
    for member in {repr(m.algorithm): m for m in group.members}.values():
        checked = ValidatingAlgorithm(inner=member.algorithm, its=f"methods.{member.world.label}")
        for t in (1, member.schedule.last):
            checked.lr_scale(t)
    for schedule in {id(m.schedule): m.schedule for m in group.members}.values():
        _try_links(schedule)


def _try_clients(stack: Stack, group: AlgorithmGroup, task: Task) -> None:
    data, first, last = stack.data, group.clients.start, group.clients.stop - 1
    two = torch.tensor([first, min(first + 1, last)], device=stack.device)
    world, names = group.members[0].world, group.members[0].federation.classes
    label = f"methods.{world.label}"
    refuse_without_classes(group.algorithm, label, task.kind, world.experiment.task.name)
    t = torch.zeros(1, dtype=torch.int64, device=stack.device)
    x, y = data.samples(data.train, data.batch_positions(t, two, stack.experiment.train.batch)[0])
    ones = torch.ones(2, dtype=stack.dtype, device=stack.device)
    batch = Batch(x, y, 0 * ones, data.keys(t, two)[0])
    mask = torch.ones(y.shape[:2], dtype=torch.bool, device=stack.device)
    mask[:, 1:] = False  # all but one are padding
    probe = Probe(x, y, mask, ones, mask & group.algorithm.holds_out)
    hyper = {k: v[two - first] for k, v in group.hyper.items()}
    proxy = first_proxy(task, "shared", 0)

    def begins(its: Task) -> Start:
        slots = max(2, 1 + len(task.foreign))
        return stack.start([its.init_params(0)], proxy, torch.zeros_like(two), torch.arange(2), slots, slots)

    where = "" if task.alone else ", batched over clients"

    def attempt(call: Callable[..., Any] | str, *args: Any) -> Any:
        """Call the algorithm by the name of a call, or a function of it, for two clients at once."""

        def one(hyper: Tensors, *its: Any) -> Any:
            inner = group.method(hyper)
            checked = ValidatingAlgorithm(inner=inner, its=label, where=where)
            return getattr(checked, call)(task, *its) if isinstance(call, str) else call(checked, *its)

        return _named(task, group, lambda: task.mapped(one)(hyper, *args))

    def ctx(purpose: Purpose) -> Context:
        return stack.context(purpose, 0, two)

    state: State = attempt("init", begins(task), ctx("init"))
    one = take_clients(state, torch.tensor(0))  # alone first: messages about shapes are plainer
    logits: Any = _named(task, group, lambda: task.logits(one, x[0]))
    validate_outputs(task, one, logits, x[0], y[0], names)
    attempt("predict", state, x, probe)
    state = attempt("local", state, batch, ctx("local"))[0]
    closed = attempt("close", state, ctx("close"))
    attempt("predict", attempt("settle", closed, ctx("settle")), x, probe)
    if group.overrides("close") and group.overrides("local"):
        attempt("local", closed, batch, ctx("local"))
    offers: Message = attempt("offer", state, probe, ctx("offer"))
    replies = offers
    if group.algorithm.answers:
        question = attempt("question", state, probe, ctx("question"))
        replies = attempt("reply", state, question, probe, ctx("offer"))
    if not replies:
        return
    pair = _inbox(replies, 2)
    attempt("ask", state, Reachable(pair.slot, pair.heard), ctx("ask"))
    acts: list[tuple[Purpose, Message, int]] = [
        ("mix", replies, 2),
        ("mix", replies, 1),
        ("adopt", offers, 1),
    ]
    for act, messages, senders in acts:
        if messages:
            attempt(act, state, _inbox(messages, senders), probe, ctx(act))
    theirs = []
    for other in task.foreign if group.algorithm.crosses else ():
        start = begins(other)
        params, buffers = ({k: v[0] for k, v in part.items()} for part in (start.params, start.buffers))
        alone = State(params, buffers, {}, {}, {})
        validate_outputs(other, alone, other.logits(alone, x[0]), x[0], y[0], names)
        theirs.append(attempt(partial(_offered, other), start, probe, ctx("init"), ctx("offer")))
    for act in ("mix", "adopt") if theirs else ():
        attempt(act, state, _foreign_inbox(offers, theirs), probe, ctx(act))
    if group.attack:
        lie = partial(_lie, world.experiment.attack.name, group.attack, task)
        for messages in (replies, offers):
            attempt(lie, state, messages, probe, ctx("attack"))


def _offered(
    task: Task, algorithm: Algorithm, start: Start, probe: Probe, init: Context, offer: Context
) -> Message:
    """Make the message of a client of another architecture."""
    return algorithm.offer(task, algorithm.init(task, start, init), probe, offer)


def _foreign_inbox(offers: Message, theirs: Sequence[Message]) -> Inbox:
    """Make the inboxes of two clients: a message of each other architecture, which may be like the own."""
    own = [alike(offers, message) for message in theirs]
    each = [
        message if its else {k: 0 * m for k, m in offers.items()}
        for its, message in zip(own, theirs, strict=True)
    ]
    messages = {k: torch.stack([message[k] for message in each], dim=1) for k in offers}
    device = next(iter(offers.values())).device
    place = torch.arange(len(theirs), device=device).expand(2, -1)
    slot = place + (place >= torch.tensor([[0], [1]], device=device))  # all but the own
    foreign = (
        ({}, place < 0)
        if its
        else ({k: m[:, None].expand(-1, len(theirs), *m.shape[1:]) for k, m in message.items()}, place == j)
        for j, (its, message) in enumerate(zip(own, theirs, strict=True))
    )
    return drop_unsound(Inbox(messages, place >= 0, slot, tuple(Foreign(*one) for one in foreign)))


def _lie(
    name: str,
    attack: Attack,
    task: Task,
    _: Algorithm,
    state: State,
    honest: Message,
    probe: Probe,
    ctx: Context,
) -> Message:
    with user_code(f"attack: offer of {name!r} failed, batched over clients"):
        given = attack.offer(task, state, honest, probe, ctx)
    return same_tensors(f"attack: offer of {name!r}", given, honest)


def _inbox(offers: Message, senders: int) -> Inbox:
    """Make the inboxes of two clients: one message, and padding up to so many."""
    device = next(iter(offers.values())).device
    messages = {k: m[:, None].expand(2, senders, *m.shape[1:]) for k, m in offers.items()}
    heard = (torch.arange(senders, device=device) == 0).expand(2, senders)
    slot = torch.tensor([[1, 0], [0, 0]], device=device)[:, :senders]
    return drop_unsound(Inbox(messages, heard, slot))


def _try_links(schedule: Schedule) -> None:
    """Draw the links of one star."""
    star = torch.zeros(1, dtype=torch.int64)
    candidate = schedule.graph.candidates(star)
    schedule.links(torch.full(candidate.shape, 0.5, dtype=torch.float64), star, candidate)


def _named(task: Task, group: AlgorithmGroup, call: Callable[[], T]) -> T:
    """Make the call; an error names the layer in which it failed."""
    model, method = type(task.model).__name__, type(group.algorithm).__name__
    with entered(task) as inside:
        inside[0] = f"method {method} with model {model}"
        try:
            return call()
        except CoterieError:
            raise
        except Exception as error:
            how = "" if task.alone else " batched over clients"
            raise ModelError(
                f"{inside[-1]} cannot be run{how} on samples of this shape and type: {describe_error(error)}"
            ) from error
