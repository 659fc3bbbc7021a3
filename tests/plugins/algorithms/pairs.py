"""A private model and a proxy of two logits each, which are their weights, since x = 1."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coterie.core.algorithm import Algorithm
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Inbox, Start, State
from coterie.plugins.algorithms.fml import proxy_model
from tests.plugins.algorithms.scalars import numbers, row
from tests.plugins.algorithms.squares import moment

__all__ = ["PAIR", "batch", "client", "inbox", "logits"]

PROXY = Task(nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).double())
PAIR = Task(nn.Linear(1, 2, bias=False).double(), proxy=PROXY)


def client(algorithm: Algorithm, private: Sequence[float], proxy: Sequence[float]) -> State:
    """A client as it begins, with these logits."""
    theta, phi = (numbers(z)[:, None] for z in (private, proxy))
    start = Start({"weight": theta}, {}, row(), torch.tensor(0), ({"1.weight": phi}, {}))
    return algorithm.init(PAIR, start, moment(0))


def logits(state: State) -> tuple[list[float], list[float]]:
    """What the private model says, and what the proxy does."""
    theta, phi = state.params["weight"], proxy_model(state).params["1.weight"]
    return theta[:, 0].tolist(), phi[:, 0].tolist()


def batch(*labels: int, lr: float = 1.0) -> Batch:
    """Samples x = 1 of these labels."""
    ones: Tensor = torch.ones(len(labels), 1, dtype=torch.float64)
    return Batch(ones, torch.tensor(labels), numbers([lr])[0], torch.tensor(0))


def inbox(*proxies: Sequence[float]) -> Inbox:
    """Proxies with these logits, as they arrive."""
    messages = {"1.weight": torch.stack([numbers(z)[:, None] for z in proxies])}
    return Inbox(messages, torch.ones(len(proxies), dtype=torch.bool), torch.arange(len(proxies)) + 1)
