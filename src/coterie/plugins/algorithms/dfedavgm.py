r"""DFedAvgM: gossip averaging whose local steps have momentum, which starts anew after every exchange.

$v_i \leftarrow \beta v_i + \nabla f_i(\theta_i), \quad \theta_i \leftarrow \theta_i - \eta v_i$, and $v_i
\leftarrow 0$ whenever an exchange has changed $\theta_i$

The momentum is the method's own: where `train.optimizer` has one, too, both act. The paper's variant that
quantises what is sent is left out. The closing phase is the same for every algorithm: plain steps.

Sun, Li, Wang: Decentralized federated averaging. IEEE TPAMI 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Lt

from coterie.core.algorithm import SearchSpace
from coterie.core.ingredients.second_model import pack_tensors, unpack_tensors
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Info, Probe, Start, State, Tensors
from coterie.plugins.algorithms.gossip import Gossip

__all__ = ["DFedAvgM"]


@register("algorithm", "DFedAvgM")
@dataclass(frozen=True)
class DFedAvgM(Gossip):
    """Gossip whose local steps have momentum, forgotten at every exchange; not personalised."""

    beta: Annotated[float, Ge(0), Lt(1)] = 0.9
    """β: the share of the last step's direction that the next one keeps."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return at_rest(Gossip.init(self, task, start, ctx))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        grads, loss, buffers = task.gradients(state, batch)
        beta = self.beta * (~ctx.closing).to(batch.lr)
        v = {k: beta * old + grads[k] for k, old in unpack_tensors("velocity", state.memory).items()}
        new = task.apply(state._replace(buffers=buffers), v, batch.lr)
        return moving(new, v), {"loss": loss}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = Gossip.mix(self, task, state, inbox, probe, ctx)
        return at_rest(new), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        new, info = Gossip.adopt(self, task, state, inbox, probe, ctx)
        return at_rest(new) if self.listens else new, info

    def search_space(self) -> SearchSpace:
        return {**Gossip.search_space(self), "beta": (0.0, 0.5, 0.9)}


def moving(state: State, velocity: Tensors) -> State:
    """Remember the direction of the last step."""
    return state._replace(memory={**state.memory, **pack_tensors("velocity", velocity)})


def at_rest(state: State) -> State:
    """Forget the direction of the last step."""
    return moving(state, {k: p.new_zeros(p.shape) for k, p in state.params.items()})
