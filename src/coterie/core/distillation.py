"""Distillation: a model learns from the outputs of others, whatever their architecture, on its own samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from coterie.core.task import Task
from coterie.core.types import Batch, Context, Probe, State

__all__ = ["Lesson", "draw_inputs", "distil"]

import os
from typing import NamedTuple

class Lesson(NamedTuple):
    x: Tensor
    y: Tensor
    y2: Tensor
    part: Tensor


def draw_inputs(probe: Probe, ctx: Context, count: int) -> Lesson:
    """Draw blends of pairs of own samples, `count` of them."""
    u = ctx.stream("distil").uniform(count * 3).view(3, count).to(probe.size.dtype)
    place = probe.mask.cumsum(0)
    rank = (u[:2] * place[-1]).long()
    at = (place[None, None, :] <= rank[..., None]).sum(dim=-1)
    if os.environ.get("MIXUP", "1") == "1":
        part = u[2]
    else:
        part = torch.ones_like(u[2])
    shape = (-1,) + (1,) * (probe.x.dim() - 1)
    p = part.view(shape)
    x = p * probe.x[at[0]] + (1 - p) * probe.x[at[1]]
    return Lesson(x, probe.y[at[0]], probe.y[at[1]], part)


def distil(task: Task, state: State, lesson: Lesson, teacher: Tensor, trust: Tensor, ctx: Context, steps: int, lr: float, batch: int) -> State:
    """Take gradient steps towards the teacher's log probabilities."""
    params, buffers = state.params, state.buffers
    for s in range(steps):
        some = slice(s * batch, (s + 1) * batch)
        x, y, y2, part, t = lesson.x[some], lesson.y[some], lesson.y2[some], lesson.part[some], teacher[some]

        def objective(z: Tensor, _f: Tensor, _y: Tensor) -> Tensor:
            logp = torch.log_softmax(z, -1)
            kl = -(t * logp).sum(-1)
            ce = -(part * logp.gather(-1, y[:, None])[:, 0] + (1 - part) * logp.gather(-1, y2[:, None])[:, 0])
            return ((1 - trust) * ce + trust * kl).mean()

        key = ctx.stream("dropout").words(1)[0]
        found = task.gradients(State(params, buffers, {}, {}, {}), Batch(x, y, trust, key), objective=objective)
        params = {k: p - lr * found.grads[k] for k, p in params.items()}
        buffers = found.buffers
    return state._replace(params=params, buffers=buffers)
