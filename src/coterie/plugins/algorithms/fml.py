r"""FML: a private model and a small one that travels, its proxy, learn from the labels and from each other.

$\mathcal{L}_\theta = \alpha\,\mathrm{CE} + (1-\alpha)\,\mathrm{KL}(p_\phi \Vert p_\theta), \quad
 \mathcal{L}_\phi = \beta\,\mathrm{CE} + (1-\beta)\,\mathrm{KL}(p_\theta \Vert p_\phi)$

Both steps are on the same mini-batch. Only the proxy φ is sent, averaged and replaced; the private model θ,
which is tested, never leaves its client and may be of any architecture. Each sees the other as it is used,
with running statistics and without dropout, and no gradient goes through the other's outputs. The closing
phase is the same for every algorithm: both learn from the labels alone there.

As the weights sum to one, the labels' gradient is α times that of Local: where rates are low and runs short,
a larger rate or a larger α makes up for that. A reference code lets gradients go through both and divides the
divergence by the number of labels too, and its defaults, α = β = 1, switch distillation off.

Shen, Zhang, Jia, Zhang, Huang, Zhou, Kuang, Wu, Wu: Federated mutual learning. 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.ingredients.mutual_learning import proxy_of, taught
from coterie.core.ingredients.second_model import pack_state, unpack_state
from coterie.core.models.model_choice import SAME, ModelOption
from coterie.core.registry import register
from coterie.core.tasks.task import Gradient, Task
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["FML", "proxy_model", "remembering"]


@register("algorithm", "FML")
@dataclass(frozen=True)
class FML(Algorithm):
    """A private model and a common one that is averaged teach each other; two gradients a step."""

    needs_classes: ClassVar[bool] = True

    proxy: ModelOption = SAME
    """φ: the model that travels, by name or as a table such as `{ name = "mlp", hidden = [16] }`; `same`: of
    the private model's architecture, if all clients have that."""
    alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    """α: the weight of the labels for the private model, against what the proxy says; 1 is Local."""
    beta: Annotated[float, Ge(0), Le(1)] = 0.5
    """β: the weight of the labels for the proxy, against what the private model says; 1 is FedAvg."""

    @property
    def gradients(self) -> int:
        return 2

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        params, buffers = start.proxy
        phi = Algorithm.init(self, proxy_of(task), start._replace(params=params, buffers=buffers), ctx)
        return remembering(Algorithm.init(self, task, start, ctx), phi)

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        proxy, phi = proxy_of(task), proxy_model(state)
        said, heard = task.logits(state, batch.x), proxy.logits(phi, batch.x)
        one = torch.ones_like(batch.lr)
        alpha, beta = (torch.where(ctx.closing, one, share) for share in (self.alpha, self.beta))
        grads, loss, buffers = task.gradients(state, batch, objective=taught(task, heard, alpha, 1 - alpha))
        new = task.apply(state._replace(buffers=buffers), grads, batch.lr)
        by_phi = self.proxy_gradient(proxy, phi, batch, said, beta, ctx)
        phi = proxy.apply(phi._replace(buffers=by_phi.buffers), by_phi.grads, batch.lr)
        return remembering(new, phi), {"loss": loss}

    def proxy_gradient(
        self, proxy: Task, phi: State, batch: Batch, teacher: Tensor, beta: Tensor, ctx: Context
    ) -> Gradient:
        """Differentiate what the proxy learns from the labels and the private model's logits `[B, L]`."""
        return proxy.gradients(phi, batch, objective=taught(proxy, teacher, beta, 1 - beta))

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self.fedavg.offer(proxy_of(task), proxy_model(state), probe, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        phi, info = self.fedavg.mix(proxy_of(task), proxy_model(state), inbox, probe, ctx)
        return remembering(state, phi), info

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        phi, info = self.fedavg.adopt(proxy_of(task), proxy_model(state), inbox, probe, ctx)
        return remembering(state, phi) if self.listens else state, info

    @property
    def fedavg(self) -> FedAvg:
        """The rules that the proxy follows."""
        return FedAvg(share=self.share, adoption=self.adoption)

    def search_space(self) -> SearchSpace:
        shares = {"alpha": (0.3, 0.5, 0.7), "beta": (0.3, 0.5, 0.7)}
        return {**Algorithm.search_space(self), **shares}


def proxy_model(state: State) -> State:
    """Unpack the proxy with its own buffers and optimiser."""
    return unpack_state("proxy", state.memory)


def remembering(state: State, phi: State) -> State:
    """Pack the proxy into the memory of a state."""
    return state._replace(memory=pack_state("proxy", phi))
