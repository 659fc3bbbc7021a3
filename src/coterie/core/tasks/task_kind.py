"""The contract of a task kind: what is learned, and how well it is, for any model and any method.

    accept     take the targets of a data set, in the type that this kind computes with    once
    names      name the classes, targets or tokens that the data set does not name         once
    strata     sort targets into bins, by which samples are dealt                          once
    shape      say what a model must put out for one sample                                once
    targets    choose what the outputs of a sample are compared with                       every step
    mean_loss  compute the loss of a mini-batch                                            every step
    losses     compute the loss of each sample                                             when looked at
    view       make of outputs what MidGetter compares, and what means are taken of        every exchange
    ideal      make of targets what `view` gives of a model that is right                  every lesson
    follow     compute the loss of a mini-batch towards such views                         every lesson
    judge      compute the loss of others' outputs on the own targets                      every exchange
    blind      make the outputs of whoever sees no input                                   every exchange
    nats       measure losses on a scale on which differences mean the same everywhere     every exchange
    measure    compute the metrics of one client                                           every evaluation
    correct    tell which samples are right, if there is right and wrong                   at the end

A task kind is a frozen dataclass whose fields are its options. Axes: n samples, K models, T
targets, L outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import vmap

from coterie.core.tasks.metric import Metric, TaskFacts
from coterie.core.types import Probe, Tensors

__all__ = ["ClosedForm", "TaskKind"]

ClosedForm = Literal["cross_entropy", "squared"]
"""Losses whose gradient the engine has written out: mean cross-entropy over classes, mean squared error."""


@dataclass(frozen=True)
class TaskKind(ABC):
    """A task kind; `accept`, `shape`, `mean_loss`, `metrics` and `measure` make it one."""

    has_classes: ClassVar[bool] = False
    """True if targets are `[n]` int64, one class each, as label partitions, shifts and attacks need."""
    has_probabilities: ClassVar[bool] = False
    """True if `view` gives probabilities that sum to one on the last axis."""
    probes_features: ClassVar[bool] = False
    """True if `measure` wants `trained`, the features and targets of the client's training samples."""

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, of which the first is what clients are compared by."""

    @property
    def closed_form(self) -> ClosedForm | None:
        """The loss, if the engine knows its gradient; None: it is differentiated."""
        return None

    @abstractmethod
    def accept(self, y: Tensor, names: tuple[str, ...], where: str) -> Tensor:
        """Give the targets `[n, ...]` as this kind computes with them; what does not fit is a DataError."""

    def names(self, *y: Tensor) -> tuple[str, ...]:
        """Name what the data set `y` `[n, ...]`, in one part or several, has no names for."""
        width = y[0].shape[1] if y[0].dim() > 1 else 1
        return ("target",) if width == 1 else tuple(f"target {i}" for i in range(width))

    def strata(self, y: Tensor, names: tuple[str, ...]) -> tuple[Tensor, int]:
        """Sort accepted targets into bins `[n]` int64, and say how many bins there are; as a rule one."""
        return torch.zeros(len(y), dtype=torch.int64), 1

    @abstractmethod
    def shape(self, inputs: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        """Say what a model puts out for one sample of shape `inputs`; it is built for the last number."""

    def targets(self, x: Tensor, y: Tensor) -> Tensor:
        """Choose what outputs are compared with, of the samples' `x` and `y`."""
        return y

    @abstractmethod
    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Compute the mean loss `[]` of outputs `[n, ...]` for targets `[n, ...]`."""

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Compute the loss of each sample, `[n]`."""
        return vmap(lambda one, its: self.mean_loss(one[None], its[None]))(outputs, y)

    def view(self, outputs: Tensor) -> Tensor:
        """Make of outputs `[..., n, L]` what MidGetter compares, and what a mean over models is taken of."""
        return outputs

    def ideal(self, y: Tensor, outputs: int) -> Tensor:
        """Make of targets `[n, ...]` the `view` `[n, ..., L]` of a model that is right; `outputs`: L."""
        return y

    def follow(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Compute the mean loss `[]` of outputs towards what `view` should make of them, both `[n, ...]`."""
        return (self.view(outputs) - wanted).square().mean()

    def judge(self, outputs: Tensor, probe: Probe) -> Tensor:
        """Compute the mean loss `[K]` of K models' outputs `[K, n, ...]` on the probe's own targets."""
        y = self.targets(probe.x, probe.y)
        return probe.mean(vmap(lambda one: self.losses(one, y))(outputs))

    def blind(self, outputs: Tensor, probe: Probe) -> Tensor:
        """Make the outputs, like `outputs` `[n, ...]`, of whoever knows the own targets but sees no input."""
        return torch.zeros_like(outputs)

    def nats(self, loss: Tensor) -> Tensor:
        """Measure mean losses in nats, so that a difference of one means the same in every unit."""
        return loss

    @abstractmethod
    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        """Compute each metric `[]` by its name, of one client's n samples, none of which is padding."""

    def measure_all(self, outputs: Tensor, y: Tensor, mask: Tensor) -> Tensors | None:
        """Compute the metrics `[N]` of N clients at once, `[N, n, ...]`; None: client by client."""
        return None

    def correct(self, outputs: Tensor, y: Tensor) -> Tensor | None:
        """Tell which samples `[..., n]` are right; None: there is no right and wrong, losses are kept."""
        return None

    @property
    def predicts_classes(self) -> bool:
        """True if outputs are about classes, so that there is right and wrong."""
        return type(self).correct is not TaskKind.correct

    def facts(self, name: str) -> TaskFacts:
        """Give what readers of results must know, by the name of the task in the experiment."""
        return TaskFacts(name, self.metrics, self.has_classes)


@dataclass(frozen=True, eq=False)
class Trained:
    """A client's training samples as a probe of its features sees them, and its features of the others."""

    features: Tensor
    """`[n, F]` of the training samples."""
    y: Tensor
    """`[n]` the data set's own targets of them."""
    tested: Tensor
    """`[m, F]` of the samples that are measured."""
    tested_y: Tensor
    """`[m]`"""
