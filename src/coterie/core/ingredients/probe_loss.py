"""The loss of a model on a client's own samples, and its gradient, where no local step is taken."""

from __future__ import annotations

from torch import Tensor
from torch.func import grad

from coterie.core.tasks.task import Task
from coterie.core.types import Probe, State, Tensors

__all__ = ["probe_gradient", "probe_loss"]


def probe_loss(task: Task, state: State, probe: Probe, *, held: bool = False) -> Tensor:
    """Average the loss over the probe, `[]`; `held`: over held-out samples, or over all if there are none."""
    where = probe.held | ~probe.held.any() if held else None
    return probe.mean(task.losses(state, probe.x, probe.y), where)


def probe_gradient(task: Task, state: State, probe: Probe, *, held: bool = False) -> Tensors:
    """Differentiate `probe_loss` by the parameters."""

    def loss(params: Tensors) -> Tensor:
        return probe_loss(task, state._replace(params=params), probe, held=held)

    gradient: Tensors = grad(loss)(state.params)
    return gradient
