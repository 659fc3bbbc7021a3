r"""Per-FedAvg: FedAvg of a model that is not good itself, but becomes so by a step on own samples (MAML).

$\theta' = \theta_i - \alpha\nabla f(\theta_i; B_1), \quad
 \theta_i \leftarrow \theta_i - \beta\,(I - \alpha\nabla^2 f(\theta_i; B_1))\,\nabla f(\theta'; B_2)$

$B_1$ and $B_2$ are the halves of a mini-batch; of fewer than 8 samples all are in both. First order (FO)
leaves the second derivative out; Hessian-free (HF) has differences of gradients at
$\theta_i \pm \delta\nabla f(\theta'; B_2)$ in its place, on $B_1$ again instead of a third batch. Reference
codes are first order with α = β = η. The closing phase is the step to own samples that the model was prepared
for, and the same for every algorithm.

Fallah, Mokhtari, Ozdaglar: Personalized federated learning with theoretical guarantees: a model-agnostic
meta-learning approach. NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Gradient, Task
from coterie.core.types import Batch, Context, Info, State, Tensors
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["PerFedAvg"]

SMALLEST = 4
"""Samples of a half; a normalisation of fewer, of which some may be equal, would magnify rounding errors."""
DELTA = 1e-3
"""δ: how far from the model gradients are compared, as a multiple of ∇f(θ'; B_2)."""


@register("algorithm", "Per-FedAvg")
@dataclass(frozen=True)
class PerFedAvg(FedAvg):
    """FedAvg of a model that becomes good by a step on own samples; two or four gradients a step."""

    order: Literal["FO", "HF"] = "FO"
    """The second derivative: left out (first order), or by differences of gradients (Hessian-free)."""
    alpha: Annotated[float, Ge(0)] = 1.0
    """α: the step that is looked ahead, as a multiple of η."""
    beta: Annotated[float, Gt(0)] = 1.0
    """β: the step that is taken, as a multiple of η."""

    @property
    def gradients(self) -> int:
        return 2 if self.order == "FO" else 4

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        plain = task.gradients(state, batch)
        ahead = self.ahead(task, state, batch, plain)
        grads, buffers = (
            {k: torch.where(ctx.closing, v, after[k]) for k, v in now.items()}
            for now, after in ((plain.grads, ahead.grads), (plain.buffers, ahead.buffers))
        )
        lr = torch.where(ctx.closing, batch.lr, self.beta * batch.lr)
        return task.apply(state._replace(buffers=buffers), grads, lr), {"loss": plain.loss}

    def ahead(self, task: Task, state: State, batch: Batch, plain: Gradient) -> Gradient:
        """Differentiate the loss that the model has after a step, by the model before that step."""
        first, second = halves(batch)
        alpha = self.alpha * batch.lr

        def at(direction: Tensors, by: Tensor | float, half: Batch) -> Gradient:
            moved = {k: p + by * direction[k] for k, p in state.params.items()}
            return task.gradients(state._replace(params=moved), half)

        step = plain if first is batch else task.gradients(state, first)
        found = at(step.grads, -alpha, second)
        if self.order == "FO":
            return found
        up, down = (at(found.grads, by, first).grads for by in (DELTA, -DELTA))
        grads = {k: g - alpha * (up[k] - down[k]) / (2 * DELTA) for k, g in found.grads.items()}
        return found._replace(grads=grads)

    def search_space(self) -> SearchSpace:
        own = {"order": ("FO", "HF"), "alpha": (0.1, 0.3, 1.0), "beta": (0.3, 1.0)}
        return {**Algorithm.search_space(self), **own}


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Part a mini-batch, the middle one of an odd number in both; one too small to part is both halves."""
    n = len(batch.x)
    if n < 2 * SMALLEST:
        return batch, batch
    first, second = slice(0, (n + 1) // 2), slice(n // 2, n)
    return (
        batch._replace(x=batch.x[first], y=batch.y[first]),
        batch._replace(x=batch.x[second], y=batch.y[second]),
    )
