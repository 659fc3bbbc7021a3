"""What every method must hold, as plain checks: `conforms(find("algorithm", "pkg.mod:Name"))`.

Five clients with different data, models and running statistics live through local steps, an
exchange and a broadcast, on a small model with BatchNorm and Dropout in float64.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import typing
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import cycle, islice
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from coterie.core.algorithm import Algorithm, guarded_adopt, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import alike
from coterie.core.models.model_factory import acquainted
from coterie.core.models.optim import Sgd
from coterie.core.sampling import Purpose, context, first_proxy
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Foreign, Inbox, Message, Probe, Reachable, Start, State
from tests.trees import clone, one_by_one, pick, same, stack

__all__ = ["CHECKS", "conforms"]

M, K, FEATURES, CLASSES, PROBE = 5, 3, 6, 4, 9
LAST = 5
"""The last iteration before the closing phase."""
Execute = Callable[..., Callable[..., Any]]
"""`vmap` or `one_by_one`."""


def conforms(algorithm_class: type[Algorithm], **options: Any) -> None:
    """Put a method, with these options, through all checks."""
    for check in CHECKS.values():
        check(algorithm_class(**options))


class World(NamedTuple):
    """Five clients; every tensor has the axis of clients first."""

    task: Task
    starts: Start
    batches: list[Batch]
    probes: Probe
    senders: Tensor
    """`[M, K]` positions of those who reply to each client."""
    slots: Tensor
    """`[M, K]` the entries of the client's row that belong to them."""
    heard: Tensor
    """`[M, K]`"""
    ids: Tensor
    """`[M]` the clients' numbers, which key their randomness."""


@cache
def world(dtype: torch.dtype = torch.float64) -> World:
    """Five clients, of which each hears one to three others; nobody may change them."""
    model = nn.Sequential(
        nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, CLASSES)
    )
    proxy = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, CLASSES))
    optimizer = Sgd(momentum=0.5, weight_decay=0.01)
    task = Task(model.to(dtype), optimizer=optimizer, proxy=Task(proxy.to(dtype), optimizer=optimizer))
    clients = torch.arange(M)

    def inputs(purpose: str, n: int) -> Tensor:
        draws = Stream(1, purpose).normal(n * FEATURES, client=clients).to(dtype)
        return draws.view(M, n, FEATURES) + clients.view(M, 1, 1)

    def labels(purpose: str, n: int) -> Tensor:
        return Stream(2, purpose).integers(n, client=clients, high=CLASSES)

    rows = [(torch.arange(M) != i).to(dtype) / M for i in range(M)]
    common = first_proxy(task, "shared", 1)
    starts = [Start(*task.init_params(i), rows[i], torch.tensor(i // 3), common) for i in range(M)]
    batches = [
        Batch(
            inputs(f"batch {t}", 7),
            labels(f"batch {t}", 7),
            torch.full((M,), 0.1, dtype=dtype),
            Stream(3, "key").words(1, t, clients)[:, 0],
        )
        for t in range(4)
    ]
    sizes = torch.tensor([9, 4, 7, 9, 5])
    mask = torch.arange(PROBE) < sizes[:, None]
    x = torch.where(mask[..., None], inputs("probe", PROBE), 0.0)
    senders = (clients[:, None] + torch.arange(1, K + 1)) % M
    heard = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]]).bool()
    held = mask & (torch.arange(PROBE) % 3 == 0)
    probes = Probe(x, labels("probe", PROBE), mask, sizes.to(dtype), held)
    return World(task, stack(starts), batches, probes, senders, senders.clone(), heard, clients)


def lived(algorithm: Algorithm, w: World, execute: Execute = vmap) -> list[Any]:
    """All states and reports of a short life."""
    return list(life(algorithm, w, execute))


@lru_cache(1)  # the checks of a method come one after the other
def usual_life(algorithm: Algorithm) -> list[Any]:
    """The life of the usual five clients, all at once."""
    return lived(algorithm, world())


