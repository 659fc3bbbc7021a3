"""The environment of a process, by which it knows whether it is one of several that carry a run.

As torchrun sets it: RANK, WORLD_SIZE, and how to find the others.
"""

from __future__ import annotations

import os

from coterie.core.errors import ConfigError

__all__ = ["STORE", "expected", "leads", "starts_ranks"]

STORE = "COTERIE_STORE"
"""Environment: the file by which processes on one machine find each other, instead of MASTER_ADDR."""


def starts_ranks(devices: int | None) -> bool:
    """Tell whether processes for so many devices are still to be started, by this one."""
    count = expected()
    if devices is None or devices == count:
        return False
    if devices < 1:
        raise ConfigError(f"devices must be at least 1, got {devices}")
    if count > 1:
        raise ConfigError(
            f"--devices {devices} does not fit the {count} processes that were started (WORLD_SIZE={count}); "
            "leave out one of the two"
        )
    return True


def leads() -> bool:
    """Tell whether this process writes and shows what comes of the run."""
    return expected() == 1 or os.environ["RANK"] == "0"


def expected() -> int:
    """Count the processes of the run that this one was started for; 1: it is alone."""
    rank, count = os.environ.get("RANK"), os.environ.get("WORLD_SIZE", "1")
    if rank is None:
        return 1
    if not (rank.isdigit() and count.isdigit() and int(rank) < int(count)):
        raise ConfigError(f"RANK={rank!r} and WORLD_SIZE={count!r} must be whole numbers, the first smaller")
    return int(count)
