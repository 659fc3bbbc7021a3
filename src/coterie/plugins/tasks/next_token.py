"""Next token: of every token of a sequence, which one follows.

A sample is a sequence of T tokens, its target the same sequence one token later; a model puts out the logits
of all tokens at each place, `[n, T, tokens]`, and must not look ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from coterie.core.errors import DataError
from coterie.core.registry import describe_type, register
from coterie.core.tasks.metric import Metric
from coterie.core.tasks.targets import default_class_names, refuse_outside
from coterie.core.tasks.task_kind import TaskKind, Trained
from coterie.core.types import Probe, Tensors

__all__ = ["NextToken"]

PRIOR = 0.5
"""Times that a client is taken to have met each token beside its own text."""


@register("task", "next_token")
@dataclass(frozen=True)
class NextToken(TaskKind):
    """The token that follows, at each place of a sequence; cross-entropy, perplexity, accuracy."""

    has_probabilities: ClassVar[bool] = True

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("perplexity", higher_is_better=False),
            Metric("token_accuracy", "token accuracy", "%", scale=100.0, digits=1),
        )

    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        if y.is_floating_point() or y.is_complex() or y.dim() != 2:
            raise DataError(
                f"{where}: y must be the tokens that follow those of x, whole numbers of shape [n, length], "
                f"got {describe_type(y)}"
            )
        return refuse_outside(y.long(), len(names), where, "tokens")

    def names(self, *y: Tensor) -> tuple[str, ...]:
        return default_class_names(*y)

    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        return (*inputs, len(names))

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(outputs.flatten(0, 1), y.flatten())

    def view(self, outputs: Tensor) -> Tensor:
        return torch.softmax(outputs, dim=-1)

    def ideal(self, y: Tensor, outputs: int) -> Tensor:
        return one_hot(y, outputs)

    def follow(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        return cross_entropy(outputs.flatten(0, 1), wanted.flatten(0, 1))

    def blind(self, outputs: Tensor, probe: Probe) -> Tensor:
        met = (one_hot(probe.y, outputs.shape[-1]) * probe.mask[:, None, None]).sum(dim=(0, 1)) + PRIOR
        return torch.log(met / met.sum()).to(outputs.dtype).expand(outputs.shape)

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        right = (outputs.argmax(dim=-1) == y).to(outputs.dtype).mean()
        return {"perplexity": self.mean_loss(outputs, y).exp(), "token_accuracy": right}
