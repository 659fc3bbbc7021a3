r"""ProxyFL: as in FML two models teach each other, but the one that travels is passed on, not averaged.

$\phi_i \leftarrow (1-b)\,\phi_i + b\,\phi_j$, j one of those in reach, drawn at random

With b = 1 (`blend`) a star takes over the proxy of the neighbour it asked; of several that it asked
(`asked`), their mean. The paper's clients all receive one in each round, from peers on an exponential graph,
which is `exchange.stars = 1.0` here; a broadcast would bring most of them back. Only the proxy ever leaves a
client.

With `private = true` the proxy's gradient is that of DP-SGD: each sample's is clipped to norm C, and the sum
over B samples gets noise,
$g = \frac{1}{B}\left(\sum_b \min\left(1, \frac{C}{\lVert g_b\rVert_2}\right) g_b +
 \sigma C\,\varepsilon\right)$ with $\varepsilon \sim \mathcal{N}(0, 1)$. These are building blocks of
differential privacy and no more: nothing is accounted for, no ε or δ is promised.

Kalra, Wen, Cresswell, Volkovs, Tizhoosh: Decentralized federated learning through proxy model sharing.
Nature Communications 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor
from torch.func import vmap

from coterie.core.algorithm import Adoption, SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import ranks, weighted_sum
from coterie.core.ingredients.mutual_learning import proxy_of, taught
from coterie.core.registry import register
from coterie.core.tasks.task import Gradient, Task
from coterie.core.types import Batch, Context, Inbox, Info, Probe, Reachable, Start, State, Tensors
from coterie.plugins.algorithms.fml import FML, proxy_model, remembering

__all__ = ["ProxyFL"]


@register("algorithm", "ProxyFL")
@dataclass(frozen=True)
class ProxyFL(FML):
    """A private model and a common one that is passed on teach each other; can add privacy noise."""

    adoption: Adoption = "ignore"
    """The use that a neighbour makes of the broadcast proxy: `replace` its own, `average` half and half,
    `mix`: as far as `blend` says, or `ignore` it, which is often its own come back."""
    asked: Annotated[int, Ge(1)] = 1
    """How many of those in reach a star asks, drawn at random."""
    blend: Annotated[float, Ge(0), Le(1)] = 1.0
    """b: how far the proxy moves to the one that is heard; 1 takes that over, 1/2 is their mean."""
    private: bool = False
    """True if each sample's part of the proxy's gradient is clipped and their sum made noisy; no privacy
    accounting is done."""
    clip: Annotated[float, Gt(0)] = 1.0
    """C, if `private`: the largest norm of one sample's gradient."""
    noise: Annotated[float, Ge(0)] = 1.0
    """σ, if `private`: the noise's standard deviation, as a multiple of C."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        if self.private and any("running" in k for k in start.proxy[1]):
            raise ConfigError(
                "private = true clips the gradient of each sample alone, but the proxy normalises over "
                'mini-batches; name a proxy without, such as proxy = { name = "mlp", norm = "layer" }'
            )
        return FML.init(self, task, start, ctx)

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        u = ctx.stream("ask").uniform(1, client=reachable.slot)[:, 0]
        return reachable.mask & (ranks(torch.where(reachable.mask, u, torch.inf)) < self.asked)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        proxy, phi = proxy_of(task), proxy_model(state)
        share = inbox.heard / inbox.heard.sum().clamp_min(1)
        own, theirs = proxy.select(phi, self.share), weighted_sum(share, inbox.messages)
        passed = {k: (1 - self.blend) * own[k] + self.blend * m for k, m in theirs.items()}
        return remembering(state, proxy.merge(phi, passed)), {"weight": share}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.adoption == "mix":
            return self.mix(task, state, inbox, probe, ctx)
        return FML.adopt(self, task, state, inbox, probe, ctx)

    def proxy_gradient(
        self, proxy: Task, phi: State, batch: Batch, teacher: Tensor, beta: Tensor, ctx: Context
    ) -> Gradient:
        if not self.private:
            return FML.proxy_gradient(self, proxy, phi, batch, teacher, beta, ctx)

        def of_one(x: Tensor, y: Tensor, logits: Tensor) -> tuple[Tensors, Tensor]:
            said = taught(proxy, logits[None], beta, 1 - beta)
            grads, loss, _ = proxy.gradients(phi, batch._replace(x=x[None], y=y[None]), objective=said)
            return clipped(grads, self.clip), loss

        grads, loss = vmap(of_one)(batch.x, batch.y, teacher)
        noise = {k: ctx.stream(k).normal(g[0].numel()).view(g[0].shape).to(g) for k, g in grads.items()}
        spread = self.noise * self.clip
        noisy = {k: (g.sum(dim=0) + spread * noise[k]) / len(g) for k, g in grads.items()}
        return Gradient(noisy, loss.mean(), phi.buffers)

    def search_space(self) -> SearchSpace:
        taught = {k: v for k, v in FML.search_space(self).items() if k != "adoption"}
        return {**taught, "asked": (1, 2, 5), "blend": (0.5, 1.0)}


def clipped(grads: Tensors, most: Tensor | float) -> Tensors:
    """Shrink a gradient to a norm, if it has more."""
    squares = [grads[k].square().sum() for k in sorted(grads)]  # a state that was loaded has another order
    norm = torch.stack(squares).sum().sqrt()
    shrink = torch.where(norm > most, most / norm, 1.0).to(norm)
    return {k: shrink * g for k, g in grads.items()}