def life(
    algorithm: Algorithm, w: World, execute: Execute = vmap, hyper: dict[str, Tensor] | None = None
) -> Iterator[Any]:
    """The first states, then states and reports of two steps, an exchange, a broadcast, two steps.

    `hyper` holds one value `[M]` for each client.
    """
    task, values = w.task, hyper or {}

    def called(call: Callable[..., Any], purpose: Purpose, t: int, *given: Any) -> Any:
        """A call of the contract, by every client."""

        def one(hyper: dict[str, Any], *its: Any) -> Any:
            options = {k: float(v) for k, v in hyper.items()} if execute is one_by_one else hyper
            return call(dataclasses.replace(algorithm, **options), task, *its)

        return execute(one)(values, *given, moment(w, purpose, t))

    def offers(states: State, t: int) -> Message:
        offered: Message = called(type(algorithm).offer, "offer", t, states, w.probes)
        return offered

    def replies(states: State, t: int) -> Message:
        """What each client hears from each of K others, `[M, K, ...]`."""
        if not algorithm.answers:
            return pick(offers(states, t), w.senders)
        questions = called(type(algorithm).question, "question", t, states, w.probes)
        return answered(algorithm, w, states, questions, t, execute, values)

    def exchanged(act: Purpose, t: int, states: State, inboxes: Inbox) -> Any:
        return called(guarded_mix if act == "mix" else guarded_adopt, act, t, states, inboxes, w.probes)

    states = called(type(algorithm).init, "init", 0, w.starts)
    yield states
    for t, batch in enumerate(w.batches[:2], 1):
        states, info = called(type(algorithm).local, "local", t, states, batch)
        yield states, info
    asked = called(type(algorithm).ask, "ask", 3, states, Reachable(w.slots, w.heard)) & w.heard
    states, info = exchanged("mix", 3, states, Inbox(replies(states, 3), asked, w.slots))
    yield states, {**info, "asked": asked}
    broadcasts = {k: m[w.senders[:, :1]] for k, m in offers(states, 4).items()}
    states, info = exchanged("adopt", 4, states, Inbox(broadcasts, w.heard[:, :1], w.slots[:, :1]))
    yield states, info
    for t, batch in enumerate(w.batches[2:], 5):  # the last one is in the closing phase
        if t == LAST + 1:
            states = called(type(algorithm).close, "close", t, states)
        states, info = called(type(algorithm).local, "local", t, states, batch)
        if t > LAST:
            states = called(type(algorithm).settle, "settle", t, states)
        yield states, info


def moment(w: World, purpose: Purpose, t: int) -> Context:
    """The context of a call by every client."""
    return context(purpose, 4, t, w.ids, last=LAST, every=3)


def answered(
    algorithm: Algorithm,
    w: World,
    states: State,
    questions: Message,
    t: int,
    execute: Execute = vmap,
    hyper: dict[str, Tensor] | None = None,
) -> Message:
    """What K others answer to each client's question, `[M, K, ...]`."""
    asker, sender = torch.arange(M).repeat_interleave(K), w.senders.flatten()

    def one(hyper: dict[str, Any], *its: Any) -> Message:
        options = {k: float(v) for k, v in hyper.items()} if execute is one_by_one else hyper
        return dataclasses.replace(algorithm, **options).reply(w.task, *its)

    theirs, probes, ctx = (pick(part, sender) for part in (states, w.probes, moment(w, "offer", t)))
    found: Message = execute(one)(pick(hyper or {}, sender), theirs, pick(questions, asker), probes, ctx)
    return {k: m.view(M, K, *m.shape[1:]) for k, m in found.items()}


class Met(NamedTuple):
    """The first client after two steps of everybody, with three replies, all of them heard."""

    state: State
    box: Inbox
    told: Inbox
    """The broadcast of the first of the three, alone."""
    probe: Probe


