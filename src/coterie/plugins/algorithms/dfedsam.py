r"""DFedSAM: FedAvg without a server, with local steps towards flat minima.

$\theta_i \leftarrow \theta_i - \eta\,\nabla f_i\left(\theta_i + \rho\,\frac{g}{\lVert g\rVert_2}\right)$ with
$g = \nabla f_i(\theta_i)$

Both gradients are on the same mini-batch; running statistics are those of the first. The closing phase is the
same for every algorithm: plain steps.

Shi, Shen, Wei, Sun, Yuan, Wang, Tao: Improving the model consistency of decentralized federated learning.
ICML 2023.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import SearchSpace
from coterie.core.models.optim import Scale
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Info, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["RADII", "DFedSAM", "sharp_step"]

RADII = (0.01, 0.05, 0.1, 0.5)
"""Values of ρ that are worth trying."""


@register("algorithm", "DFedSAM")
@dataclass(frozen=True)
class DFedSAM(FedAvg):
    """FedAvg by sharpness-aware local steps; two gradients a step."""

    sharpness: Annotated[float, Ge(0)] = 0.05
    """ρ: how far uphill the gradient is taken; 0 is FedAvg."""

    @property
    def gradients(self) -> int:
        return 2

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        return sharp_step(task, state, batch, self.sharpness * (~ctx.closing).to(batch.lr), state.params)

    def search_space(self) -> SearchSpace:
        return {**FedAvg.search_space(self), "sharpness": RADII}


def sharp_step(
    task: Task, state: State, batch: Batch, radius: Tensor, uphill: Container[str], scale: Scale | None = None
) -> tuple[State, Info]:
    """Take a step by the gradient at a point as far as `radius` uphill in the named parameters."""
    grads, loss, buffers = task.gradients(state, batch)
    # in the order of names: a model that was saved and loaded may have its tensors in another order
    norm = torch.stack([grads[k].square().sum() for k in sorted(grads) if k in uphill]).sum().sqrt()
    reach = torch.where(norm > 0, radius / norm, 0.0)
    there = {k: p + reach * grads[k] if k in uphill else p for k, p in state.params.items()}
    sharp = task.gradients(state._replace(params=there), batch).grads
    return task.apply(state._replace(buffers=buffers), sharp, batch.lr, scale=scale), {"loss": loss}
