"""Whether there is room: better refused now than a machine that stands still, or kills the run, later."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from coterie.core.data import Federation
from coterie.core.errors import NoRoomError
from coterie.core.task import Task
from coterie.experiment import World

__all__ = ["room_for_clients", "room_for_models"]

BOOKS = 500
"""Bytes that dealing takes for each client, at the least, whatever the client gets."""
COPIES = 3
"""A model, its gradient, and the model after the step."""


def room_for_clients(worlds: Sequence[World]) -> None:
    """Refuse so many clients that the numbers of their samples alone do not fit."""
    federations = {(w.seed, w.experiment.data.model_dump_json()): w.experiment for w in worlds}
    need = sum(e.data.clients * (BOOKS + 16 * e.evaluate.uniform) for e in federations.values())
    _refuse_above(
        need,
        torch.device("cpu"),
        f"{sum(e.data.clients for e in federations.values()):,} clients and their samples",
        "use a smaller data.clients or evaluate.uniform, or fewer seeds",
    )


def room_for_models(
    worlds: Sequence[World], federations: Sequence[Federation], tasks: Sequence[Task], device: torch.device
) -> None:
    """Refuse more models, each with its batch, than fit beside each other."""
    need = 0
    for world, federation, task in zip(worlds, federations, tasks, strict=True):
        parameters = list(task.model.parameters())
        numbers = COPIES * sum(p.numel() for p in parameters)
        numbers += world.experiment.train.batch * federation.pool[0].numel()
        need += world.experiment.data.clients * numbers * parameters[0].element_size()
        if isinstance(probe := world.experiment.exchange.probe, int):
            need += probe * federation.pool[0].numel() * parameters[0].element_size()
    clients = sum(w.experiment.data.clients for w in worlds)
    _refuse_above(
        need,
        device,
        f"{clients:,} models and their batches ({len(worlds)} worlds)",
        "use a smaller data.clients, train.batch, exchange.probe or model, or fewer methods or seeds",
    )


def _refuse_above(need: int, device: torch.device, what: str, remedy: str) -> None:
    if device.type == "cuda":
        have = torch.cuda.get_device_properties(device).total_memory
    else:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        raise NoRoomError(
            f"{what} take at least {need / 1e9:,.0f} GB of memory, but there are {have / 1e9:,.0f} GB; "
            f"{remedy}"
        )
