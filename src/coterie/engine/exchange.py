"""Many stars' meetings as one batched operation.

All stars of all worlds of a method look at the models as they were before the exchange; then all of
them change at once. Their neighbours hear the result one iteration later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Algorithm, guarded
from coterie.core.attack import attack_key
from coterie.core.task import Task
from coterie.core.types import Inbox, Info, Message, Probe, State, Tensors
from coterie.engine.memory import at_once
from coterie.engine.stack import Clients, Group, Stack, gather, put
from coterie.schedule import Meeting

__all__ = ["Event", "broadcast", "exchange", "message_bytes"]

Meetings = Mapping[int, Meeting]
"""Who meets whom in each world, by its number."""

Act = Literal["mix", "adopt"]


class Event(NamedTuple):
    """What one client learned about others when it woke or received."""

    world: int
    client: int
    neighbours: list[int]
    info: dict[str, float | list[float] | list[bool]]


class _Letters(NamedTuple):
    """Who reads what: R readers, K senders, by their numbers in the group."""

    world: Tensor
    """`[R]` position of the reader's world among the group's"""
    reader: Tensor
    """`[R]`"""
    sender: Tensor
    """`[R, K]`"""
    slot: Tensor
    """`[R, K]`: the senders' numbers in their world"""
    heard: Tensor
    """`[R, K]`"""


def exchange(stack: Stack, clients: Clients, meetings: Meetings, t: int) -> list[Event]:
    """At t ≡ 0 (mod T_ex) stars ask, look and mix."""
    return _for_all(stack, clients, meetings, t, _stars, "mix")


def broadcast(stack: Stack, clients: Clients, meetings: Meetings, t: int) -> list[Event]:
    """At t ≡ 1 (mod T_ex) the neighbours hear the star's new model."""
    return _for_all(stack, clients, meetings, t, _listeners, "adopt")


def _for_all(
    stack: Stack,
    clients: Clients,
    meetings: Meetings,
    t: int,
    address: Callable[[Group, Sequence[Meeting]], _Letters],
    act: Act,
) -> list[Event]:
    events = []
    for group, state in zip(stack.groups, clients.parts, strict=True):
        if _message(stack, group, state):  # a method that sends nothing has nothing to read
            letters = address(group, [meetings[m.id] for m in group.members])
            events += _read(stack, group, state, letters, act, t)
    return events


def message_bytes(stack: Stack, clients: Clients) -> list[int]:
    """The size of one message of each group's method."""
    messages = (_message(stack, g, state) for g, state in zip(stack.groups, clients.parts, strict=True))
    return [sum(m.numel() * m.element_size() for m in one.values()) for one in messages]


def _message(stack: Stack, group: Group, state: State) -> Message:
    """What the first client of a group would send."""
    return group.algorithm.offer(stack.task, gather(state, 0))


def _stars(group: Group, meetings: Sequence[Meeting]) -> _Letters:
    width = max(m.neighbour.shape[1] for m in meetings)
    world = [torch.full_like(m.star, w) for w, m in enumerate(meetings)]
    first = [member.clients.start - group.clients.start for member in group.members]
    slot = torch.cat([_widened(m.neighbour, width) for m in meetings])
    heard = torch.cat([_widened(m.heard, width) for m in meetings])
    offset = torch.cat([torch.full_like(m.star, f) for f, m in zip(first, meetings, strict=True)])
    return _Letters(
        torch.cat(world), torch.cat([m.star for m in meetings]) + offset, slot + offset[:, None], slot, heard
    )


def _listeners(group: Group, meetings: Sequence[Meeting]) -> _Letters:
    """The meetings the other way round: each neighbour that was told reads its star's message."""
    rows = []
    for w, (member, meeting) in enumerate(zip(group.members, meetings, strict=True)):
        first = member.clients.start - group.clients.start
        s, k = torch.nonzero(meeting.told, as_tuple=True)
        reader, star = meeting.neighbour[s, k], meeting.star[s]
        rows.append((torch.full_like(reader, w), reader + first, star + first, star))
    world, reader, sender, slot = (torch.cat(column) for column in zip(*rows, strict=True))
    return _Letters(
        world, reader, sender[:, None], slot[:, None], torch.ones_like(slot, dtype=torch.bool)[:, None]
    )


def _read(stack: Stack, group: Group, state: State, letters: _Letters, act: Act, t: int) -> list[Event]:
    if not letters.sender.numel():
        return []
    results, reports = [], []
    for some in _chunks(stack, state, letters):
        new, info = _one_go(stack, group, state, _Letters(*(part[some] for part in letters)), act, t)
        results.append((stack.here(letters.reader[some]), new))
        reports.append(info)
    for reader, new in results:  # only now: everybody read the models from before
        put(state, reader, new)
    if set(reports[0]) <= {"heard"}:  # a method that reports nothing
        return []
    info = {k: torch.cat([r[k] for r in reports]).cpu() for k in reports[0]}
    return _events(group, letters, info)


