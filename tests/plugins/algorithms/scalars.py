"""Models of one number, so that everything can be worked out by hand.

A model says θ·x about a sample x; client 0 is the star, whose row has four entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Probe, State

__all__ = ["TASK", "ctx", "inbox", "probe", "row", "state", "theta"]

TASK = Task(nn.Sequential(nn.Linear(1, 1, bias=False)).double())


def numbers(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def row(*w: float) -> Tensor:
    """The star's row of W; 0, 1/4, 1/4, 1/4 at first."""
    return numbers(w or (0, 0.25, 0.25, 0.25))


def state(model: float, w: Tensor | None = None) -> State:
    """A client with this model."""
    rows = {"w": row() if w is None else w}
    return State({"0.weight": numbers([model]).view(1, 1)}, {}, {}, {}, rows)


def inbox(models: Sequence[float], heard: Sequence[bool] = (), slot: Sequence[int] = ()) -> Inbox:
    """Replies; senders 1, 2, 3 in this order unless told otherwise."""
    return Inbox(
        {"0.weight": numbers(models).view(-1, 1, 1)},
        torch.tensor(list(heard) or [True] * len(models)),
        torch.tensor(list(slot) or list(range(1, len(models) + 1))),
    )


def probe(x: Sequence[float] = (1.0,), mask: Sequence[bool] = (), size: float = 10.0) -> Probe:
    """The star's own samples."""
    return Probe(
        numbers(x)[:, None],
        torch.zeros(len(x), dtype=torch.int64),
        torch.tensor(list(mask) or [True] * len(x)),
        torch.tensor(size, dtype=torch.float64),
        torch.zeros(len(x), dtype=torch.bool),
    )


def ctx(t: int = 0, client: int = 0) -> Context:
    """The context of a call at iteration t; an exchange every 20, the closing phase from 101 on."""
    return context("mix", 0, t, client, last=100, every=20)


def theta(state: State) -> float:
    """The one number."""
    return float(state.params["0.weight"])
