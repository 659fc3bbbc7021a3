"""The clients that a run records one by one: all of them, or a sample where there are very many."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.graph import SMALL
from coterie.core.streams import Stream

__all__ = ["ALL_UP_TO", "SAMPLE", "recorded"]

ALL_UP_TO = SMALL
"""Most clients of a world that are all recorded one by one: those of a small population."""
SAMPLE = 1_000
"""Clients that are recorded where there are more: a share of them is known to 1.6 points (one sigma)."""


def recorded(clients: int, seed: int) -> Tensor:
    """Tell which clients are recorded, `[M]` bool: the same for all methods and settings of a seed."""
    if clients <= ALL_UP_TO:
        return torch.ones(clients, dtype=torch.bool)
    drawn = Stream(seed, "recorded").uniform(1, client=torch.arange(clients))[:, 0]
    return torch.zeros(clients, dtype=torch.bool).scatter(0, drawn.argsort(stable=True)[:SAMPLE], True)
