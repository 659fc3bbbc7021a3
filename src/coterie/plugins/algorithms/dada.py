r"""Dada: learn models and graph together; near models of small loss are linked, and linked models attract.

$\min_{\theta,\,w \ge 0}\; \sum_i d_i c_i f_i(\theta_i) + \frac{\mu_1}{2} \sum_{i<j} w_{ij} z_{ij}
 - \mu_2 \sum_i \log d_i + \mu_2 \lambda \sum_{i<j} w_{ij}^2$

with degrees $d_i = \sum_j w_{ij}$, confidences $c_i = \min(|X_i| / c_{base}, 1)$ and the models' distances
$z_{ij} = \lVert\theta_i - \theta_j\rVert^2$. An exchange is a step of size γ in the weights of those heard:

$w_{ij} \leftarrow \max\left(0,\; w_{ij} - \gamma\left(c_i f_i + c_j f_j + \frac{\mu_1}{2} z_{ij}
 - \frac{\mu_2}{d_i} - \frac{\mu_2}{d_j} + 2\mu_2\lambda w_{ij}\right)\right)$

Local steps go down $f_i + \frac{\mu_1}{2c_i}\lVert\theta_i - u_i\rVert^2$, client i's part of the objective
over $d_i c_i$, where $u_i$ is the mean by $w_{ij}$ of the models heard last; none goes past $u_i$. The
closing phase is the same for every algorithm: nothing pulls there.

Each client has its own row, which need not agree with the others'. A message holds $c_j f_j$ and $d_j$, too:
it tells others how well a client does and how much it collaborates. In the reference code, which is for
linear models, μ1 = μ, μ2 = μ/2, this λ is λμ/2, and γ adapts to the objective, which no client here knows.

Zantedeschi, Bellet, Tommasi: Fully decentralized joint learning of personalized models and collaboration
graphs. AISTATS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import squared_distances, weighted_sum, write_row
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State, Tensors

__all__ = ["Dada"]

LOSS, DEGREE = "own.loss", "own.degree"
"""The names under which c_j f_j and d_j travel, with the model, `[1]` each."""
PULL = "pull"
"""The name under which the strength of the pull is remembered, `[]`: 0 before anybody was heard."""
BARRIER = 0.01
"""The degree below which -log d is not followed further down: a row of zeros stays finite."""


@register("algorithm", "Dada")
@dataclass(frozen=True)
class Dada(Algorithm):
    """Models pulled towards those of a learnt graph; also sends the client's loss and degree."""

    adoption: Adoption = "mix"  # models are pulled, never replaced
    mu1: Annotated[float, Ge(0)] = 0.1
    """μ1: the pull, and the sensitivity to the models' distance; 0 is Local."""
    mu2: Annotated[float, Ge(0)] = 0.2
    """μ2: reward for collaborating."""
    lam: Annotated[float, Ge(0)] = 0.1
    """λ: the cost of uneven weights; the larger, the more neighbours."""
    gamma: Annotated[float, Gt(0)] = 0.1
    """γ: the size of a step in the weights."""
    c_base: Annotated[float, Gt(0)] = 100.0
    """Training samples of a client that is fully confident."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)._replace(rows={"w": start.row})
        sent = task.select(own, self.share)
        return anchored(own, {k: v for k, v in sent.items() if k in own.params}, start.row.new_zeros(()))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        strength = torch.minimum(state.memory[PULL], 1 / batch.lr) * (~ctx.closing).to(batch.lr)
        return task.step(state, batch, pull=(anchor(state), strength), donate=True)

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        sent = task.select(state, self.share)
        loss = self.confidence(probe) * probe.mean(task.losses(state, probe.x, probe.y))
        said = {LOSS: loss[None], DEGREE: state.rows["w"].sum()[None]}
        return {**sent, **{k: v.to(next(iter(sent.values()))) for k, v in said.items()}}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        w, z = self.learn_graph(state, self.offer(task, state, probe, ctx), inbox)
        w_j = torch.where(inbox.heard, w[inbox.slot], 0.0)
        total = w_j.sum()
        new = self.attract(state, w, w_j / torch.where(total > 0, total, 1.0), inbox, probe)
        return new, {"distance": z, "weight": w_j}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption != "mix":
            return Algorithm.adopt(self, task, state, inbox, probe, ctx)
        w, z = self.learn_graph(state, self.offer(task, state, probe, ctx), inbox)
        # As far as the star is trusted, measured by the neighbour that is trusted most.
        w_i = torch.where(inbox.heard, w[inbox.slot], 0.0)
        trust = w_i / w.max().clamp_min(torch.finfo(w.dtype).tiny)
        share = torch.where(state.memory[PULL] > 0, trust, (w_i > 0).to(w))
        return self.attract(state, w, share, inbox, probe), {"distance": z, "weight": w_i}

    def learn_graph(self, state: State, own: Message, inbox: Inbox) -> tuple[Tensor, Tensor]:
        """Take a step in the weights of those heard: the new row `[M]`, and the distances `[K]`."""
        row, theirs = state.rows["w"], inbox.messages
        w = row[inbox.slot]
        z = squared_distances(own, {k: m for k, m in theirs.items() if k in state.params})
        d_i, d_j = (d.clamp_min(BARRIER) for d in (own[DEGREE], theirs[DEGREE][:, 0]))
        near = own[LOSS] + theirs[LOSS][:, 0] + self.mu1 / 2 * z
        grad = near - self.mu2 * (1 / d_i + 1 / d_j) + 2 * self.mu2 * self.lam * w
        return write_row(row, (w - self.gamma * grad).clamp_min(0), inbox), z

    def attract(self, state: State, w: Tensor, share: Tensor, inbox: Inbox, probe: Probe) -> State:
        """Move what pulls towards the models heard by their shares `[K]`; no share, no move."""
        last, total = anchor(state), share.sum()
        heard = weighted_sum(share, {k: inbox.messages[k] for k in last})
        mean = {k: (1 - total) * v + heard[k] for k, v in last.items()}
        known = (total > 0) | (state.memory[PULL] > 0)
        pull = torch.where(known & (w.sum() > 0), self.mu1 / self.confidence(probe), 0.0)
        return anchored(state._replace(rows={"w": w}), mean, pull.to(w))

    def confidence(self, probe: Probe) -> Tensor:
        """Compute c_i."""
        return (probe.size / self.c_base).clamp_max(1)

    def search_space(self) -> SearchSpace:
        return {"adoption": ("mix", "ignore"), "mu1": (0.03, 0.1, 0.3), "mu2": (0.1, 0.2, 0.5, 1.0)}


def anchor(state: State) -> Tensors:
    """Find the model that pulls."""
    return unpack_tensors("anchor", state.memory)


def anchored(state: State, model: Tensors, pull: Tensor) -> State:
    """Remember the model that pulls, and how strongly."""
    return state._replace(memory={**pack_tensors("anchor", model), PULL: pull})
