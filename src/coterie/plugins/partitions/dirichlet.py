r"""Label proportions from a symmetric Dirichlet distribution: the "practical" kind of label skew.

$p_i = g_i / \sum_l g_{il},\quad g_{il} \sim \mathrm{Gamma}(\alpha, 1)$

Hsu, Qi, Brown: Measuring the effects of non-identical data distribution for federated visual
classification. 2019.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Gt, Le
from numpy.typing import NDArray
from torch import Tensor

from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["DirichletPartitioner"]

_ROWS = 1 << 14
"""Clients whose quantiles are computed at once."""


@register("partition", "dirichlet")
@dataclass(frozen=True)
class DirichletPartitioner:
    """Label proportions drawn from Dir(alpha): the smaller alpha, the fewer labels a client has."""

    alpha: Annotated[float, Gt(0), Le(1e6)] = 0.1
    """Concentration: 0.1 is strong skew, 100 nearly none."""

    def proportions(self, y: Tensor, classes: int, clients: int, stream: Stream) -> Tensor:
        u = stream.uniform(classes, client=torch.arange(clients)).numpy()
        parts = [u[first : first + _ROWS] for first in range(0, clients, _ROWS)]
        with ThreadPoolExecutor() as pool:  # quantiles are slow, and lend themselves to all cores
            log_g = np.concatenate(list(pool.map(self._log_quantiles, parts)))
        return torch.softmax(torch.from_numpy(log_g), dim=1)

    def _log_quantiles(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the logarithms of the quantiles of Gamma(alpha, 1) at u."""
        from scipy.special import gammaincinv, gammaln

        g = gammaincinv(self.alpha, u)
        # A small alpha makes g underflow, but there P(alpha, g) = g^alpha / Γ(alpha + 1), whose inverse
        # can be had as a logarithm.
        small = g < 1e-12
        found: NDArray[np.float64] = np.where(
            small, (np.log(u) + gammaln(self.alpha + 1)) / self.alpha, np.log(np.where(small, 1, g))
        )
        return found
