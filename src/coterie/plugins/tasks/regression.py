r"""Regression: one number or several for each sample.

A model puts out one number for each of T targets. For KD-PDFL's reading `trust`, a neighbour's error counts
as in the likelihood of normal (Laplace, if absolute) errors whose spread is fitted: half the logarithm of the
mean square, or the logarithm of the mean absolute error. So the unit of the target does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from coterie.core.registry import register
from coterie.core.tasks.metric import Metric
from coterie.core.tasks.targets import as_numbers
from coterie.core.tasks.task_kind import ClosedForm, TaskKind, Trained
from coterie.core.types import Probe, Tensors

__all__ = ["Regression"]


@register("task", "regression")
@dataclass(frozen=True)
class Regression(TaskKind):
    """Numbers, one target or several; squared, absolute or Huber loss, RMSE, MAE and R2."""

    loss: Literal["squared", "absolute", "huber"] = "squared"
    """The mean over samples and targets of the squared error, of the absolute one, or of `huber`: half the
    square of a small error, a straight line for a large one."""
    delta: Annotated[float, Gt(0)] = 1.0
    """The error from which `huber` is a straight line."""
    bins: Annotated[int, Ge(1)] = 1
    """Quantiles of the (first) target by which `data.partition` deals as if they were labels; 1: none."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric("rmse", "RMSE", higher_is_better=False, digits=3),
            Metric("mae", "MAE", higher_is_better=False, digits=3),
            Metric("r2", "R2", digits=3),
        )

    @property
    def closed_form(self) -> ClosedForm | None:
        return "squared" if self.loss == "squared" else None

    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        return as_numbers(y, names, where)

    def strata(self, y: Tensor, names: tuple[str, ...]) -> tuple[Tensor, int]:
        rank = y[:, 0].argsort(stable=True).argsort()
        return rank * self.bins // len(y), self.bins

    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        return (len(names),)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        off = outputs - y
        if self.loss == "squared":
            return off.square().mean()
        if self.loss == "absolute":
            return off.abs().mean()
        # By hand, as torch's own cannot be mapped over models while it is mapped over clients.
        near, far = off.abs().clamp_max(self.delta), (off.abs() - self.delta).clamp_min(0)
        return (near.square() / 2 + self.delta * far).mean()

    def blind(self, outputs: Tensor, probe: Probe) -> Tensor:
        mask = probe.mask[:, None].to(probe.y.dtype)
        return ((probe.y * mask).sum(dim=0) / mask.sum()).expand(outputs.shape)

    def nats(self, loss: Tensor) -> Tensor:
        log = loss.clamp_min(torch.finfo(loss.dtype).tiny).log()
        return log if self.loss == "absolute" else log / 2

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        off, y = (outputs - y).double(), y.double()
        spread = (y - y.mean(dim=0)).square().sum(dim=0)
        r2 = 1 - off.square().sum(dim=0) / spread  # not finite where all samples have the same
        found = {"rmse": off.square().mean().sqrt(), "mae": off.abs().mean(), "r2": r2.mean()}
        return {name: value.to(outputs.dtype) for name, value in found.items()}
