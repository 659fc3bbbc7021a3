r"""FedBN: every client keeps normalisation layers of its own; all else is averaged.

$\theta_i \leftarrow \frac{1}{|\mathcal{N}_i|+1}\left(\theta_i + \sum_{j\in\mathcal{N}_i}\theta_j\right)$ but
for scale, shift and running statistics of normalisation layers, which stay

It is FedAvg that shares everything else, and `share = "!norm"` does the same for every other algorithm. With
a model that normalises nothing it is FedAvg.

Li, Jiang, Zhang, Kamp, Dou: FedBN: federated learning on non-iid features via local batch normalization. ICLR
2021.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.registry import register
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["FedBN"]


@register("algorithm", "FedBN")
@dataclass(frozen=True)
class FedBN(FedAvg):
    """FedAvg of all but the normalisation layers, which every client keeps to itself."""

    share: str | tuple[str, ...] = "!norm"
