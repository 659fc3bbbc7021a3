r"""DFedSalt: DFedAlt whose base learns by sharpness-aware steps.

$u_i \leftarrow u_i - \eta\,\nabla_u f_i\left(u_i + \rho\,\frac{g}{\lVert g\rVert_2},\,v_i\right)$ with
$g = \nabla_u f_i(u_i, v_i)$; the head v as in DFedAlt

The head's steps take one gradient in the paper; here all steps take two, of which the head's are the same.

Shi, Liu, Sun, Lin, Shen, Wang, Tao: Towards more suitable personalization in federated learning via
decentralized partial model training. 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from coterie.core.algorithm import SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Info, State
from coterie.plugins.algorithms.dfedalt import DFedAlt
from coterie.plugins.algorithms.dfedsam import RADII, sharp_step

__all__ = ["DFedSalt"]


@register("algorithm", "DFedSalt")
@dataclass(frozen=True)
class DFedSalt(DFedAlt):
    """DFedAlt whose base learns by sharpness-aware steps; two gradients a step."""

    sharpness: Annotated[float, Ge(0)] = 0.05
    """ρ: how far uphill the base's gradient is taken; 0 is DFedAlt."""

    @property
    def gradients(self) -> int:
        return 2

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        radius = self.sharpness * (~(self.heads_turn(ctx) | ctx.closing)).to(batch.lr)
        rates = self.rates(task, state, batch, ctx)
        base = task.names("base")
        if not base:
            raise ConfigError(
                f"DFedSalt takes sharp steps with the base, but the head {task.head!r} is all of the model; "
                "give it more layers, or choose DFedSAM"
            )
        return sharp_step(task, state, batch, radius, base, rates)

    def search_space(self) -> SearchSpace:
        return {**DFedAlt.search_space(self), "sharpness": RADII}