@lru_cache(1)
def met(algorithm: Algorithm) -> Met:
    w = world()
    *_, (states, _) = islice(life(algorithm, w), 3)
    offers = vmap(partial(algorithm.offer, w.task))(states, w.probes, moment(w, "offer", 3))
    heard = replies = pick(offers, w.senders)
    if algorithm.answers:
        ask = vmap(partial(algorithm.question, w.task))
        replies = answered(algorithm, w, states, ask(states, w.probes, moment(w, "question", 3)), 3)
    box, told = (pick(Inbox(messages, w.heard, w.slots), 0) for messages in (replies, heard))
    return Met(pick(states, 0), box, pick(told, [0]), pick(w.probes, 0))


def mix(algorithm: Algorithm, w: World, state: State, box: Inbox, probe: Probe) -> Any:
    """As the star, the first client at t = 3."""
    return guarded_mix(algorithm, w.task, state, box, probe, pick(moment(w, "mix", 3), 0))


def adopt(algorithm: Algorithm, w: World, state: State, box: Inbox, probe: Probe) -> Any:
    """As a neighbour, the first client at t = 4."""
    return guarded_adopt(algorithm, w.task, state, box, probe, pick(moment(w, "adopt", 4), 0))


def batched_is_one_by_one(algorithm: Algorithm) -> None:
    """All clients at once give what each of them gives alone."""
    same(usual_life(algorithm), lived(algorithm, world(), one_by_one), 1e-10)


def order_of_clients(algorithm: Algorithm) -> None:
    """Permuting clients permutes results."""
    w, order = world(), torch.tensor([3, 0, 4, 1, 2])
    place = order.argsort()
    moved = World(
        w.task,
        pick(w.starts, order),
        [pick(batch, order) for batch in w.batches],
        pick(w.probes, order),
        place[w.senders[order]],
        w.slots[order],
        w.heard[order],
        order,
    )
    same(lived(algorithm, moved), pick(usual_life(algorithm), order), 1e-12)


REMEMBERED = {"L2C": 1e-4}
"""How far apart memories of equal clients may be, by method, if that is more than 1e-12: Adam in L2C divides
gradients that are nothing but rounding, up to 1e-13 or so, by its ε of 1e-8."""


def equal_clients(algorithm: Algorithm) -> None:
    """Clients alike in model, data, keys and whom they hear stay alike."""
    w, first = world(), torch.zeros(M, dtype=torch.int64)
    alike = World(
        w.task,
        pick(w.starts, first),
        [pick(batch, first) for batch in w.batches],
        pick(w.probes, first),
        w.senders,
        w.slots[first],
        w.heard[first],
        w.ids[first],
    )
    start, *rest = lived(algorithm, alike)
    for states in (start, *(states for states, _ in rest)):
        others = pick(states, first)
        same((states.params, states.buffers), (others.params, others.buffers), 1e-12)
        same(states, others, REMEMBERED.get(type(algorithm).__name__, 1e-12))


def order_of_messages(algorithm: Algorithm) -> None:
    """Permuting the inbox changes nothing."""
    w = world()
    state, box, _, probe = met(algorithm)
    order = torch.tensor([2, 0, 1])
    moved = Inbox(pick(box.messages, order), box.heard[order], box.slot[order])
    want, _ = mix(algorithm, w, state, box, probe)
    got, _ = mix(algorithm, w, state, moved, probe)
    same(got, want, 1e-12)


def empty_inbox(algorithm: Algorithm) -> None:
    """No reply, or no neighbour at all: nothing changes."""
    w = world()
    state, box, told, probe = met(algorithm)
    silent = box._replace(heard=torch.zeros(K, dtype=torch.bool))
    nobody = Inbox(pick(box.messages, []), box.heard[:0], box.slot[:0])
    for empty in (silent, nobody):
        same(mix(algorithm, w, state, empty, probe)[0], state)
    lost = told._replace(heard=silent.heard[:1])
    same(adopt(algorithm, w, state, lost, probe)[0], state)


