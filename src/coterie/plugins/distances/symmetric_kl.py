r"""Symmetric Kullback-Leibler divergence (Jeffreys): $\sum_l (p_l - q_l)(\log p_l - \log q_l)$."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.registry import register
from coterie.core.tasks.outputs import of_probabilities

__all__ = ["symmetric_kl"]


@register("distance", "symmetric_kl")
@of_probabilities
def symmetric_kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p, q) + KL(q, p) in nats: strict about labels that one model rules out."""
    least = torch.finfo(p.dtype).tiny  # a probability that underflowed is small, not impossible
    return ((p - q) * (p.clamp_min(least).log() - q.clamp_min(least).log())).sum(dim=-1)
