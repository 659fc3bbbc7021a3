"""Knowledge that a process of a run has of the other processes, by its environment as torchrun sets it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TypeVar

import torch
import torch.distributed as dist

from coterie.core.errors import ConfigError
from coterie.core.support.versions import installed
from coterie.engine.distributed.environment import STORE, expected
from coterie.engine.distributed.simulator import SharedSimulator
from coterie.engine.distributed.wire import Wire
from coterie.engine.final_models import Models
from coterie.engine.layout import Stack
from coterie.engine.memory_budget import device_memory
from coterie.engine.ranks import ALONE, AnySimulator, Choose, Ranks
from coterie.engine.sinks import Progress

__all__ = ["Together", "joined"]

T = TypeVar("T")
PATIENCE = timedelta(minutes=30)
"""The longest that a process waits for another one, which may be compiling."""


class Together(Ranks):
    """One process of several."""

    def __init__(self, wire: Wire, local_rank: int = 0, neighbours: int = 1) -> None:
        """`local_rank`: the number of this process among the `neighbours` that are on its machine."""
        self.wire, self.rank, self.count = wire, wire.rank, wire.count
        self._local_rank, self._neighbours = local_rank, neighbours

    def agreed(self, value: T) -> T:
        found: T = self.wire.agreed(value)
        return found

    def same(self, what: str, value: str, remedy: str) -> None:
        every = self.wire.everyone(value)
        for rank, theirs in enumerate(every):
            if theirs != every[0]:
                raise ConfigError(f"rank {rank} has {what} {theirs}, but rank 0 has {every[0]}; {remedy}")

    def total(self, number: int) -> int:
        return self.wire.total(number)

    def most(self, number: int) -> int:
        return self.wire.most(number)

    def device(self, name: str) -> str:
        return _own_device(name, self._local_rank)

    def memory(self, device: torch.device) -> int:
        shared = self._neighbours if device.type == "cpu" else 1
        return self.wire.least(device_memory(device) // shared)

    def simulator(self, stack: Stack, choose: Choose, progress: Progress | None) -> AnySimulator:
        return SharedSimulator(stack, choose, progress, self.wire)

    def models(self, own: Models) -> Models:
        """Put shares end to end: they are consecutive clients of each world and architecture."""
        clients = self.wire.everyone(own.clients)
        tensors = {}
        for name, tensor in own.tensors.items():
            world, place, _ = name.split("/", 2)
            whole = self.wire.collected(tensor, [len(theirs[world][int(place)]) for theirs in clients])
            if whole is not None:
                tensors[name] = whole
        numbers = {
            world: [list(chain(*parts)) for parts in zip(*(theirs[world] for theirs in clients), strict=True)]
            for world in own.clients
        }
        return Models(own.cards, numbers, tensors)


@contextmanager
def joined(device: str, experiment: str) -> Iterator[Ranks]:
    """Find the other processes of this run, if there are any; `experiment`: its fingerprint.

    Refuses processes with other versions or another experiment.
    """
    if expected() < 2:
        yield ALONE
        return
    rank, count = int(os.environ["RANK"]), expected()
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE", count))
    own = torch.device(_own_device(device, local_rank))
    if own.type == "cuda":
        torch.cuda.set_device(own)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // neighbours))
    store = os.environ.get(STORE)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo",
        init_method=f"file://{store}" if store else "env://",
        rank=rank,
        world_size=count,
        timeout=PATIENCE,
    )
    try:
        ranks = Together(Wire(rank, count), local_rank, neighbours)
        for package, version in installed().items():
            ranks.same(package, version.partition("+")[0], "install the same everywhere")
        ranks.same(
            "an experiment with the fingerprint", experiment, "start all ranks with the same file and options"
        )
        yield ranks
    finally:
        dist.destroy_process_group()


def _own_device(name: str, local_rank: int) -> str:
    """Name the device of the process of this number on its machine."""
    if name == "cuda":
        have = torch.cuda.device_count()
        if not have:
            raise ConfigError("device 'cuda' is not available here: no GPU was found; use device = 'cpu'")
        if local_rank >= have:
            raise ConfigError(
                f"this machine has {have} GPUs, too few for {local_rank + 1} ranks; use --devices {have}"
            )
        return f"cuda:{local_rank}"
    if name.startswith("cuda"):
        raise ConfigError(
            f"device = {name!r} names one GPU, but there are several ranks; use device = 'cuda'"
        )
    return name
