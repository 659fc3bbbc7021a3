r"""KD-PDFL: look at the neighbours' models on your own data, and learn whom to listen to.

Each function of `PaperReading` is a line of the appendix or an equation of the paper; t is the star's
iteration, i the star, j its neighbours. It is `reading = "paper"`. The default reading goes beyond the paper
and stands apart, in `kd_pdfl_trust.py`.

Jeong, Kountouris: Personalized decentralized federated learning with knowledge distillation.
ICC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.algorithm import Algorithm, SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import write_row
from coterie.core.registry import register
from coterie.core.tasks.outputs import distance, mean_distance, outputs
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Probe, Start, State, Tensors
from coterie.plugins.algorithms._distilling import Distilling
from coterie.plugins.algorithms.kd_pdfl_trust import TrustReading

__all__ = ["KDPDFL", "PaperReading"]

BARRIER = 0.01
"""Σ_j w_ij below which -log Σ_j w_ij is not followed further down: a row of zeros stays finite."""


@dataclass(frozen=True)
class PaperReading(Distilling):
    """Neighbours weighted by how alike their models see the client's own data."""

    mu1: Annotated[float, Ge(0)] = 1.0
    """Sensitivity to the statistical distance."""
    mu2: Annotated[float, Ge(0)] = 0.5
    """Reward for collaborating: a neighbour nearer than about mu2 / mu1 gains weight."""
    step: Literal["unit", "sign", "fixed", "softmax"] = "unit"
    """The reading of eq. 2's "1./|∇h|"; `softmax` replaces eq. 2 by w ∝ exp(-d / tau), without memory."""
    eta: Annotated[float, Gt(0)] = 0.1
    """The step size of `fixed`."""
    tau: Annotated[float, Gt(0)] = 0.3
    """The temperature of `softmax`."""
    regularizer: Literal["degree", "l2"] = "degree"
    """g(w): `degree` is -log Σ_j w_ij, `l2` is ½ Σ_j w_ij²."""
    c_base: Annotated[float, Gt(0)] = 100.0
    """Training samples of a client that is fully confident."""
    distance: str = "wasserstein2d"
    """The distance by which outputs are compared (`coterie ls distances`)."""
    outputs: str = "probabilities"
    """The outputs at which MidGetter looks: `probabilities`, `logits`, `centred`, or the name of a layer."""

    def __post_init__(self) -> None:
        distance(self.distance, self.outputs)  # a mistake is told now, not at the first exchange

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        # Input: w_ii = 0, w_ij = 1/M
        return Algorithm.init(self, task, start, ctx)._replace(rows={"w": start.row})

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        inbox, w, d = self.look(task, state, inbox, probe)
        # θ_i = (1 - c_i) Σ_j w_ij θ_j + c_i θ_i, with the w_ij of those heard scaled to sum to one
        w_j = torch.where(inbox.heard, w[inbox.slot], 0.0)
        total = w_j.sum()
        c_i = torch.where(total > 0, self.confidence(probe, inbox), 1.0)
        share = (1 - c_i) * (w_j / torch.where(total > 0, total, 1.0))
        new = self.learned(task, state, inbox, share, probe, ctx)._replace(rows={"w": w})
        return new, {"distance": d, "weight": w_j, "confidence": c_i, "heard": inbox.heard}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        # θ_j = θ_i, or (`mix`) as far as j trusts i, measured by the neighbour it trusts most
        if self.adoption in ("replace", "average") and self.distils(inbox):
            share = inbox.heard / (1.0 if self.adoption == "replace" else 2.0)
            return self.learned(task, state, inbox, share.to(probe.size.dtype), probe, ctx), {}
        if self.adoption != "mix":
            return Algorithm.adopt(self, task, state, inbox, probe, ctx)
        inbox, w, d = self.look(task, state, inbox, probe)
        w_i = torch.where(inbox.heard, w[inbox.slot], 0.0)
        share = (1 - self.confidence(probe, inbox)) * w_i / w.max().clamp_min(torch.finfo(w.dtype).tiny)
        new = self.learned(task, state, inbox, share, probe, ctx)._replace(rows={"w": w})
        return new, {"distance": d, "weight": w_i, "confidence": 1 - share.sum(), "heard": inbox.heard}

    def look(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[Inbox, Tensor, Tensor]:
        """Find what can be measured, the new row of W `[M]`, and the distances `[K]` that led to that row."""
        # (z_i@i, z_j@i) = MidGetter(θ_i, θ_j, X_i)
        mid_getter = partial(self.mid_getter, probe=probe)
        z_i, z_j = mid_getter(task, state), task.look(mid_getter, state, inbox)
        # d_W(i,j) = Wasserstein2D(z_i@i, z_j@i)
        d = self.statistical_distance(task, z_i, z_j, probe)
        # A model too wild to be measured counts as not heard.
        inbox = inbox._replace(heard=inbox.heard & torch.isfinite(d))
        # ConnVectorUpdate(i,j) as in equation (2)
        return inbox, self.conn_vector_update(state.rows["w"], d, inbox), d

    def mid_getter(self, task: Task, state: State, probe: Probe) -> Tensor:
        """Compute the outputs of one model on the star's own samples, `[n, L]`."""
        return outputs(task, state, probe, self.outputs)

    def statistical_distance(self, task: Task, z_i: Tensor, z_j: Tensor, probe: Probe) -> Tensor:
        """Eq. 3: the mean over samples of the distance between outputs, `[K]`."""
        return mean_distance(task, self.distance, self.outputs, z_i, z_j, probe)

    def conn_vector_update(self, w: Tensor, d: Tensor, inbox: Inbox) -> Tensor:
        """Eq. 2, for the neighbours heard: w_ij ← max(0, w_ij - η ∇h_j)."""
        if self.step == "softmax":
            w_j = torch.exp(-d / self.tau)
        else:
            w_j = w[inbox.slot]
            grad_g = -1 / w.sum().clamp_min(BARRIER) if self.regularizer == "degree" else w_j
            grad_h = torch.where(inbox.heard, self.mu1 * d + self.mu2 * grad_g, 0.0)
            w_j = (w_j - self.eta_t(grad_h) * grad_h).clamp_min(0)
        return write_row(w, w_j, inbox)

    def eta_t(self, grad_h: Tensor) -> Tensor | float:
        """Eq. 2: η = 1 / |∇h|; no gradient, no move."""
        if self.step == "fixed":
            return self.eta
        size = grad_h.abs() if self.step == "sign" else grad_h.norm()
        return torch.where(size > 0, 1 / size, 0.0)

    def confidence(self, probe: Probe, inbox: Inbox) -> Tensor:
        """Eq. 4: c_i = min(|X_i| / c_base, 1 / (|N_i| + 1))."""
        return torch.minimum(probe.size / self.c_base, 1 / (inbox.heard.to(probe.size).sum() + 1))

    def search_space(self) -> SearchSpace:
        # Of the numbers in eq. 2, only one that this reading of it has.
        number: SearchSpace = {"mu2": (0.1, 0.2, 0.5, 1.0)}
        if self.step == "softmax":
            number = {"tau": (0.03, 0.1, 0.3, 1.0)}
        outputs = ("probabilities", "centred")
        return {"adoption": ("replace", "average", "mix", "ignore"), "outputs": outputs, **number}


@register("algorithm", "KD-PDFL")
@dataclass(frozen=True)
class KDPDFL(PaperReading, TrustReading):
    """Neighbours weighted by what their models say about the client's own data."""

    reading: Literal["trust", "paper"] = "trust"
    """The way in which the paper is read: `trust` judges neighbours by the own labels and has the options
    `tau`, `asked`, `share` and `adoption` alone; `paper` is the appendix to the letter, with all options."""
    tau: Annotated[float, Gt(0)] = 0.3
    """The temperature: a neighbour whose loss (in the reading `paper` with `step = "softmax"`, whose
    distance) is `tau` above the best has 1/e of the best one's weight."""

    def __post_init__(self) -> None:
        PaperReading.__post_init__(self)
        if self.reading == "paper" and self.asked:
            raise ConfigError(
                f'asked = {self.asked} has no effect: it is an option of reading = "trust"; leave it out'
            )
        if self.reading == "trust" and (given := [k for k in PAPER_ONLY if self._is_set(k)]):
            raise ConfigError(
                f"{given[0]} = {getattr(self, given[0])!r} has no effect: it is an option of "
                'reading = "paper"; set that, or leave the option out'
            )

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return self._chosen.init(self, task, start, ctx)

    def close(self, task: Task, state: State, ctx: Context) -> State:
        return self._chosen.close(self, task, state, ctx)

    def settle(self, task: Task, state: State, ctx: Context) -> State:
        return self._chosen.settle(self, task, state, ctx)

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self._chosen.mix(self, task, state, inbox, probe, ctx)

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self._chosen.adopt(self, task, state, inbox, probe, ctx)

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        return self._chosen.model(self, state)

    def search_space(self) -> SearchSpace:
        return self._chosen.search_space(self)

    @property
    def _chosen(self) -> type[PaperReading] | type[TrustReading]:
        return TrustReading if self.reading == "trust" else PaperReading

    def _is_set(self, option: str) -> bool:
        """Tell whether an option is not the default; a tensor is a number that the engine has stacked."""
        value = getattr(self, option)
        return not isinstance(value, Tensor) and bool(value != getattr(KDPDFL, option))


PAPER_ONLY = ("mu1", "mu2", "step", "eta", "regularizer", "c_base", "distance", "outputs")
"""Options that the reading `trust` does not have."""
