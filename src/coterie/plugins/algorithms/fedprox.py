r"""FedProx: FedAvg whose local steps are pulled back to where they began.

$\theta_i \leftarrow \theta_i - \eta\,(\nabla f_i(\theta_i) + \mu(\theta_i - \theta_i^{round}))$

with $\theta_i^{round}$ the model as this client's last exchange, as a star or as a neighbour, left it. The
closing phase is the same for every algorithm: nothing pulls there.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated optimization in heterogeneous networks. MLSys 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["FedProx"]


@register("algorithm", "FedProx")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose local steps are pulled back to the model of the last exchange; not personalised."""

    mu: Annotated[float, Ge(0)] = 0.1
    """μ: the strength of the pull; 0 is FedAvg."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return anchored(FedAvg.init(self, task, start, ctx))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        pull = state.memory, self.mu * (~ctx.closing).to(batch.lr)
        return task.step(state, batch, pull=pull, donate=True)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = FedAvg.mix(self, task, state, inbox, probe, ctx)
        return anchored(new), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = FedAvg.adopt(self, task, state, inbox, probe, ctx)
        return anchored(new) if self.listens else new, info

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "mu": (0.001, 0.01, 0.1, 1.0)}


def anchored(state: State) -> State:
    """Remember the parameters as an exchange left them: from now on they pull."""
    return state._replace(memory=dict(state.params))
