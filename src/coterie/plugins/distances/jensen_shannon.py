r"""Jensen-Shannon divergence: $\frac12 KL(p\|m) + \frac12 KL(q\|m),\; m = \frac12(p + q)$; at most log 2."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.registry import register
from coterie.core.tasks.outputs import of_probabilities

__all__ = ["jensen_shannon"]


@register("distance", "jensen_shannon")
@of_probabilities
def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats: symmetric and bounded by log 2."""
    m = ((p + q) / 2).clamp_min(torch.finfo(p.dtype).tiny)  # xlogy(0, 0) = 0, but xlogy(tiny, 0) = -inf
    half = (torch.xlogy(p, p) - torch.xlogy(p, m) + torch.xlogy(q, q) - torch.xlogy(q, m)) / 2
    return half.sum(dim=-1).clamp_min(0)
