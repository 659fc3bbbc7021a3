r"""L2C: learn the weights of the average by descending the loss on samples that no step is taken on.

$\theta_i \leftarrow \sum_{j\in\mathcal{N}_i\cup\{i\}} w_{ij}\,\theta_j$ with
$w_i = \mathrm{softmax}(\alpha_i)$, then a step of Adam on $\alpha_i$ along
$\frac{\partial F_i}{\partial\alpha_{ij}} = w_{ij}\langle\nabla F_i(\theta_i),\,\theta_j-\theta_i\rangle$

$F_i$ is the loss on held-out samples. Of α, the own entry and those of neighbours heard move. The paper mixes
updates, $\theta_i \leftarrow \theta_i^{old} + \sum_j w_{ij}(\theta_j - \theta_j^{old})$, here since each
client's own last exchange, so nothing is new in a broadcast; running statistics are averaged as they are. Its
cut to the neighbours with the largest α is made when asking.

Li, Zhou, Tian, Tao: Learning to collaborate in decentralized learning of personalized models. CVPR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import inner_products, weighted_sum, write_row
from coterie.core.ingredients.probe_loss import probe_gradient
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.models.optim import Adam
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Reachable, Start, State, Tensors

__all__ = ["L2C"]

ADAM = Adam(beta2=0.99, weight_decay=0.01)
"""The optimiser of α, as the authors set it."""
ENTRIES = ("alpha", "steps.alpha", "first.alpha", "second.alpha")
"""Of each neighbour and of the client itself: α, and what Adam keeps of it."""


@register("algorithm", "L2C")
@dataclass(frozen=True)
class L2C(Algorithm):
    """The mean under weights that are learnt on held-out samples, the own among them."""

    holds_out: ClassVar[bool] = True

    adoption: Adoption = "ignore"  # each client weighs for itself
    rate: Annotated[float, Ge(0)] = 0.1
    """The step size of α; 0 is FedAvg."""
    signal: Literal["models", "updates"] = "models"
    """Tensors that are sent and averaged: models, or their changes since the sender's last exchange."""
    top: Annotated[int, Ge(1)] = 10
    """K_0: how many are asked, those with the largest α and all their equals, from `switch` on."""
    switch: Annotated[int, Ge(0)] = 500
    """The iteration from which only some are asked."""

    def __post_init__(self) -> None:
        if self.signal == "updates" and self.adoption != "ignore":
            raise ConfigError(
                f'signal = "updates" needs adoption = "ignore", got {self.adoption!r}: a star that has just '
                'exchanged has no update to broadcast; or set signal = "models"'
            )

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        own = pack_tensors("own", {k: start.row.new_zeros(1) for k in ENTRIES})
        rows = {k: torch.zeros_like(start.row) for k in ENTRIES}
        return state._replace(memory={**own, **self.old(task, state)}, rows=rows)

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        alpha = torch.where(reachable.mask, state.rows["alpha"][reachable.slot], -torch.inf)
        larger = (alpha > alpha[:, None]).sum(dim=1)
        return reachable.mask & ((larger < self.top) | (ctx.t < self.switch))

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        old = unpack_tensors("old", state.memory)
        return {k: m - old[k] if k in old else m for k, m in task.select(state, self.share).items()}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        ours, old = self.offer(task, state, probe, ctx), unpack_tensors("old", state.memory)
        own = unpack_tensors("own", state.memory)
        entries = {k: torch.cat([own[k], row[inbox.slot]]) for k, row in state.rows.items()}
        w = unscaled_softmax(entries["alpha"], inbox)
        mean = {k: (w[0] * ours[k] + m) / w.sum() for k, m in weighted_sum(w[1:], inbox.messages).items()}
        new = task.merge(state, {k: m + old[k] if k in old else m for k, m in mean.items()})
        slope = probe_gradient(task, new, probe, held=True)

        def steepness(messages: Message) -> Tensor:
            return inner_products(slope, {k: m - mean[k] for k, m in messages.items() if k in slope})

        w = w / w.sum()
        steep = w * torch.cat([steepness({k: ours[k][None] for k in mean}), steepness(inbox.messages)])
        alpha = {"alpha": entries.pop("alpha")}
        moved, kept = ADAM.step(alpha, {"alpha": steep.to(w.dtype)}, entries, self.rate)
        new = remembering(new, inbox, {**moved, **kept})
        return new._replace(memory={**new.memory, **self.old(task, new)}), {"weight": w[1:]}

    def old(self, task: Task, state: State) -> Tensors:
        """Remember the parameters since which updates are counted."""
        shared = task.select(state, self.share) if self.signal == "updates" else {}
        return pack_tensors("old", {k: v for k, v in shared.items() if k in state.params})

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        return min(heard, 1) + (told if self.adoption == "mix" else 0)

    def unused_options(self, last: int) -> str | None:
        return None if self.switch <= last else f"never asks its best alone: switch = {self.switch}"

    def search_space(self) -> SearchSpace:
        return {"rate": (0.03, 0.1, 0.3, 1.0), "signal": ("models", "updates"), "top": (3, 10)}


def unscaled_softmax(alpha: Tensor, inbox: Inbox) -> Tensor:
    """Compute weights `[1 + K]`, the own first, that are yet to be divided by their sum."""
    here = torch.cat([torch.ones_like(inbox.heard[:1]), inbox.heard])
    return torch.where(here, torch.exp(alpha - torch.where(here, alpha, -torch.inf).max()), 0.0)


def remembering(state: State, inbox: Inbox, entries: Tensors) -> State:
    """Write entries `[1 + K]`, the own first, into memory and, of those heard, into rows."""
    own = pack_tensors("own", {k: e[:1] for k, e in entries.items()})
    rows = {k: write_row(row, entries[k][1:], inbox) for k, row in state.rows.items()}
    return state._replace(memory={**state.memory, **own}, rows=rows)
