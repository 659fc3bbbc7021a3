r"""kNN-Per: FedAvg, whose predictions are mixed with those of the nearest own samples.

$p(y|x) = \lambda\,p_{kNN}(y|x) + (1-\lambda)\,p_\theta(y|x), \quad
 p_{kNN}(y|x) \propto \sum_{j \in kNN(x)} e^{-\lVert\varphi(x)-\varphi(x_j)\rVert^2/(F s)}\,[y_j = y]$

$\varphi$ are the F features that the head takes in; the k nearest are sought in the client's own training
samples: the probe, which is all of them unless `exchange.probe` is a number. Nothing is sent or remembered
beside FedAvg. Reference codes choose λ on validation samples, which are the tuner's here: λ is an option, or
chosen by `leave-one-out` on the training samples, where the network has seen the sample and the neighbours
have not, so that λ may come out too small.

Marfoq, Neglia, Vidal, Kameni: Personalized federated learning through local memorization. ICML 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor
from torch.nn.functional import one_hot

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Probe, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["KNNPer"]

GRID = 20
"""Steps from 0 to 1 in which λ is tried."""


@register("algorithm", "kNN-Per")
@dataclass(frozen=True)
class KNNPer(FedAvg):
    """FedAvg, whose predictions are mixed with those of the nearest own samples."""

    needs_classes: ClassVar[bool] = True

    k: Annotated[int, Ge(1)] = 10
    """Own samples that have a say."""
    choice: Literal["fixed", "leave-one-out"] = "fixed"
    """The choice of λ: `lam` for all, or each client's best in predicting own samples by the others."""
    lam: Annotated[float, Ge(0), Le(1)] = 0.5
    """λ, if `fixed`: the share of the nearest samples in a prediction; 0 is FedAvg."""
    scale: Annotated[float, Gt(0)] = 0.1
    """s: the width of the kernel, a squared distance for each feature; 1 in the reference code."""

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Tensor:
        store = task.features(state, probe.x)
        net = torch.softmax(task.logits(state, x), dim=-1)
        near = self.near(task.features(state, x), store, probe, probe.mask, net.shape[-1])
        return mixed(self.share_of_near(task, state, store, probe), near, net)

    def share_of_near(self, task: Task, state: State, store: Tensor, probe: Probe) -> Tensor | float:
        """Choose λ; of equally good ones, the largest, since the network has seen the samples."""
        if self.choice == "fixed":
            return self.lam
        net = torch.softmax(task.logits(state, probe.x), dim=-1)
        others = probe.mask & ~torch.eye(len(probe.y), dtype=torch.bool, device=store.device)
        near = self.near(store, store, probe, others, net.shape[-1])
        grid = torch.linspace(1, 0, GRID + 1, dtype=net.dtype, device=net.device)
        hits = mixed(grid[:, None, None], near, net).argmax(dim=-1) == probe.y
        return grid[probe.mean(hits).argmax()]

    def near(self, features: Tensor, store: Tensor, probe: Probe, who: Tensor, labels: int) -> Tensor:
        """Score labels `[m, L]` by the nearest of the samples that have a say (`who`, `[n]` or `[m, n]`)."""
        d = squared_distances(features, store).masked_fill(~who, torch.inf)
        d, nearest = d.topk(min(self.k, len(store)), largest=False)
        weight = torch.softmax(-d / (self.scale * store.shape[-1]), dim=-1).nan_to_num(0.0)  # NaN: nobody
        return (weight[..., None] * one_hot(probe.y, labels)[nearest]).sum(dim=-2)

    def search_space(self) -> SearchSpace:
        own = {"k": (5, 10), "lam": (0.25, 0.5, 0.75), "scale": (0.03, 0.1, 1.0)}
        return {**Algorithm.search_space(self), **own}


def mixed(share: Tensor | float, near: Tensor, net: Tensor) -> Tensor:
    """Mix the scores by the nearest samples with those by the network."""
    return share * near + (1 - share) * net


def squared_distances(one: Tensor, other: Tensor) -> Tensor:
    """Compute the squared distances `[m, n]` of samples `[m, F]` from samples `[n, F]`."""
    squares = one.square().sum(dim=-1)[:, None] + other.square().sum(dim=-1)
    return (squares - 2 * one @ other.mT).clamp_min(0)
