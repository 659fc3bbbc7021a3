r"""DFedAlt: own heads and a base that travels, learning in turn; only the base is averaged, by gossip.

$v_i \leftarrow v_i - \eta\,\nabla_v f_i(u_i, v_i)$ for K_v steps,
$u_i \leftarrow u_i - \eta\,\nabla_u f_i(u_i, v_i)$ for K_u steps, then
$u_i \leftarrow \sum_j p_{ij}\,u_j$ with P doubly stochastic

FedRep's local steps, fewer of them for the head v (K_v : K_u = 1 : 5), or the base u first. A star that takes
the mean and broadcasts it to those it has heard is such a P: the sum of all bases stays the same.

Shi, Liu, Sun, Lin, Shen, Wang, Tao: Towards more suitable personalization in federated learning via
decentralized partial model training. 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.algorithm import SearchSpace
from coterie.core.registry import register
from coterie.core.types import Context
from coterie.plugins.algorithms.fedrep import EXCHANGE, FedRep

__all__ = ["DFedAlt"]


@register("algorithm", "DFedAlt")
@dataclass(frozen=True)
class DFedAlt(FedRep):
    """Gossip of the base; in each round the own head learns for a sixth of the steps, then the base."""

    head: Annotated[float, Ge(0), Le(1)] = 1 / 6
    order: Literal["head", "base"] = "head"
    """The part that learns first in a round."""

    def heads_turn(self, ctx: Context) -> Tensor:
        if self.order == "head":
            return FedRep.heads_turn(self, ctx)
        return ctx.every - 1 - ctx.since < self.head * (ctx.every - EXCHANGE)

    def search_space(self) -> SearchSpace:
        shares = {"head": (1 / 6, 0.3, 0.5), "order": ("head", "base")}
        return {**FedRep.search_space(self), **shares}
