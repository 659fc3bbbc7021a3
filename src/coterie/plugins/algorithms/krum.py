r"""Krum: keep the one model that lies closest to most of the others.

$\theta_i \leftarrow \theta_{\arg\min_j s(j)}, \quad s(j) = \sum_k \lVert\theta_j - \theta_k\rVert^2$

over the $n - f - 2$ models k nearest to j, where n models (the star's own is one) hold f bad ones. If several
have the least score, as the two of a closest pair do where $n - f - 2 = 1$, their mean is taken; if
$n - f - 2 < 1$, there are too few to tell, and the star keeps its own.

Blanchard, El Mhamdi, Guerraoui, Stainer: Machine learning with adversaries: Byzantine tolerant gradient
descent. NeurIPS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.messages import squared_distances, weighted_sum
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, State

__all__ = ["Krum"]


@register("algorithm", "Krum")
@dataclass(frozen=True)
class Krum(Algorithm):
    """The one model that is nearest to the others; not personalised."""

    bad: Annotated[float, Ge(0), Lt(0.5)] = 0.3
    """f/n: the share of the models, own and heard, that may be bad; f is rounded down."""

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.offer(task, state, probe, ctx)
        models = {k: torch.cat([m[None], inbox.messages[k]]) for k, m in own.items()}
        there = torch.cat([inbox.heard.new_ones(1), inbox.heard])
        chosen = self.choice(models, there)
        return task.merge(state, weighted_sum(chosen, models)), {"weight": chosen[1:]}

    def choice(self, models: Message, there: Tensor) -> Tensor:
        """Choose the share of each model `[n]` in the result, of those that are `there` `[n]`."""
        n = there.sum()
        nearest = (n - torch.floor(self.bad * n) - 2).long()
        others = ~torch.eye(len(there), dtype=torch.bool, device=there.device)
        d = torch.where(others & there & there[:, None], pairwise_distances(models), torch.inf)
        score = d.sort(dim=1).values.cumsum(dim=1).index_select(1, (nearest - 1).clamp_min(0)[None])[:, 0]
        best = (score == score.min()) & score.isfinite() & (nearest >= 1)
        best = torch.where(best.any(), best, ~others[0]).to(d.dtype)  # none: the own, which comes first
        return best / best.sum()

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "bad": (0.1, 0.2, 0.3, 0.4)}


def pairwise_distances(models: Message) -> Tensor:
    """Compute `[K, K]` squared, of all pairs of K models; row by row, since K² differences would not fit."""
    count = len(next(iter(models.values())))
    return torch.stack(
        [squared_distances({k: m[i] for k, m in models.items()}, models) for i in range(count)]
    )
