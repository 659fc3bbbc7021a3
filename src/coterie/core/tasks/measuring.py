"""Measuring one client's model, the same in both runtimes."""

from __future__ import annotations

from torch import Tensor

from coterie.core.tasks.task import Task
from coterie.core.tasks.task_kind import Trained
from coterie.core.types import State, Tensors

__all__ = ["measure_client"]


def measure_client(
    task: Task, model: State, outputs: Tensor, samples: tuple[Tensor, Tensor], trained: tuple[Tensor, Tensor]
) -> Tensors:
    """Compute each metric `[]` of the outputs `[n, ...]` of a model for samples (x, y), none of it padding.

    `trained`: the client's training samples (x, y), for tasks that look at features.
    """
    (x, y), kind = samples, task.kind
    seen = None
    if kind.probes_features:
        seen = Trained(task.features(model, trained[0]), trained[1], task.features(model, x), y)
    return kind.measure(outputs, kind.targets(x, y), seen)
