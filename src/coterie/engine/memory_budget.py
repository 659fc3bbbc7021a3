"""Memory budget: refuse what cannot fit, split the rest into stacks that do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.data import Federation
from coterie.core.errors import NoRoomError
from coterie.core.registry import user_code
from coterie.core.sampling import context, first_proxy, first_row
from coterie.core.tasks.task import Task
from coterie.core.types import Start, State
from coterie.core.validation import ValidatingAlgorithm
from coterie.engine.row_slots import SLOT_BYTES
from coterie.experiment import World

__all__ = [
    "check_clients_fit",
    "chunk_size",
    "clients_in_cache",
    "device_memory",
    "models_carried",
    "most_numbers",
    "nbytes",
    "split_to_fit",
    "world_bytes",
]

BYTES_PER_CLIENT = 1000
"""Bytes that dealing takes for each client, whatever the client gets, about."""
COPIES = 3
"""On a GPU: a model, its gradient, and the model after the step."""
COPIES_ON_CPU = 2
"""A model, and the one it is laid out from: only the few clients of a block have gradients at a time."""
MODEL_SHARE = 0.8
"""Share of the memory for models; the rest is for data and temporary tensors."""
ACTIVATION_BYTES = 2 << 20
"""On a CPU: activations of a layer of clients that compute at once; about what stays in the cache."""
TEMPORARY_BYTES = 256 << 20
"""Budget for temporary tensors in bytes; more on a GPU with much more memory."""


def nbytes(tensors: Mapping[str, Tensor]) -> int:
    """Add up the bytes of tensors."""
    return sum(v.numel() * v.element_size() for v in tensors.values())


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


def world_bytes(
    world: World, federation: Federation, task: Task, count: int, slots: int, device: torch.device
) -> int:
    """Count the bytes of so many of a world's clients: states, mini-batches, probes, and on a GPU gradients.

    On a CPU, only the clients of a block have a mini-batch at a time. `slots`: entries of a client's rows.
    """
    e = world.experiment
    state = _first_state(world, task, slots)
    number = next(iter(state.params.values())).element_size()
    each = (COPIES_ON_CPU - 1) * nbytes(state.params) + sum(map(nbytes, state[:3]))
    if device.type != "cpu":
        each += (COPIES - COPIES_ON_CPU) * nbytes(state.params)
    each += max(number * slots, sum(map(nbytes, state[3:])))  # all begin with a row of W
    if state.rows and slots < e.data.clients:
        each += SLOT_BYTES * slots
    if world.algorithm.feeds_back:
        each += sum(map(nbytes, state[:2]))
    samples = e.train.batch + (e.exchange.probe if isinstance(e.exchange.probe, int) else 0)
    batch = number * samples * federation.pool[0].numel()
    at_once = min(count, chunk_size(batch, device)) if device.type == "cpu" else count
    return count * each + at_once * batch


def _first_state(world: World, task: Task, slots: int) -> State:
    """Make the state of one client of a world."""
    label, (params, buffers) = f"methods.{world.label}", task.given()
    row = first_row(0, slots, next(iter(params.values())).dtype)
    ctx = context("init", world.seed, 0, 0, last=0, every=1)
    with user_code(f"{label}: init failed"):
        algorithm = ValidatingAlgorithm(inner=world.algorithm, its=label)
        proxy = first_proxy(task, "given", 0)
        return algorithm.init(task, Start(params, buffers, row, torch.tensor(0), proxy), ctx)


def split_to_fit(needs: Sequence[int], clients: Sequence[int], memory: int, devices: int = 1) -> list[range]:
    """Split worlds into as few parts as their order allows, each of which fits.

    `needs`: the bytes that each world takes on the fullest of so many `devices`, which has `memory` bytes.
    """
    have = int(memory * MODEL_SHARE)
    for need, count in zip(needs, clients, strict=True):
        some = f"{devices} devices" if devices > 1 else "one device"
        enough = -(-need * devices // max(1, have))
        _refuse_above(
            need,
            have,
            f"the models of {-(-count // devices):,} clients and their batches",
            f"about {count * have // max(1, need):,} such clients fit on {some}; use --devices {enough}, "
            "or a smaller data.clients, model, train.batch or exchange.probe",
        )
    parts, first, held = [], 0, 0
    for i, need in enumerate(needs):
        if held + need > have:
            parts.append(range(first, i))
            first, held = i, 0
        held += need
    return [*parts, range(first, len(needs))]


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
