r"""KD-PDFL beyond the paper: its reading `trust`, in which nobody pays to join.

The idea is the paper's: run the neighbours' models on your own data, keep a private row of how far you trust
each, mix accordingly. Four of its lines are other ones (docs/science.md has what each is worth):

    eq. 3   a neighbour is judged by the labels, not by the own model's outputs, which on samples that were
            learned are the labels, but before that, and on models that say nothing, mislead. Outputs are
            centred and put on the own frequencies π of labels, so that nobody seems a stranger only
            because he has met other labels more often:
            $\log f_j = \frac1n \sum_x \log \mathrm{softmax}(z_j(x) - \bar z_j + \log \pi)_{y(x)}$
            In other tasks than classification, it is their loss on the own targets, in nats
            (`TaskKind.judge`, `TaskKind.nats`)
            Where outputs are probabilities, models are made as large as the own one first: who shrinks or
            blows up a model says the same less or more surely, and pulls the average away
    eq. 2   trust is the neighbour's fit, by the best fit seen so far: $w_j = (f_j / \max_k f_k)^{1/\tau}$;
            who knows less than a quarter of what the own model knows (nats below π's own loss) has no say:
            such are all who lie while nobody knows much yet. Whose model cannot be averaged with the own,
            though it may say the same, counts as one who knows nothing: half way between both, no less may
            be known than the lesser of them knows
    eq. 4   the own model counts as one that is trusted:
            $\theta_i = (\theta_i + \sum_j w_j \theta_j) / (1 + \sum_j w_j)$
    adopt   a broadcast is taken as far as its sender is trusted:
            $\theta_j = w_i \theta_i + (1 - w_i) \theta_j$

Where nobody fits worse than the best, and all are as large, this is FedAvg. The model that is tested is the
mean over the closing phase (`core/ingredients/closing_mean.py`). Where links cost, `asked` neighbours are
drawn with chances as their weights; who was never heard has that of the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.closing_mean import begin_mean, mean_or_model, update_mean
from coterie.core.ingredients.messages import ranks, resized, write_row
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Reachable, Start, State, Tensors
from coterie.plugins.algorithms._distilling import Distilling

__all__ = ["TrustReading"]

LEAST = 0.25
"""The least that a neighbour must know of the own labels, as a share of what the own model knows."""
ALIKE = 1e-3
"""Nats by which the mean of two models may seem worse than the worse of them, by rounding alone."""


@dataclass(frozen=True)
class TrustReading(Distilling):
    """Neighbours weighted by how well their models explain the client's own labels."""

    tau: Annotated[float, Gt(0)] = 0.3
    """The temperature, in nats: a neighbour whose loss is `tau` above the best one's has a weight of 1/e."""

    asked: Annotated[int, Ge(0)] = 0
    """Neighbours that a star asks, the promising ones and some unknown, and that hear its broadcast; 0: all
    in reach."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        rows = {"w": start.row, "fit": torch.zeros_like(start.row)}
        return state._replace(rows=rows)

    def close(self, task: Task, state: State, ctx: Context) -> State:
        return begin_mean(state)

    def settle(self, task: Task, state: State, ctx: Context) -> State:
        return update_mean(state)

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        if not self.asked:
            return reachable.mask
        log_fit = state.rows["fit"].log()
        known = torch.where(log_fit > -torch.inf, log_fit, log_fit.max())  # of nobody, if none is
        u = ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0]
        gumbel = -(-u.log()).log()  # the largest of log p + gumbel are a draw without replacement
        drawn = (known.nan_to_num(neginf=0.0) / self.tau)[reachable.slot] + gumbel
        return reachable.mask & (ranks(torch.where(reachable.mask, -drawn, torch.inf)) < self.asked)

    @property
    def chooses(self) -> bool:
        return self.asked > 0

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        inbox, rows, w_j, d = self.judge(task, state, inbox, probe)
        share = w_j / (1 + w_j.sum())
        return self.learned(task, state, inbox, share, probe, ctx)._replace(rows=rows), {
            "distance": d,
            "weight": w_j,
            "confidence": 1 - share.sum(),
            "heard": inbox.heard,
        }

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if not self.listens:
            return state, {}
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        inbox, rows, w_i, d = self.judge(task, state, inbox, probe)
        share = w_i if self.adoption == "replace" else w_i / 2
        return self.learned(task, state, inbox, share, probe, ctx)._replace(rows=rows), {
            "distance": d,
            "weight": w_i,
            "confidence": 1 - share.sum(),
            "heard": inbox.heard,
        }

    def judge(
        self, task: Task, state: State, inbox: Inbox, probe: Probe
    ) -> tuple[Inbox, Tensors, Tensor, Tensor]:
        """Find what can be judged, the new rows `[M]`, the weights of those heard and their losses `[K]`."""
        inbox = self.resized(task, state, inbox)
        loss = self.losses(task, state, inbox, probe)
        own = task.logits(state, probe.x)
        known, nothing = task.kind.judge(torch.stack([own, task.kind.blind(own, probe)]), probe)
        if self.own_shape == "average":
            half_way = self.losses(task, state, self.half_way(task, state, inbox), probe)
            worse = torch.maximum(loss, known).clamp_max(nothing)
            lost = ~(task.kind.nats(half_way) <= task.kind.nats(worse) + ALIKE)
            loss = torch.where(lost & inbox.own, torch.maximum(loss, nothing), loss)
        # A model too wild to be judged counts as not heard.
        inbox = inbox._replace(heard=inbox.heard & torch.isfinite(loss))
        row = state.rows["fit"]
        fit = write_row(row, torch.exp(-task.kind.nats(loss)), inbox)
        bar = torch.exp(-task.kind.nats(nothing - LEAST * (nothing - known).clamp_min(0)))
        weight = torch.where(fit > bar, (fit / fit.max()) ** (1 / self.tau), 0.0)
        w_j = torch.where(inbox.heard, weight[inbox.slot], 0.0)
        return inbox, {"w": write_row(state.rows["w"], w_j, inbox), "fit": fit}, w_j, loss

    def losses(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> Tensor:
        """Judge the outputs of all models of an inbox on the own samples, `[K]`."""
        z = task.look(lambda its, one: its.logits(one, probe.x), state, inbox)
        return task.kind.judge(z, probe)

    def half_way(self, task: Task, state: State, inbox: Inbox) -> Inbox:
        """Put the mean of the own model and each of those heard in that one's place."""
        own = task.select(state, self.share)
        return inbox._replace(messages={k: (own[k] + m) / 2 for k, m in inbox.messages.items()})

    def resized(self, task: Task, state: State, inbox: Inbox) -> Inbox:
        """Make models as large as the own one where that changes how sure they are, not what they say."""
        learns = {k: m for k, m in task.select(state, self.share).items() if k in state.params}
        if not (learns and task.kind.has_probabilities):
            return inbox
        sent = {k: m for k, m in inbox.messages.items() if k in learns}
        return inbox._replace(messages={**inbox.messages, **resized(learns, sent)})

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        return mean_or_model(state)

    def search_space(self) -> SearchSpace:
        return {}  # one setting for all: what is left to tune are learning rates
