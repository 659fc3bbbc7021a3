r"""FedPer: every client keeps a head of its own on a base that is averaged.

$b_i \leftarrow \frac{1}{|\mathcal{N}_i|+1}\left(b_i + \sum_{j\in\mathcal{N}_i} b_j\right)$, $h_i$ stays

Base b and head h learn together in every local step: it is FedAvg that shares the base alone.

Arivazhagan, Aggarwal, Singh, Choudhary: Federated learning with personalization layers. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.registry import register
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["FedPer"]


@register("algorithm", "FedPer")
@dataclass(frozen=True)
class FedPer(FedAvg):
    """FedAvg of the base; every client keeps its own head."""

    share: str | tuple[str, ...] = "base"
