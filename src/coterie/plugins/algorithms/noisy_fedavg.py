r"""FedAvg under Gaussian noise: what is sent is clipped and made noisy.

$\tilde\theta_j = \theta_j \min\left(1, \frac{C}{\lVert\theta_j\rVert_2}\right) + \sigma\,\varepsilon$ with
$\varepsilon \sim \mathcal{N}(0, 1)$, new in every message

The star averages what it hears with its own model as it is. These are building blocks of differential
privacy and no more: nothing is accounted for, no ε or δ is promised, running statistics are sent as they are.

Wei, Li, Ding, Ma, Yang, Farokhi, Jin, Quek, Poor: Federated learning with differential privacy: algorithms
and performance analysis. IEEE TIFS 2020 (there: noising before aggregation, NbAFL).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["NoisyFedAvg"]


@register("algorithm", "FedAvg-Gaussian")
@dataclass(frozen=True)
class NoisyFedAvg(Algorithm):
    """FedAvg whose messages are clipped and noisy; no privacy accounting, not personalised."""

    clip: Annotated[float, Gt(0)] = 10.0
    """C: the largest norm of the parameters in a message."""
    noise: Annotated[float, Ge(0)] = 0.01
    """σ: the noise's standard deviation, added to every parameter."""

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        sent = task.select(state, self.share)
        learnt = {k: m for k, m in sent.items() if k in state.params}
        norm = torch.stack([m.square().sum() for m in learnt.values()]).sum().sqrt()
        shrink = torch.where(norm > self.clip, self.clip / norm, 1.0)
        noise = {k: ctx.stream(k).normal(m.numel()).view(m.shape).to(m) for k, m in learnt.items()}
        return {**sent, **{k: m * shrink + self.noise * noise[k] for k, m in learnt.items()}}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self.fedavg.mix(task, state, inbox, probe, ctx)

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self.fedavg.adopt(task, state, inbox, probe, ctx)

    @property
    def fedavg(self) -> FedAvg:
        """The rules that the own model follows, which is not noisy."""
        return FedAvg(share=self.share, adoption=self.adoption)

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "clip": (3.0, 10.0, 30.0)}
