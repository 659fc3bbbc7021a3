"""Tables of one vector for each label, and a model that says its sample: outputs and features are given."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coterie.core.algorithm import Algorithm
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Inbox, Probe, Start, State
from tests.plugins.algorithms.scalars import numbers, row

__all__ = ["IDENTITY", "batch", "client", "probe", "tables"]

IDENTITY = Task(nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)).double())
"""Two labels: with both weights the identity, features and logits are the sample itself."""


def client(algorithm: Algorithm, head: float = 1.0) -> State:
    """A client as it begins; its features are the sample, its logits that times `head`."""
    eye = torch.eye(2, dtype=torch.float64)
    start = Start({"0.weight": eye, "1.weight": head * eye}, {}, row(), torch.tensor(0))
    return algorithm.init(IDENTITY, start, context("init", 0, 0, 0, last=100, every=4))


def tables(*senders: tuple[Sequence[float] | None, Sequence[float] | None], weight: float = 1.0) -> Inbox:
    """Tables as they arrive: of each sender the vectors of labels 0 and 1, None if there is none."""
    mean = torch.stack([torch.stack([numbers(v or (0, 0)) for v in sender]) for sender in senders])
    has = torch.stack([numbers([weight * (v is not None) for v in sender]) for sender in senders])
    messages = {"labels.mean": mean, "labels.weight": has}
    return Inbox(messages, torch.ones(len(senders), dtype=torch.bool), torch.arange(len(senders)) + 1)


def probe(x: Sequence[Sequence[float]], y: Sequence[int]) -> Probe:
    """Own samples."""
    n = len(y)
    real, none = torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    return Probe(numbers2(x), torch.tensor(y), real, torch.tensor(float(n)).double(), none)


def batch(x: Sequence[Sequence[float]], y: Sequence[int], lr: float = 0.1) -> Batch:
    """A mini-batch."""
    return Batch(numbers2(x), torch.tensor(y), numbers([lr])[0], torch.tensor(0))


def numbers2(rows: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)
