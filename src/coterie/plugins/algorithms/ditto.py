r"""Ditto: a personal model that learns alone, pulled towards a second one that travels as in FedAvg.

$\theta_i \leftarrow \theta_i - \eta\,(\nabla f_i(\theta_i) + \lambda(\theta_i - \phi)), \quad
 \phi_i \leftarrow \phi_i - \eta\,\nabla f_i(\phi_i)$

Both steps are on the same mini-batch. Only φ is sent, averaged and replaced; θ, the model that is tested,
is never touched from outside. The closing phase is the same for every algorithm: nothing pulls there.

Li, Hu, Beirami, Smith: Ditto: fair and robust federated learning through personalization. ICML 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.second_model import pack_state, pack_tensors, unpack_state, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State, Tensors
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["Ditto"]


@register("algorithm", "Ditto")
@dataclass(frozen=True)
class Ditto(Algorithm):
    """A personal model, pulled towards a second one that is averaged; two gradients a step."""

    lam: Annotated[float, Ge(0)] = 1.0
    """λ: the strength of the pull; 0 is Local."""
    pull: Literal["round", "now"] = "round"
    """The φ that pulls: as it was after this client's last exchange (`round`), or as it is (`now`)."""

    @property
    def gradients(self) -> int:
        return 2

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = Algorithm.init(self, task, start, ctx)
        return remembering(own, own, own.params)

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        phi, last = shared(state), unpack_tensors("anchor", state.memory)
        pull = last if self.pull == "round" else phi.params, self.lam * (~ctx.closing).to(batch.lr)
        theta, info = task.step(state, batch, pull=pull, donate=True)
        return remembering(theta, task.step(phi, batch, donate=True)[0], last), info

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.fedavg.offer(task, shared(state), probe, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        phi, info = self.fedavg.mix(task, shared(state), inbox, probe, ctx)
        return remembering(state, phi, phi.params), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        phi, info = self.fedavg.adopt(task, shared(state), inbox, probe, ctx)
        return remembering(state, phi, phi.params) if self.listens else state, info

    @property
    def fedavg(self) -> FedAvg:
        """The rules that φ follows."""
        return FedAvg(share=self.share, adoption=self.adoption)

    def search_space(self) -> SearchSpace:
        return {**Algorithm.search_space(self), "lam": (0.1, 0.5, 1.0, 2.0)}


def shared(state: State) -> State:
    """Unpack φ with its own buffers and optimiser."""
    return unpack_state("shared", state.memory)


def remembering(state: State, phi: State, anchor: Tensors) -> State:
    """Pack φ and the one that pulls into the memory of a state."""
    return state._replace(memory={**pack_state("shared", phi), **pack_tensors("anchor", anchor)})
