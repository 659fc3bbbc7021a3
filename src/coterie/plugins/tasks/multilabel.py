"""Multi-label classification: a sample has any number of L labels; each is right or wrong by itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from coterie.core.errors import DataError
from coterie.core.registry import describe_type, register
from coterie.core.tasks.metric import Metric
from coterie.core.tasks.task_kind import TaskKind, Trained
from coterie.core.types import Probe, Tensors

__all__ = ["MultiLabel", "average_precision"]

PRIOR = 0.5
"""Samples with and without each label that a client is taken to have beside its own."""


@register("task", "multilabel")
@dataclass(frozen=True)
class MultiLabel(TaskKind):
    """Any number of labels for each sample; binary cross-entropy, F1 and average precision."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("f1", "F1", "%", scale=100.0, digits=1),
            Metric("average_precision", "average precision", "%", scale=100.0, digits=1),
        )

    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        if y.dim() != 2 or y.is_complex():
            raise DataError(
                f"{where}: y must have a 0 or a 1 for each label, shape [n, labels], got {describe_type(y)}"
            )
        if y.shape[1] != len(names):
            raise DataError(f"{where}: y has {y.shape[1]} labels, but there are {len(names)} names")
        if not bool((odd := (y != 0) & (y != 1)).logical_not().all()):
            row, label = odd.nonzero()[0].tolist()
            raise DataError(
                f"{where}: y must be 0 or 1 for each label, got {y[row, label].item()} for label "
                f"{names[label]!r} of sample {row}"
            )
        return y.float()

    def names(self, *y: Tensor) -> tuple[str, ...]:
        return tuple(str(label) for label in range(y[0].shape[-1]))

    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        return (len(names),)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(outputs, y)

    def view(self, outputs: Tensor) -> Tensor:
        return torch.sigmoid(outputs)

    def follow(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(outputs, wanted)

    def blind(self, outputs: Tensor, probe: Probe) -> Tensor:
        mask = probe.mask[:, None].to(probe.y.dtype)
        share = ((probe.y * mask).sum(dim=0) + PRIOR) / (mask.sum() + 2 * PRIOR)
        return torch.logit(share).expand(outputs.shape)

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        said, true = outputs > 0, y > 0
        hits, wrong = (said & true).sum(), (said != true).sum()
        f1 = torch.where(hits + wrong > 0, 2 * hits / (2 * hits + wrong), 1.0)  # nothing to find
        return {"f1": f1.to(outputs.dtype), "average_precision": average_precision(outputs, true)}


def average_precision(outputs: Tensor, true: Tensor) -> Tensor:
    """Average the precision at each true sample `[n, L]`, best score first, over labels that occur.

    NaN if none does.
    """
    order = outputs.argsort(dim=0, descending=True, stable=True)
    found = true.gather(0, order).to(outputs.dtype)
    precision = found.cumsum(dim=0) / torch.arange(1, len(found) + 1, device=found.device)[:, None]
    count = found.sum(dim=0)
    each = (precision * found).sum(dim=0) / count
    return each[count > 0].mean()