def lost_messages(algorithm: Algorithm) -> None:
    """What was not heard does not matter, whatever it is."""
    w = world()
    state, box, _, probe = met(algorithm)
    box = box._replace(heard=torch.tensor([True, False, True]))
    want = mix(algorithm, w, state, box, probe)
    for content in (0.0, 1e30, torch.nan):
        other = box._replace(messages=_written(box.messages, 1, content))
        same(mix(algorithm, w, state, other, probe), want)


def broken_messages(algorithm: Algorithm) -> None:
    """A message with a single NaN or infinity counts as not heard."""
    w = world()
    state, box, told, probe = met(algorithm)
    without = box._replace(heard=torch.tensor([True, False, True]))
    want, _ = mix(algorithm, w, state, without, probe)
    contents = (torch.nan, torch.inf, -torch.inf)
    for name, content in zip(box.messages, cycle(contents), strict=False):
        broken = clone(box.messages)
        broken[name][1].view(-1)[-1] = content
        same(mix(algorithm, w, state, box._replace(messages=broken), probe)[0], want)
    for name, content in zip(told.messages, cycle(contents), strict=False):
        broken = clone(told.messages)
        broken[name].view(-1)[-1] = content
        same(adopt(algorithm, w, state, told._replace(messages=broken), probe)[0], state)
    for content in contents if box.messages else ():
        spoilt = {name: torch.full_like(m, content) for name, m in box.messages.items()}
        same(mix(algorithm, w, state, box._replace(messages=spoilt), probe)[0], state)


def saved_and_loaded(algorithm: Algorithm) -> None:
    """A State of named tensors survives safetensors to the bit, and life goes on the same."""
    w = world()
    state, box, _, probe = met(algorithm)
    flat = {f"{part}/{k}": v for part, values in state._asdict().items() for k, v in values.items()}
    bytes_ = safetensors.torch.save({k: v.clone().contiguous() for k, v in flat.items()})
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in State._fields}
    for name, tensor in safetensors.torch.load(bytes_).items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    loaded = State(**parts)
    same(loaded, state)
    batch, ctx = pick(w.batches[2], 0), pick(moment(w, "local", 5), 0)
    same(algorithm.local(w.task, loaded, batch, ctx), algorithm.local(w.task, state, batch, ctx))
    same(mix(algorithm, w, loaded, box, probe), mix(algorithm, w, state, box, probe))


def numbers_as_tensors(algorithm: Algorithm) -> None:
    """A float hyper-parameter may be a tensor, one value for each client."""
    w, floats = world(), _floats(algorithm)
    tensors: dict[str, Any] = {k: torch.tensor(v, dtype=torch.float64) for k, v in floats.items()}
    same(lived(dataclasses.replace(algorithm, **tensors), w), usual_life(algorithm), 1e-12)
    values = {k: v * (1 - 0.15 * torch.arange(M, dtype=torch.float64)) for k, v in floats.items()}
    same(list(life(algorithm, w, vmap, values)), list(life(algorithm, w, one_by_one, values)), 1e-10)


