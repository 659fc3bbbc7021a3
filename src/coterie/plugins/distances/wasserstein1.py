r"""1-Wasserstein distance over ordered labels: $\sum_l |P_l - Q_l|$ with cumulative P, Q."""

from __future__ import annotations

from torch import Tensor

from coterie.core.registry import register
from coterie.core.tasks.outputs import of_probabilities

__all__ = ["wasserstein1"]


@register("distance", "wasserstein1")
@of_probabilities
def wasserstein1(p: Tensor, q: Tensor) -> Tensor:
    """Earth mover's distance where labels are ordered, such as grades or ages."""
    return (p - q).cumsum(dim=-1).abs().sum(dim=-1)
