"""A task with any loss, for tests that need one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from coterie.plugins.tasks.classification import Classification

__all__ = ["WithLoss"]


@dataclass(frozen=True)
class WithLoss(Classification):
    """Classification by another loss."""

    function: Callable[[Tensor, Tensor], Tensor]

    closed_form = None

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.function(outputs, y)
