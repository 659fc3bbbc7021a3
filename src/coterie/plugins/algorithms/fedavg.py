r"""FedAvg without a server: the star takes the mean of all the models it has.

$\theta_i \leftarrow \frac{1}{|\mathcal{N}_i|+1}\left(\theta_i + \sum_{j\in\mathcal{N}_i}\theta_j\right)$

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-efficient learning of deep networks
from decentralized data. AISTATS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.algorithm import Algorithm
from coterie.core.ingredients.messages import mean_model
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, State

__all__ = ["FedAvg"]


@register("algorithm", "FedAvg")
@dataclass(frozen=True)
class FedAvg(Algorithm):
    """The arithmetic mean of the models heard; one model for all, not personalised."""

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return task.merge(state, mean_model(self.offer(task, state, probe, ctx), inbox)), {}