def nothing_modified(algorithm: Algorithm) -> None:
    """Functions are pure: their inputs and the template stay, and the same inputs give the same bits."""
    w = world()
    state, box, told, probe = met(algorithm)
    batch, asked = pick(w.batches[2], 0), pick(moment(w, "question", 3), 0)
    question = algorithm.question(w.task, state, probe, asked)
    given = (state, box, told, probe, batch, question)

    def closed() -> State:
        return algorithm.close(w.task, state, pick(moment(w, "close", LAST + 1), 0))

    before, template = clone(given), copy.deepcopy(w.task.model.state_dict())
    first, second = (
        (
            algorithm.local(w.task, state, batch, pick(moment(w, "local", 5), 0)),
            algorithm.settle(w.task, closed(), pick(moment(w, "settle", LAST + 1), 0)),
            algorithm.predict(w.task, closed(), probe.x, probe),
            algorithm.ask(w.task, state, Reachable(box.slot, box.heard), pick(moment(w, "ask", 3), 0)),
            algorithm.question(w.task, state, probe, asked),
            algorithm.reply(w.task, state, question, probe, pick(moment(w, "offer", 3), 0)),
            algorithm.offer(w.task, state, probe, pick(moment(w, "offer", 3), 0)),
            algorithm.predict(w.task, state, probe.x, probe),
            mix(algorithm, w, state, box, probe),
            adopt(algorithm, w, state, told, probe),
        )
        for _ in range(2)
    )
    same(given, before)
    same(dict(w.task.model.state_dict()), dict(template))
    same(first, second)


def shape_of_state(algorithm: Algorithm) -> None:
    """A State keeps its names, shapes and dtypes for life, but for the closing phase's memory, and is finite.

    Messages are numbers.
    """
    for dtype in (torch.float32, torch.float64):
        w = world(dtype)
        trace = usual_life(algorithm) if dtype == torch.float64 else lived(algorithm, w)
        states = [trace[0], *(state for state, _ in trace[1:])]
        shapes = [
            {
                f"{part}/{k}": (v.shape, v.dtype)
                for part, values in s._asdict().items()
                for k, v in values.items()
            }
            for s in states
        ]
        *before, closing = shapes
        assert all(shape == shapes[0] for shape in before)
        assert _without_memory(closing) == _without_memory(shapes[0])
        assert all(v.shape[:2] == (M, M) for v in states[0].rows.values())
        assert all(v.isfinite().all() for part in states[-1] for v in part.values())
        given = pick(states[-1], 0), pick(w.probes, 0), pick(moment(w, "offer", 7), 0)
        question = algorithm.question(w.task, *given)
        reply = algorithm.reply(w.task, given[0], question, *given[1:])
        for message in (algorithm.offer(w.task, *given), question, reply):
            assert all(tensor.dtype == dtype for tensor in message.values())
        shapes = [{k: v.shape for k, v in part.items()} for part in given[0]]
        tested = algorithm.model(given[0])
        assert [{k: v.shape for k, v in part.items()} for part in tested] == shapes[:2]
        for _, info in (trace[1], trace[-1]):
            assert info["loss"].shape == (M,)


def broadcasts_change_something(algorithm: Algorithm) -> None:
    """A broadcast of another model changes the listener, or `listens` is false: no message is in vain."""
    w = world()
    state, _, told, probe = met(algorithm)
    new, _ = adopt(algorithm, w, state, told, probe)
    changed = any(not torch.equal(v, o[k]) for n, o in zip(new, state, strict=True) for k, v in n.items())
    assert changed == (algorithm.listens and bool(told.messages))


