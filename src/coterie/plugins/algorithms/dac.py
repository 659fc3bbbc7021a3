r"""DAC: ask those most often whose models did best on your own data, and average with all that you asked.

$p_{ij} \propto \exp(\tau s_{ij}), \quad s_{ij} = 1 / f_i(\theta_j), \quad
 \theta_i \leftarrow \frac{1}{n_s+1}\left(\theta_i + \sum_{j\in S_i}\theta_j\right)$

$S_i$ are $n_s$ of those in reach, drawn without replacement by $p_{ij}$, and $s_{ij}$ is as of the last time
that j was heard, on client i's training samples. All models count alike: numbers of samples are not sent.

In the paper a peer never heard is scored by what others report of it. Rows are private here, and their
entries mean other peers to another client, so a peer never heard scores as the best one that was.

Listo Zec, Ekblom, Willbo, Mogren, Girdzijauskas: Decentralized adaptive clustering of deep nets is beneficial
for client collaboration. FL-IJCAI workshop 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import mean_model, ranks, write_row
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Reachable, Start, State

__all__ = ["DAC"]

LEAST = 1e-6
"""A loss below which scores grow no further."""
GROWTH = 0.2
"""Growth of τ with each exchange of the schedule, where τ grows."""


@register("algorithm", "DAC")
@dataclass(frozen=True)
class DAC(Algorithm):
    """The mean with those asked, who are drawn by how well their last models did on the own data."""

    adoption: Adoption = "ignore"  # each client chooses for itself
    sampled: Annotated[int, Ge(1)] = 2
    """n_s: how many are asked and averaged; 5 of 99 in the paper."""
    tau: Annotated[float, Ge(0)] = 30.0
    """τ: how much a better score raises the chance to be asked; 0: all have the same chance."""
    schedule: Literal["fixed", "growing"] = "fixed"
    """τ as it is, or growing from 1 to 1 + τ in the first 30 exchanges or so (DAC-var)."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return Algorithm.init(self, task, start, ctx)._replace(rows={"score": torch.zeros_like(start.row)})

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        known = state.rows["score"]
        score = torch.where(known > 0, known, known.max())[reachable.slot]
        u = ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0]
        gumbel = -(-u.log()).log()  # the largest of log p + gumbel are a draw without replacement
        drawn = torch.where(reachable.mask, self.sharpness(ctx) * score + gumbel, -torch.inf)
        return reachable.mask & (ranks(-drawn) < self.sampled)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        losses = partial(task.losses, x=probe.x, y=probe.y)
        loss = probe.mean(task.map_over_messages(losses, state, inbox.messages))
        inbox = inbox._replace(heard=inbox.heard & torch.isfinite(loss))
        score = 1 / loss.clamp_min(LEAST)
        rows = {"score": write_row(state.rows["score"], score, inbox)}
        mean = mean_model(self.offer(task, state, probe, ctx), inbox)
        info = {"distance": loss, "weight": score, "heard": inbox.heard}
        return task.merge(state, mean)._replace(rows=rows), info

    def sharpness(self, ctx: Context) -> Tensor | float:
        """Compute τ at this iteration."""
        if self.schedule == "fixed":
            return self.tau
        exchanges = (ctx.t // ctx.every).double()
        return 2 * self.tau / (1 + torch.exp(-GROWTH * exchanges)) - self.tau + 1

    def search_space(self) -> SearchSpace:
        return {"adoption": ("ignore", "average"), "sampled": (1, 2, 3), "tau": (1.0, 10.0, 30.0)}
