r"""Classification: one of L classes for each sample, by cross-entropy.

KD-PDFL's reading `trust` judges a neighbour by the labels. Outputs are centred and put on the own frequencies
$\pi$ of labels, so that nobody seems a stranger only because he has met other labels more often:
$\log f_j = \frac1n \sum_x \log \mathrm{softmax}(z_j(x) - \bar z_j + \log \pi)_{y(x)}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.core.tasks.targets import as_labels, default_class_names
from coterie.core.tasks.task_kind import ClosedForm, TaskKind, Trained
from coterie.core.types import Probe, Tensors

__all__ = ["Classification", "label_loss"]

PRIOR = 0.5
"""Samples of each label that a client is taken to have beside its own, so that none is impossible."""


@register("task", "classification")
@dataclass(frozen=True)
class Classification(TaskKind):
    """One of several classes for each sample; cross-entropy, accuracy."""

    has_classes: ClassVar[bool] = True
    has_probabilities: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (ACCURACY,)

    @property
    def closed_form(self) -> ClosedForm | None:
        return "cross_entropy"

    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        labels = as_labels(y, names, where)
        if len(names) < 2:
            raise DataError(f"{where}: expected at least 2 classes, got {len(names)}")
        return labels

    def names(self, *y: Tensor) -> tuple[str, ...]:
        return default_class_names(*y)

    def strata(self, y: Tensor, names: tuple[str, ...]) -> tuple[Tensor, int]:
        return y, len(names)

    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        return (len(names),)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(outputs, y)

    def view(self, outputs: Tensor) -> Tensor:
        return torch.softmax(outputs, dim=-1)

    def ideal(self, y: Tensor, outputs: int) -> Tensor:
        return one_hot(y, outputs)

    def follow(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        return cross_entropy(outputs, wanted)

    def judge(self, outputs: Tensor, probe: Probe) -> Tensor:
        return label_loss(outputs, probe)

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        return {"accuracy": self.correct(outputs, y).double().mean()}

    def measure_all(self, outputs: Tensor, y: Tensor, mask: Tensor) -> Tensors | None:
        return {"accuracy": (self.correct(outputs, y) & mask).sum(dim=-1) / mask.sum(dim=-1)}

    def correct(self, outputs: Tensor, y: Tensor) -> Tensor:
        return outputs.argmax(dim=-1) == y


def label_loss(z: Tensor, probe: Probe) -> Tensor:
    """Compute the mean loss `[K]` of outputs `[K, n, L]` on the labels, centred and with the own prior."""
    mask = probe.mask[:, None].to(z.dtype)
    centred = z - (z * mask).sum(dim=-2, keepdim=True) / mask.sum()
    count = (one_hot(probe.y, z.shape[-1]) * mask).sum(dim=0) + PRIOR
    log_p = torch.log_softmax(centred + torch.log(count / count.sum()), dim=-1)
    return -probe.mean(log_p.gather(-1, probe.y.expand(z.shape[:-1])[..., None])[..., 0])
