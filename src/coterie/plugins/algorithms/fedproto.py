r"""FedProto: what travels is each label's mean feature, its prototype, to which all draw their own features.

$\mathcal{L}_i(x, y) = \mathrm{CE}(z_i(x), y) + \lambda\,\frac{1}{F}\lVert f_i(x) - \bar C_y\rVert^2, \quad
 \bar C_l = \sum_{j \in N_l} w_{j,l}\,C_{j,l}, \quad \hat y(x) = \arg\min_l \lVert f_i(x) - \bar C_l\rVert$

$f_i(x)$ are the F features that the head takes in, $C_{j,l}$ their mean over client j's own samples of label
l, and $N_l$ the star itself and those heard that have such samples. So F numbers a label travel; models may
differ, but all heads must take in as many features. A label of which nobody was heard keeps its prototype;
without any, the head predicts. A table tells which labels a client has, and `weights = "samples"` how many.

The paper weighs clients by their samples, the authors' code all alike (`weights`). In that code prototypes
are means over the last epoch; here they are taken at the exchange. A server averages there; here every star
does, and its broadcast is its own table. The closing phase is the same for every algorithm: nothing is drawn
to a prototype there, so features drift away from the common ones; `prediction = "own"` follows them.

Tan, Long, Liu, Zhou, Lu, Jiang, Zhang: FedProto: federated prototype learning across heterogeneous clients.
AAAI 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm, SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.ingredients.label_means import (
    LabelMeans,
    adopted,
    head_sizes,
    heard,
    mean_over_clients,
    of_samples,
    remembering,
    updated,
)
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State

__all__ = ["FedProto"]


@register("algorithm", "FedProto")
@dataclass(frozen=True)
class FedProto(Algorithm):
    """Features drawn to the labels' mean features, of all heard; sends a table, no model."""

    needs_classes: ClassVar[bool] = True

    adoption: Adoption = "average"
    """The use that a neighbour makes of the star's table: `replace` its prototypes, `average` half and
    half, `mix`: as a star that heard nobody else, or `ignore` it."""
    lam: Annotated[float, Ge(0)] = 1.0
    """λ: how strongly features are drawn to prototypes; 0 with `prediction = "head"` is Local."""
    weights: Literal["equal", "samples"] = "equal"
    """Weights of clients in a prototype: all the same, or their numbers of samples, which then travel."""
    prediction: Literal["common", "own", "head"] = "common"
    """The label predicted: that of the nearest prototype (`common`), of the nearest where `own` samples make
    the prototypes of the labels that the client has, or the `head`'s."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own, (features, labels) = Algorithm.init(self, task, start, ctx), head_sizes(task)
        widths = sorted({features, *(head_sizes(other)[0] for other in task.foreign)})
        if len(widths) > 1:
            raise ConfigError(
                f"FedProto compares features, but the models' heads take in {' and '.join(map(str, widths))} "
                "of them; make that equal, or use FD, which compares outputs"
            )
        return own._replace(memory=LabelMeans.empty(labels, features, start.row).tensors())

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        common, weight = LabelMeans.remembered(state)
        strength = self.lam * (~ctx.closing).to(batch.lr)

        def objective(outputs: Tensor, features: Tensor, y: Tensor) -> Tensor:
            apart = (features - common[y]).square().mean(dim=-1)
            return task.kind.mean_loss(outputs, y) + strength * ((weight > 0)[y] * apart).mean()

        grads, loss, buffers = task.gradients(state, batch, objective=objective)
        return task.apply(state._replace(buffers=buffers), grads, batch.lr), {"loss": loss}

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.table(task, state, probe).tensors()

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return remembering(state, mean_over_clients(heard(inbox), self.table(task, state, probe))), {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if not self.listens:
            return state, {}
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        return adopted(state, inbox, self.adoption), {}

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Tensor:
        by_head = task.logits(state, x)
        if self.prediction == "head":
            return by_head
        prototypes = LabelMeans.remembered(state)
        if self.prediction == "own":
            prototypes = updated(prototypes, self.table(task, state, probe))
        known = prototypes.weight > 0
        d = (task.features(state, x)[:, None] - prototypes.mean).square().sum(dim=-1)
        return torch.where(known.any(), torch.where(known, -d, -torch.inf), by_head)

    def table(self, task: Task, state: State, probe: Probe) -> LabelMeans:
        """Average the own model's features over the own samples of each label."""
        own = of_samples(task.features(state, probe.x), probe, len(state.memory["labels.weight"]))
        return own if self.weights == "samples" else own.equal()

    def search_space(self) -> SearchSpace:
        own = {"lam": (0.1, 1.0, 5.0), "prediction": ("common", "own", "head")}
        return {"adoption": ("average", "replace", "ignore"), **own}
