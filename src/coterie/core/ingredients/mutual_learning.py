"""Mutual learning: two models learn the labels, and what the other says about the same samples."""

from __future__ import annotations

import torch
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.tasks.task import Objective, Task
from coterie.core.types import Batch, Context, Probe

__all__ = ["divergence", "own_batch", "proxy_of", "taught"]


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Compute KL(teacher ‖ student) of two models' logits `[..., B, L]`, averaged over samples, `[...]`."""
    p, q = teacher.log_softmax(dim=-1), student.log_softmax(dim=-1)
    return (p.exp() * (p - q)).sum(dim=-1).mean(dim=-1)


def taught(task: Task, teacher: Tensor, label: Tensor | float, other: Tensor | float) -> Objective:
    """Weigh the loss of the labels, and the divergence from a teacher's logits `[B, L]`."""

    def objective(outputs: Tensor, _features: Tensor, y: Tensor) -> Tensor:
        return label * task.kind.mean_loss(outputs, y) + other * divergence(teacher, outputs)

    return objective


def own_batch(probe: Probe, ctx: Context, step: int, size: int, rate: Tensor | float) -> Batch:
    """Draw a mini-batch of so many own samples for a step of size `rate` within an exchange."""
    u = ctx.stream(f"batch {step}").uniform(size)
    real = (~probe.mask).long().argsort(stable=True)  # padding comes last
    rows = real[(u * probe.mask.sum()).long()]
    key = ctx.stream(f"key {step}").words(1)[0]
    return Batch(probe.x[rows], probe.y[rows], torch.ones_like(probe.size) * rate, key)


def proxy_of(task: Task) -> Task:
    """Find the task of the proxy, which both runtimes build for an algorithm that names one."""
    if task.proxy is None:
        raise ConfigError("this algorithm needs a second model, but its task has no proxy")
    return task.proxy
