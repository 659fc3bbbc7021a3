"""Autoencoder: learn to put out what was put in, without labels, through a narrow layer.

How good the features are that a model finds in this way, a linear probe tells: a ridge regression on the
features (what the model's head takes in) of the client's own training samples and their labels, tested on its
other samples. Labels serve for nothing else; data that have none may say y = 0 of every sample, and there is
no probe then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor
from torch.nn.functional import one_hot, pad

from coterie.core.registry import register
from coterie.core.tasks.metric import Metric
from coterie.core.tasks.targets import as_labels, default_class_names
from coterie.core.tasks.task_kind import TaskKind, Trained
from coterie.core.types import Probe, Tensors

__all__ = ["Autoencoder", "linear_probe"]


@register("task", "autoencoder")
@dataclass(frozen=True)
class Autoencoder(TaskKind):
    """The inputs again, unsupervised; reconstruction error, and what a linear probe makes of the features."""

    has_classes: ClassVar[bool] = True
    probes_features: ClassVar[bool] = True

    ridge: Annotated[float, Gt(0)] = 1e-2
    """The penalty of the linear probe, a share of the features' mean square."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("reconstruction_error", "reconstruction RMSE", higher_is_better=False, digits=3),
            Metric("probe_accuracy", "probe accuracy", "%", scale=100.0, digits=1),
        )

    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        return as_labels(y, names, where)

    def names(self, *y: Tensor) -> tuple[str, ...]:
        return default_class_names(*y)

    def strata(self, y: Tensor, names: tuple[str, ...]) -> tuple[Tensor, int]:
        return y, len(names)

    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        return (prod(inputs),)

    def targets(self, x: Tensor, y: Tensor) -> Tensor:
        return x.flatten(1)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return (outputs - y).square().mean()

    def blind(self, outputs: Tensor, probe: Probe) -> Tensor:
        x, mask = probe.x.flatten(1), probe.mask[:, None].to(outputs.dtype)
        return ((x * mask).sum(dim=0) / mask.sum()).expand(outputs.shape)

    def nats(self, loss: Tensor) -> Tensor:
        return loss.clamp_min(torch.finfo(loss.dtype).tiny).log() / 2

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        found = {"reconstruction_error": (outputs - y).square().mean().sqrt()}
        if trained is not None:
            found["probe_accuracy"] = linear_probe(trained, self.ridge).to(outputs.dtype)
        return found


def linear_probe(seen: Trained, ridge: float) -> Tensor:
    """Fit labels by the features of training samples; the share of the others whose label is right, `[]`."""
    labels = int(torch.maximum(seen.y.max(), seen.tested_y.max())) + 1
    if labels == 1:
        return torch.tensor(torch.nan)
    mean = seen.features.double().mean(dim=0)
    known, new = (pad(f.double() - mean, (0, 1), value=1.0) for f in (seen.features, seen.tested))
    penalty = ridge * known[:, :-1].square().mean().clamp_min(1e-12) * len(known)
    gram = known.mT @ known + penalty * torch.eye(known.shape[1], dtype=known.dtype, device=known.device)
    weight = torch.linalg.solve(gram, known.mT @ one_hot(seen.y, labels).double())
    right: Tensor = (new @ weight).argmax(dim=-1) == seen.tested_y
    return right.double().mean()
