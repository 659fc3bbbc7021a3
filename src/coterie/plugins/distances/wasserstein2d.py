r"""Eq. 3 of the paper, which calls it Wasserstein2D: $\sum_l (p_l - q_l)^2$."""

from __future__ import annotations

from torch import Tensor

from coterie.core.registry import register

__all__ = ["wasserstein2d"]


@register("distance", "wasserstein2d")
def wasserstein2d(p: Tensor, q: Tensor) -> Tensor:
    """Squared Euclidean distance of the outputs: eq. 3 of the paper (default)."""
    return (p - q).square().sum(dim=-1)
