"""Memory budget: refuse what cannot fit, split the rest into stacks that do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from coterie.core.data import Federation
from coterie.core.errors import NoRoomError
from coterie.core.registry import user_code
from coterie.core.sampling import Purpose, context, first_proxy, first_row
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Start, State
from coterie.core.validation import ValidatingAlgorithm
from coterie.engine.row_slots import SLOT_BYTES
from coterie.experiment import World

__all__ = [
    "Need",
    "at_once",
    "check_clients_fit",
    "chunk_size",
    "clients_in_cache",
    "device_memory",
    "models_carried",
    "most_numbers",
    "nbytes",
    "split_to_fit",
    "world_need",
]

BYTES_PER_CLIENT = 1000
"""Bytes that dealing takes for each client, whatever the client gets, about."""
MODEL_SHARE = 0.8
"""Share of the memory for models; the rest is for data and temporary tensors."""
CLOSING_SHARE = 0.9
"""The same in the closing phase, where no messages are gathered."""
STEPPED = 2
"""Models that a local step takes for a while: a gradient, and the model after the step."""
ACTIVATION_BYTES = 2 << 20
"""On a CPU: activations of a layer of clients that compute at once; about what stays in the cache."""
TEMPORARY_BYTES = 256 << 20
"""Budget for temporary tensors in bytes; more on a GPU with much more memory."""


def nbytes(tensors: Mapping[str, Tensor]) -> int:
    """Add up the bytes of tensors."""
    return sum(v.numel() * v.element_size() for v in tensors.values())


class Need(NamedTuple):
    """Bytes that some clients take."""

    carried: int
    """For their states, from the first iteration on."""
    laid_out: int
    """For the models that those of several worlds are laid out from, before it."""
    step: int
    """For the gradients and mini-batches of those that step at once, at least."""
    closing: int
    """For their states in the closing phase."""

    def __add__(self, other: Need) -> Need:  # type: ignore[override]
        """Add those of other clients in the same stack, or in another one of the same worlds."""
        return Need(*(a + b for a, b in zip(self, other, strict=True)))


def models_carried(state: State, slots: int) -> float:
    """Measure what one client's method remembers, its optimiser aside, in models of this client's size.

    `slots`: entries of the client's rows that are not padding.
    """
    model = nbytes(state.params) + nbytes(state.buffers)
    rows = sum(nbytes({"one": row[0]}) * slots for row in state.rows.values())
    return (nbytes(state.memory) + rows) / model


def chunk_size(each: int, device: torch.device) -> int:
    """Count how many things of `each` bytes fit the budget of temporary tensors."""
    room = max(TEMPORARY_BYTES, device_memory(device) // 64) if device.type == "cuda" else TEMPORARY_BYTES
    return max(1, room // max(1, each))


def check_clients_fit(worlds: Sequence[World]) -> None:
    """Refuse so many clients that the numbers of their samples alone do not fit."""
    federations = {(w.seed, w.experiment.data.model_dump_json()): w.experiment for w in worlds}
    need = sum(e.data.clients * (BYTES_PER_CLIENT + 16 * e.evaluate.uniform) for e in federations.values())
    clients, have = sum(e.data.clients for e in federations.values()), device_memory(torch.device("cpu"))
    _refuse_above(
        need,
        have,
        f"{clients:,} clients and their samples",
        f"about {clients * have // max(1, need):,} fit here without models; use a smaller data.clients or "
        "evaluate.uniform, or fewer seeds",
    )


def world_need(
    world: World, federation: Federation, task: Task, count: int, slots: int, device: torch.device
) -> Need:
    """Count the bytes of so many of a world's clients; `slots`: entries of a client's rows."""
    e = world.experiment
    state, closed = _states(world, task, slots)
    number = next(iter(state.params.values())).element_size()
    tables = SLOT_BYTES * slots if state.rows and slots < e.data.clients else 0
    if world.algorithm.feeds_back:
        tables += sum(map(nbytes, state[:2]))

    def carried(state: State) -> int:
        """Count those of one client; all begin with a row of W."""
        return sum(map(nbytes, state[:3])) + max(number * slots, sum(map(nbytes, state[3:]))) + tables

    samples = e.train.batch + (e.exchange.probe if isinstance(e.exchange.probe, int) else 0)
    stepped = number * samples * federation.pool[0].numel()
    if device.type != "cpu":  # there only the few of a block have gradients
        stepped += STEPPED * nbytes(state.params)
    at_once = min(count, chunk_size(stepped, device))
    laid_out = nbytes(state.params)
    return Need(count * carried(state), count * laid_out, at_once * stepped, count * carried(closed))


def at_once(clients: int, carried: int, state: State, sample: int, device: torch.device) -> int:
    """Count the clients of a stack on a GPU that can step together.

    `carried`: bytes of all that is there; `state`: that of one client; `sample`: bytes of its mini-batch.
    """
    each = STEPPED * nbytes(state.params) + sample
    room = int(MODEL_SHARE * device_memory(device)) - carried
    return min(clients, max(chunk_size(each, device), room // each))


def _states(world: World, task: Task, slots: int) -> tuple[State, State]:
    """Make the state of one client of a world, and that of the closing phase."""
    label, (params, buffers) = f"methods.{world.label}", task.given()
    row = first_row(0, slots, next(iter(params.values())).dtype)

    def ctx(purpose: Purpose) -> Context:
        return context(purpose, world.seed, 0, 0, last=0, every=1)

    with user_code(f"{label}: init failed"):
        algorithm = ValidatingAlgorithm(inner=world.algorithm, its=label)
        proxy = first_proxy(task, "given", 0)
        start = Start(params, buffers, row, torch.tensor(0), proxy)
        state = algorithm.init(task, start, ctx("init"))
    with user_code(f"{label}: close failed"):
        return state, algorithm.close(task, state, ctx("close"))


def split_to_fit(needs: Sequence[Need], clients: Sequence[int], memory: int, devices: int = 1) -> list[range]:
    """Split worlds into as few parts as their order allows, each of which fits.

    `needs`: what each world takes on the fullest of so many `devices`, which has `memory` bytes.
    """
    have = int(memory * MODEL_SHARE)
    for need, count in zip(needs, clients, strict=True):
        some, bytes_ = f"{devices} devices" if devices > 1 else "one device", _together([need])
        enough = -(-bytes_ * devices // max(1, have))
        _refuse_above(
            bytes_,
            have,
            f"the models of {-(-count // devices):,} clients and their batches",
            f"about {count * have // max(1, bytes_):,} such clients fit on {some}; use --devices {enough}, "
            "or a smaller data.clients, model, train.batch or exchange.probe",
        )
    parts, first = [], 0
    for i in range(len(needs)):
        if _together(needs[first : i + 1]) > have:
            parts.append(range(first, i))
            first = i
    return [*parts, range(first, len(needs))]


def _together(needs: Sequence[Need]) -> int:
    """Count the bytes of models that worlds in one stack take at the same time, at most."""
    carried = sum(need.carried for need in needs)
    before = sum(need.laid_out for need in needs) if len(needs) > 1 else 0
    step, closing = max(need.step for need in needs), sum(need.closing for need in needs)
    return max(carried + max(before, step), int(closing * MODEL_SHARE / CLOSING_SHARE) + step)


@lru_cache(maxsize=32)
def most_numbers(task: Task, inputs: torch.Size, dtype: torch.dtype) -> int:
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


def clients_in_cache(task: Task, inputs: torch.Size, samples: int, dtype: torch.dtype) -> int:
    """Count the clients whose activations of a layer stay in a processor's cache, of so many samples each."""
    return max(1, ACTIVATION_BYTES // (most_numbers(task, inputs, dtype) * samples * dtype.itemsize))


def device_memory(device: torch.device) -> int:
    """Count the bytes of memory of a device, or of this machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _refuse_above(need: int, have: int, what: str, remedy: str) -> None:
    if need > have:
        raise NoRoomError(
            f"{what} take at least {need / 1e9:,.1f} GB of memory, but there are {have / 1e9:,.1f} GB for "
            f"them; {remedy}"
        )