def two_architectures(algorithm: Algorithm) -> None:
    """Of the other architecture what is like the own is heard, and what is not only if the method crosses."""
    w = world()
    narrow, wide = nn.Linear(FEATURES, 5), nn.Linear(5, 8)  # as many features before the head as the others
    layers = narrow, nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), wide, nn.ReLU(), nn.Linear(8, CLASSES)
    deep = Task(nn.Sequential(*layers).double(), optimizer=w.task.optimizer, proxy=w.task.proxy)
    ours, theirs = acquainted((w.task, deep))
    state, box, told, probe = met(algorithm)
    params, buffers = theirs.init_params(7)
    start = pick(w.starts, 1)._replace(params=params, buffers=buffers)
    other = algorithm.init(theirs, start, pick(moment(w, "init", 0), 1))
    sent = algorithm.offer(theirs, other, pick(w.probes, 1), pick(moment(w, "offer", 3), 1))
    own = algorithm.offer(ours, state, probe, pick(moment(w, "offer", 3), 0))
    if algorithm.answers or not own:
        return
    last = torch.tensor([False, False, True])
    heard = torch.tensor([True, False, True])
    foreign: tuple[Foreign, ...] = ()
    if alike(own, sent):
        messages = {k: torch.cat([m[:2], sent[k][None]]) for k, m in box.messages.items()}
    else:
        messages = _written(box.messages, 2, 0.0)
        blank = {k: torch.stack([torch.zeros_like(m), torch.zeros_like(m), m]) for k, m in sent.items()}
        foreign = (Foreign(blank, last),) if algorithm.crosses else ()
        heard = heard if algorithm.crosses else heard & ~last
    mixed = Inbox(messages, heard, box.slot, foreign)
    if foreign and set(sent) != set(theirs.names()):
        with pytest.raises(ConfigError, match="share = 'all'"):
            guarded_mix(algorithm, ours, state, mixed, probe, pick(moment(w, "mix", 3), 0))
        return

    def act(call: Any, purpose: Purpose, inbox: Inbox) -> Any:
        return call(algorithm, ours, state, inbox, probe, pick(moment(w, purpose, 3), 0))

    got = act(guarded_mix, "mix", mixed)
    stacked = [tree[None].expand(2, *tree.shape) for tree in tree_leaves((state, mixed, probe))]
    twice = tree_unflatten(stacked, tree_structure((state, mixed, probe)))
    ctx = pick(moment(w, "mix", 3), torch.tensor([0, 0]))
    same(pick(vmap(partial(guarded_mix, algorithm, ours))(*twice, ctx), 0), got, 1e-10)
    assert all(v.isfinite().all() for part in got[0] for v in part.values())
    if foreign:
        spoilt = Foreign(_written(foreign[0].messages, 2, torch.nan), last)
        without = act(guarded_mix, "mix", mixed._replace(heard=heard & ~last))
        same(act(guarded_mix, "mix", mixed._replace(foreign=(spoilt,))), without)
        one = Inbox({k: torch.zeros_like(m) for k, m in told.messages.items()}, *told[1:3])
        one = one._replace(foreign=(Foreign({k: m[None] for k, m in sent.items()}, torch.ones(1).bool()),))
        changed, _ = act(guarded_adopt, "adopt", one)
        moved = any(
            not torch.equal(v, o[k]) for n, o in zip(changed, state, strict=True) for k, v in n.items()
        )
        assert moved == algorithm.listens


def randomness_is_of_the_call(algorithm: Algorithm) -> None:
    """What is random is so by the context's key alone: the same key, the same bits, whatever drew before."""
    first = usual_life(algorithm)
    torch.rand(3)
    same(lived(algorithm, world()), first)


CHECKS: dict[str, Callable[[Algorithm], None]] = {
    check.__name__: check
    for check in (
        batched_is_one_by_one,
        order_of_clients,
        equal_clients,
        order_of_messages,
        empty_inbox,
        lost_messages,
        broken_messages,
        saved_and_loaded,
        numbers_as_tensors,
        nothing_modified,
        shape_of_state,
        broadcasts_change_something,
        two_architectures,
        randomness_is_of_the_call,
    )
}


def _written(messages: Message, k: int, content: float) -> Message:
    written = clone(messages)
    for tensor in written.values():
        tensor[k] = content
    return written


def _without_memory(shapes: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in shapes.items() if not k.startswith("memory/")}


def _floats(algorithm: Algorithm) -> dict[str, float]:
    """The float options that can be set beside the others."""
    hints, found = typing.get_type_hints(type(algorithm)), {}
    for field in dataclasses.fields(algorithm):
        value = getattr(algorithm, field.name)
        with contextlib.suppress(ConfigError):
            if hints[field.name] is float:
                dataclasses.replace(algorithm, **{field.name: 0.85 * value})
                found[field.name] = value
    return found
