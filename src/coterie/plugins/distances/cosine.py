r"""Cosine distance: $1 - \frac{p \cdot q}{\|p\|\|q\|}$."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from coterie.core.registry import register

__all__ = ["cosine"]


@register("distance", "cosine")
def cosine(p: Tensor, q: Tensor) -> Tensor:
    """One minus the cosine of the angle: blind to scale, fit for logits and inner layers."""
    d = (1 - cosine_similarity(p, q, dim=-1)).clamp_min(0)
    return torch.where((p == q).all(dim=-1), 0.0, d)  # also where both are zero and have no angle
