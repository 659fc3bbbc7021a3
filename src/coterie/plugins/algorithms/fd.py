r"""FD: what travels is each label's mean output, of which the others' is a soft target beside the label.

$\mathcal{L}_i(x, y) = \mathrm{CE}(z_i(x), y) + \lambda\,T^2\,\mathrm{CE}\left(\frac{z_i(x)}{T},
 \mathrm{softmax}\frac{Z_y}{T}\right), \quad Z_l = \frac{1}{|N_l|}\sum_{j \in N_l} \bar z_{j,l}$

$\bar z_{j,l}$ is client j's mean logit vector over its own samples of label l, $N_l$ are those heard that
have such samples. So L² numbers travel, however large the models, which may differ. A label of which nobody
was heard keeps its target, and has none at first. A table tells which labels a client has.

In the paper a server averages; here every star does, and its broadcast is its own table. There the mean is
kept over the mini-batches between two exchanges; here it is taken over all own samples at the exchange. A
reference code has the logits themselves as targets (`targets`), and the own table among the others' (`own`).
The closing phase is the same for every algorithm: labels alone teach there.

Jeong, Oh, Kim, Park, Bennis, Kim: Communication-efficient on-device machine learning: federated distillation
and augmentation under non-IID private data. 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.ingredients.label_means import (
    LabelMeans,
    adopted,
    head_sizes,
    heard,
    mean_over_clients,
    of_samples,
    remembering,
)
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["FD"]


@register("algorithm", "FD")
@dataclass(frozen=True)
class FD(Algorithm):
    """Distillation from the others' mean outputs for each label; sends a table, no model."""

    needs_classes: ClassVar[bool] = True

    adoption: Adoption = "average"
    """The use that a neighbour makes of the star's table: `replace` its targets, `average` half and half,
    `mix`: as a star that heard nobody else, or `ignore` it."""
    lam: Annotated[float, Ge(0)] = 1.0
    """λ: the weight of the others' outputs; 0 is Local."""
    temperature: Annotated[float, Gt(0)] = 1.0
    """T: the larger, the more the order of unlikely labels counts."""
    targets: Literal["probabilities", "logits"] = "probabilities"
    """What the outputs are compared with: probabilities, or as in a reference code the logits themselves."""
    own: bool = False
    """True if a star counts its own table among the others', as a reference code does."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own, (_, labels) = Algorithm.init(self, task, start, ctx), head_sizes(task)
        return own._replace(memory=LabelMeans.empty(labels, labels, start.row).tensors())

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        z, weight = LabelMeans.remembered(state)
        target = torch.softmax(z / self.temperature, dim=-1) if self.targets == "probabilities" else z
        strength = self.lam * self.temperature**2 * (~ctx.closing).to(batch.lr)

        def objective(outputs: Tensor, _: Tensor, y: Tensor) -> Tensor:
            apart = -(target[y] * (outputs / self.temperature).log_softmax(dim=-1)).sum(dim=-1)
            return task.kind.mean_loss(outputs, y) + strength * ((weight > 0)[y] * apart).mean()

        grads, loss, buffers = task.gradients(state, batch, objective=objective)
        return task.apply(state._replace(buffers=buffers), grads, batch.lr), {"loss": loss}

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.table(task, state, probe).tensors()

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        own = self.table(task, state, probe) if self.own else None
        return remembering(state, mean_over_clients(heard(inbox), own)), {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if not self.listens:
            return state, {}
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        return adopted(state, inbox, self.adoption), {}

    def table(self, task: Task, state: State, probe: Probe) -> LabelMeans:
        """Average the own model's logits over the own samples of each label."""
        z = task.logits(state, probe.x)
        return of_samples(z, probe, z.shape[-1]).equal()

    def search_space(self) -> SearchSpace:
        own = {"lam": (0.1, 0.5, 1.0, 5.0), "temperature": (1.0, 3.0)}
        return {"adoption": ("average", "replace", "ignore"), **own}
