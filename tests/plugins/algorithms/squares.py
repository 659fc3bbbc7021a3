"""Squared losses of models of one or two numbers, so that local steps can be worked out by hand.

With x = 1, `ONE` has f(θ) = ½(θ - y)², and `TWO`, of base b and head h, f(b, h) = ½(hb - y)².
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coterie.core.algorithm import Algorithm
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Start, State, Tensors
from tests.own_loss import WithLoss
from tests.plugins.algorithms.scalars import numbers, row

__all__ = ["ONE", "TWO", "batch", "client", "moment", "values"]


def half_square(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs[:, 0] - y).square().mean() / 2


ONE, TWO = (
    Task(nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(n))).double(), WithLoss(half_square))
    for n in (1, 2)
)


def moment(t: int = 2, every: int = 4, last: int = 100) -> Context:
    """A moment of client 0; the closing phase comes after iteration `last`."""
    return context("local", 0, t, 0, last=last, every=every)


def client(algorithm: Algorithm, task: Task, *weights: float) -> State:
    """A client with a model of these numbers, as it begins."""
    params = {f"{i}.weight": numbers([w]).view(1, 1) for i, w in enumerate(weights)}
    return algorithm.init(task, Start(params, {}, row(), torch.tensor(0)), moment(0))


def batch(y: float, lr: float = 0.1) -> Batch:
    """One sample, x = 1."""
    return Batch(numbers([1.0])[:, None], numbers([y]), numbers([lr])[0], torch.tensor(0))


def values(tensors: Tensors) -> list[float]:
    """The numbers, in the order of their names."""
    return [float(v) for _, v in sorted(tensors.items())]
