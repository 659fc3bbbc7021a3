r"""FedFomo: move towards each model by as much as that model does better on held-out samples of your own.

$w_{ij} = \frac{F_i(\theta_i^{old}) - F_i(\theta_j)}{\lVert\theta_j - \theta_i^{old}\rVert_2}, \quad
 \theta_i \leftarrow \theta_i^{old} + \sum_j \frac{w_{ij}^+}{\sum_k w_{ik}^+}(\theta_j - \theta_i^{old})$

j runs over those heard and client i's own model as it was trained since; $\theta_i^{old}$ is its model after
its last exchange, $F_i$ the loss on samples of which no mini-batch is made (on all, if a client has none).
If no model is better than the old one, the own one stays as it is; the paper would go back to the old one.

Affinities $p_{ij} \leftarrow p_{ij} + w_{ij}$ say whom to ask: with probability 1 - ε the best, else some at
random; ε shrinks with time.

Zhang, Sapra, Fidler, Yeung, Alvarez: Personalized federated learning with first order model optimization.
ICLR 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import squared_distances, weighted_sum
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Reachable, Start, State

__all__ = ["FedFomo"]


@register("algorithm", "FedFomo")
@dataclass(frozen=True)
class FedFomo(Algorithm):
    """A step towards the models that do better on held-out samples, the further the better they do."""

    holds_out: ClassVar[bool] = True

    adoption: Adoption = "mix"  # a broadcast is weighed like a reply
    sampled: Annotated[int, Ge(1)] = 5
    """M: how many are asked."""
    epsilon: Annotated[float, Ge(0), Le(1)] = 0.3
    """ε: the probability to ask at random, at first."""
    decay: Annotated[float, Ge(0), Le(1)] = 0.05
    """The decrease of ε with each exchange of the schedule."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)._replace(rows={"affinity": torch.zeros_like(start.row)})
        return self.remembered(task, own)

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        u = ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0]
        random = ctx.stream("explore").uniform(1)[0] < self.epsilon - self.decay * (ctx.t // ctx.every)
        liked = torch.where(random, 0.0, state.rows["affinity"][reachable.slot])
        liked = torch.where(reachable.mask, liked, -torch.inf)
        behind = (liked > liked[:, None]) | ((liked == liked[:, None]) & (u > u[:, None]))
        return reachable.mask & (behind.sum(dim=1) < self.sampled)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own, old = self.offer(task, state, probe, ctx), unpack_tensors("old", state.memory)
        models = {k: torch.cat([m, own[k][None]]) for k, m in inbox.messages.items()}
        held = torch.where((probe.held & probe.mask).any(), probe.held, probe.mask)
        losses = partial(task.losses, x=probe.x, y=probe.y)
        loss = probe.mean(task.map_over_messages(losses, state, models), where=held)
        before = probe.mean(losses(task.merge(state, old)), where=held)
        learnt = {k: m for k, m in models.items() if k in state.params}
        w = gain(before, loss, squared_distances(old, learnt).sqrt())
        heard = inbox.heard & torch.isfinite(w[:-1])
        better = torch.where(torch.cat([heard, heard.new_ones(1)]), w.clamp_min(0).nan_to_num(), 0.0)
        total = better.sum()
        share = better / torch.where(total > 0, total, 1.0)
        mixed = {k: torch.where(total > 0, m, own[k]) for k, m in weighted_sum(share, models).items()}
        row = state.rows["affinity"]
        step = torch.where(heard, w[:-1], 0.0).to(row)
        new = task.merge(state, mixed)._replace(rows={"affinity": row.scatter_add(0, inbox.slot, step)})
        info = {"distance": loss[:-1], "weight": share[:-1], "heard": heard}
        return self.remembered(task, new), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = Algorithm.adopt(self, task, state, inbox, probe, ctx)
        return self.remembered(task, new) if self.listens else state, info

    def remembered(self, task: Task, state: State) -> State:
        """Remember the model as an exchange left it."""
        return state._replace(memory=pack_tensors("old", task.select(state, self.share)))

    def search_space(self) -> SearchSpace:
        return {"adoption": ("mix", "average", "ignore"), "sampled": (2, 3, 5), "epsilon": (0.0, 0.3, 1.0)}


def gain(before: Tensor, loss: Tensor, distance: Tensor) -> Tensor:
    """Compute the loss that is gained by moving to each model, per unit of the way there, `[K]`."""
    return torch.where(distance > 0, (before - loss) / distance, 0.0)
