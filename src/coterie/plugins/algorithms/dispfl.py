r"""DisPFL: every client learns, sends and averages a sparse model with a mask of its own.

$\theta_i \leftarrow m_i \odot \frac{\sum_j \theta_j}{\sum_j m_j}$, entry by entry, over the own model and the
ones heard; local steps move active weights only

At each of its exchanges a client first renews its mask: in every layer the $\lceil r_t \cdot active \rceil$
smallest weights are dropped, $r_t = \frac{a}{2}\left(1 + \cos\frac{\pi t}{T}\right)$, and as many others
regrown, those with the largest gradient (the paper) or any (`random`, as in the authors' scripts). A mask is
not sent: it is where a model is not 0. Biases and all other vectors are whole. The closing phase keeps masks.

Dai, Shen, He, Tian, Tao: DisPFL: towards communication-efficient personalized federated learning via
decentralized sparse training. ICML 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.messages import mean_model, ranks, weighted_sum
from coterie.core.ingredients.probe_loss import probe_gradient
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State, Tensors

__all__ = ["DisPFL"]


@register("algorithm", "DisPFL")
@dataclass(frozen=True)
class DisPFL(Algorithm):
    """Sparse models under masks of their own, averaged entry by entry; half the bytes."""

    adoption: Adoption = "mix"
    density: Annotated[int, Ge(1), Le(100)] = 50
    """Percent of the weights that are active, in whole numbers; 100 is FedAvg."""
    layers: Literal["erk", "uniform"] = "erk"
    """The share in each layer: larger in small ones (Erdős-Rényi kernel), or the same in all."""
    drop: Annotated[float, Ge(0), Le(1)] = 0.5
    """a: the share of active weights that a client's first exchange replaces."""
    horizon: Annotated[int, Ge(1)] = 1000
    """T: the iteration from which masks stay as they are."""
    regrow: Literal["gradient", "random"] = "gradient"
    """The weights that regrow: those with the largest gradient on the own samples, or any."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        weights = {k: p for k, p in start.params.items() if p.dim() > 1}
        shares = layer_densities([p.shape for p in weights.values()], self.density / 100, self.layers)
        masks = {}
        for share, (k, p) in zip(shares, weights.items(), strict=True):
            active = ranks(ctx.stream(k).uniform(p.numel())) < round(share * p.numel())
            masks[k] = active.view(p.shape).to(p.dtype)
        return masked(Algorithm.init(self, task, start, ctx), masks)

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        return task.step(state, batch, scale=unpack_tensors("mask", state.memory), donate=True)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        masks, ours = self.renewed(task, state, probe, ctx), self.offer(task, state, probe, ctx)
        mean = {**mean_model(ours, inbox), **mean_of_active(ours, inbox, masks.keys() & ours.keys())}
        return masked(task.merge(state, mean), masks), {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption in ("mix", "ignore"):
            return Algorithm.adopt(self, task, state, inbox, probe, ctx)
        masks, ours = self.renewed(task, state, probe, ctx), self.offer(task, state, probe, ctx)
        theirs = {k: torch.where(m == 0, ours[k], m) if k in masks else m for k, m in inbox.messages.items()}
        new, info = Algorithm.adopt(self, task, state, inbox._replace(messages=theirs), probe, ctx)
        return masked(new, masks), info

    def renewed(self, task: Task, state: State, probe: Probe, ctx: Context) -> Tensors:
        """Drop the smallest active weights of each layer and regrow as many; the new masks."""
        masks, share = unpack_tensors("mask", state.memory), self.dropped(ctx)
        slopes = probe_gradient(task, state, probe) if self.regrow == "gradient" else {}
        new = {}
        for k, mask in masks.items():
            active, size = mask.flatten() > 0, state.params[k].abs().flatten()
            count = torch.ceil(share * active.sum() - 1e-6)  # 5.0000001 is 5
            kept = active & (ranks(torch.where(active, size, torch.inf)) >= count)
            worth = slopes[k].abs().flatten() if slopes else ctx.stream(k).uniform(mask.numel())
            grown = ranks(torch.where(kept, torch.inf, -worth)) < count
            new[k] = (kept | grown).view(mask.shape).to(mask.dtype)
        return new

    def dropped(self, ctx: Context) -> Tensor:
        """Compute r_t, the share of active weights that an exchange replaces, `[]`."""
        passed = ctx.t.clamp_max(self.horizon).double() / self.horizon
        return self.drop / 2 * (1 + torch.cos(math.pi * passed))

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        return min(heard, 1) + told if self.regrow == "gradient" else 0

    def wire_bytes(self, message: Message) -> int:
        """Weigh the active weights, one bit for every weight that says which they are, and all else."""
        weights = {k: m for k, m in message.items() if m.dim() > 1}
        whole = {k: m for k, m in message.items() if k not in weights}
        active = math.ceil(self.density / 100 * Algorithm.wire_bytes(self, weights))
        bits = sum(m.numel() for m in weights.values())
        return Algorithm.wire_bytes(self, whole) + active + math.ceil(bits / 8)

    def search_space(self) -> SearchSpace:
        adoptions = {"adoption": ("mix", "replace", "ignore")}
        return {**adoptions, "density": (30, 50, 80), "drop": (0.1, 0.5), "regrow": ("gradient", "random")}


def layer_densities(shapes: Sequence[Sequence[int]], density: float, how: str) -> list[float]:
    """Compute the share of active weights in each layer that comes to `density` over all of them."""
    if how == "uniform":
        return [density] * len(shapes)
    left, whole = density * sum(map(math.prod, shapes)), set[int]()
    while True:
        rest = [i for i in range(len(shapes)) if i not in whole]
        factor = left / max(1, sum(sum(shapes[i]) for i in rest))
        full = [i for i in rest if factor * sum(shapes[i]) >= math.prod(shapes[i])]
        if not full:
            return [1.0 if i in whole else factor * sum(s) / math.prod(s) for i, s in enumerate(shapes)]
        whole.update(full)
        left -= sum(math.prod(shapes[i]) for i in full)


def mean_of_active(own: Message, inbox: Inbox, names: set[str]) -> Message:
    """Compute the mean over those that have a weight, own model and messages alike, 0 if nobody has."""
    heard, messages = inbox.heard.double(), {k: inbox.messages[k] for k in names}
    counts = weighted_sum(heard, {k: (m != 0).to(m.dtype) for k, m in messages.items()})
    totals = weighted_sum(heard, messages)
    return {k: (own[k] + totals[k]) / (counts[k] + (own[k] != 0)).clamp_min(1) for k in names}


def masked(state: State, masks: Tensors) -> State:
    """Put on masks: what is not active becomes 0."""
    params = {k: p * masks[k] if k in masks else p for k, p in state.params.items()}
    return state._replace(params=params, memory=pack_tensors("mask", masks))
