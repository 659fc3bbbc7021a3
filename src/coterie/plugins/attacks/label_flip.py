r"""Label flip: train on wrong labels, $y \mapsto L - 1 - y$, and send what comes of it.

Fang, Cao, Jia, Gong: Local model poisoning attacks to Byzantine-robust federated learning. USENIX
Security 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coterie.core.attack import Attack
from coterie.core.registry import register

__all__ = ["LabelFlip"]


@register("attack", "label_flip")
@dataclass(frozen=True)
class LabelFlip(Attack):
    """Trains on wrong labels and sends its model as it is: poisoned data, not messages."""

    def labels(self, y: Tensor, classes: int) -> Tensor:
        return classes - 1 - y