def _one_go(
    stack: Stack, group: Group, state: State, letters: _Letters, act: Act, t: int
) -> tuple[State, Info]:
    reader, (readers, senders) = stack.here(letters.reader), letters.sender.shape
    offers = _offers(stack, group, state, letters.sender.flatten(), t)
    inbox = Inbox(
        {k: m.view(readers, senders, *m.shape[1:]) for k, m in offers.items()},
        stack.here(letters.heard),
        stack.here(letters.slot),
        torch.full((readers,), t, device=stack.device),
    )
    probe = stack.feed.probe(letters.reader + group.clients.start, t)
    hyper = {k: v[reader] for k, v in group.hyper.items()}
    return guarded(partial(_each, stack.task, group, act, hyper), gather(state, reader), inbox, probe)


def _each(
    task: Task, group: Group, act: Act, hyper: Tensors, state: State, inbox: Inbox, probe: Probe
) -> tuple[State, Info]:
    """Every reader on its own, all in one batched call."""
    usual = act == "adopt" and type(group.algorithm).adopt is Algorithm.adopt
    if usual and group.algorithm.adoption != "mix":  # it picks tensors, of one client or of many
        return group.algorithm.adopt(task, state, inbox, probe)

    def one(hyper: Tensors, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        method = group.method(hyper)
        return (method.mix if act == "mix" else method.adopt)(task, state, inbox, probe)

    if len(inbox.heard) > 1:
        return vmap(one)(hyper, state, inbox, probe)
    own = Inbox({k: m[0] for k, m in inbox.messages.items()}, *(part[0] for part in inbox[1:]))
    new, info = one(
        {k: v[0] for k, v in hyper.items()}, gather(state, 0), own, Probe(*(part[0] for part in probe))
    )
    return gather(new, None), {k: v[None] for k, v in info.items()}


def _offers(stack: Stack, group: Group, state: State, who: Tensor, t: int) -> Message:
    """What each of some senders `[S]` sends, honest or not."""
    sender = stack.here(who)
    if type(group.algorithm).offer is Algorithm.offer:  # it picks tensors, of one client or of many
        offers = group.algorithm.offer(stack.task, gather(state, sender))
    else:
        hyper = {k: v[sender] for k, v in group.hyper.items()}
        offers = vmap(partial(_offer, stack.task, group))(hyper, gather(state, sender))
    (liars,) = group.attacker[who].nonzero(as_tuple=True)
    if group.attack is None or not len(liars):
        return offers
    at, numbers, feed = stack.here(liars), who[liars] + group.clients.start, stack.feed
    lies = vmap(partial(group.attack.offer, stack.task))(
        gather(state, sender[at]),
        {k: m[at] for k, m in offers.items()},
        feed.probe(numbers, t),
        attack_key(feed.seed[stack.here(numbers)], t, feed.client[stack.here(numbers)]),
    )
    return {k: m.index_copy(0, at, lies[k]) for k, m in offers.items()}


def _offer(task: Task, group: Group, hyper: Tensors, state: State) -> Message:
    return group.method(hyper).offer(task, state)


def _chunks(stack: Stack, state: State, letters: _Letters) -> Iterator[slice]:
    readers, senders = letters.sender.shape
    model = sum(v[0].numel() * v.element_size() for part in state[:2] for v in part.values())
    step = at_once(model * (senders + 2), stack.device)
    return (slice(i, i + step) for i in range(0, readers, step))


def _widened(tensor: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(tensor, (0, width - tensor.shape[1]))


def _events(group: Group, letters: _Letters, info: Info) -> list[Event]:
    """One event for each reader that heard something."""
    columns = {k: v.tolist() for k, v in info.items()}
    worlds, readers, slots = letters.world.tolist(), letters.reader.tolist(), letters.slot.tolist()
    events = []
    for r, (w, reader, slot) in enumerate(zip(worlds, readers, slots, strict=True)):
        member = group.members[w]
        heard = columns["heard"][r]
        kept = [k for k, h in enumerate(heard) if h]
        if not kept:
            continue
        row = {
            name: [values[r][k] for k in kept] if _one_each(values[r], heard) else values[r]
            for name, values in columns.items()
            if name != "heard"
        }
        client = reader - (member.clients.start - group.clients.start)
        events.append(Event(member.id, client, [slot[k] for k in kept], row))
    return events


def _one_each(value: Any, heard: list[bool]) -> bool:
    return isinstance(value, list) and len(value) == len(heard)
