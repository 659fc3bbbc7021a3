r"""Def-KT: a received model and the own one teach each other, and the received one is kept.

for k steps on own mini-batches, from a neighbour's model $\theta'$ and the own $\theta_i$:
$\theta' \leftarrow \theta' - \eta\nabla\left(\mathrm{CE} + \lambda\,\mathrm{KL}(p_i \Vert p')\right), \quad
 \theta_i \leftarrow \theta_i - \eta\nabla\left(\mathrm{CE} + \lambda\,\mathrm{KL}(p' \Vert p_i)\right)$,
and then $\theta_i \leftarrow \theta'$

Nothing is averaged, so models that are aligned differently do not cancel each other. A star keeps one
model: that of a neighbour drawn at random, the only one it asks, as in the paper; or of all in reach the one
that does best on its own samples (`choice`). Half of the paper's clients send and half receive; here stars
receive, and a broadcast is passed over unless `adoption` says otherwise. Steps are those of the federation's
optimiser from rest; the optimiser's own memory stays that of the client.

Li, Li, Varshney: Decentralized federated learning via mutual knowledge transfer. IEEE Internet of Things
Journal 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import ranks
from coterie.core.ingredients.mutual_learning import own_batch, taught
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Probe, Reachable, State

__all__ = ["DefKT"]


@register("algorithm", "Def-KT")
@dataclass(frozen=True)
class DefKT(Algorithm):
    """Takes over one neighbour's model, after that and the own one taught each other on own samples."""

    needs_classes: ClassVar[bool] = True

    adoption: Adoption = "ignore"
    """The use that a neighbour makes of the star's broadcast: `replace` its own model, `average` half and
    half, `mix`: learn mutually with it and keep it, or `ignore` it."""
    choice: Literal["random", "best"] = "random"
    """The model that is kept: of a neighbour drawn at random, or the one with the smallest loss of all."""
    steps: Annotated[int, Ge(0)] = 10
    """k: steps of mutual learning; 0 takes the received model as it is."""
    batch: Annotated[int, Ge(1)] = 16
    """Samples of a mini-batch of mutual learning."""
    rate: Annotated[float, Gt(0)] = 0.05
    """η: the size of a step of mutual learning."""
    lam: Annotated[float, Ge(0)] = 1.0
    """λ: the weight of what the other model says; 0 tunes the received model on the own samples alone."""

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        pairs = min(heard, 1) + (told if self.adoption == "mix" else 0)
        return 2 * self.steps * pairs

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        if self.choice == "best":
            return reachable.mask
        return first_at_random(reachable.slot, reachable.mask, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        losses = partial(task.losses, x=probe.x, y=probe.y)
        loss = probe.mean(task.map_over_messages(losses, state, inbox.messages))
        heard = inbox.heard & torch.isfinite(loss)
        if self.choice == "best":
            kept = heard & (ranks(torch.where(heard, loss, torch.inf)) == 0)
        else:
            kept = first_at_random(inbox.slot, heard, ctx)
        received = task.merge(state, {k: m[kept.long().argmax()] for k, m in inbox.messages.items()})
        learnt = self.learn(task, received, state, probe, ctx)
        params, buffers = (
            {k: torch.where(kept.any(), new, old[k]) for k, new in part.items()}
            for part, old in ((learnt.params, state.params), (learnt.buffers, state.buffers))
        )
        return state._replace(params=params, buffers=buffers), {
            "distance": loss,
            "weight": kept.to(loss),
            "heard": heard,
        }

    def learn(self, task: Task, one: State, other: State, probe: Probe, ctx: Context) -> State:
        """Let two models teach each other, and return the first."""
        one, other = (m._replace(optim=task.optimizer.init(m.params)) for m in (one, other))
        for step in range(self.steps):
            batch = own_batch(probe, ctx, step, self.batch, self.rate)
            said = task.logits(one, batch.x), task.logits(other, batch.x)
            one = self.descend(task, one, batch, said[1])
            other = self.descend(task, other, batch, said[0])
        return one

    def descend(self, task: Task, state: State, batch: Batch, teacher: Tensor) -> State:
        """Take one step on the labels and a teacher's logits `[B, L]`."""
        grads, _, buffers = task.gradients(state, batch, objective=taught(task, teacher, 1.0, self.lam))
        return task.apply(state._replace(buffers=buffers), grads, batch.lr)

    def search_space(self) -> SearchSpace:
        own = {"steps": (5, 10, 20), "rate": (0.02, 0.05, 0.1), "lam": (0.5, 1.0, 2.0)}
        return {"adoption": ("ignore", "mix"), "choice": ("random", "best"), **own}


def first_at_random(slot: Tensor, among: Tensor, ctx: Context) -> Tensor:
    """Mark one of K at random, `[K]` bool; it is the same one however they are ordered."""
    u = ctx.stream("one").uniform(1, client=slot)[:, 0]
    return among & (ranks(torch.where(among, u, torch.inf)) == 0)
