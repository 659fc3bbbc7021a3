r"""Distillation: a model learns what others say of its client's own samples, whatever their architecture.

The teacher is the weighted mean of the others' probabilities, $p_T(x) = \sum_j w_j p_j(x) / \sum_j w_j$, on
blends of two own samples, $x = u x_a + (1 - u) x_b$ with u uniform: on the samples themselves all know the
labels, so there is little to be told; between them there is. A step descends
$(1 - \lambda)\, \mathrm{CE}(y, p(x)) + \lambda\, \mathrm{CE}(p_T(x), p(x))$, with y blended like x, and
$\lambda$ the say of the others: cross entropy and, but for a constant, the Kullback-Leibler divergence.

Hinton, Vinyals, Dean: Distilling the knowledge in a neural network. 2015.
Zhang, Cisse, Dauphin, Lopez-Paz: mixup: beyond empirical risk minimization. ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from coterie.core.errors import ConfigError
from coterie.core.messages import weighted_sum
from coterie.core.task import Task
from coterie.core.types import Batch, Context, Inbox, Probe, State

__all__ = ["BATCH", "distilled"]

BATCH = 32
"""Blends of a gradient step."""
BATCHES = 4
"""Blends of a lesson, which steps take in turn: all teachers are run on all of them."""


def distilled(
    task: Task,
    state: State,
    new: State,
    inbox: Inbox,
    weight: Tensor,
    say: Tensor,
    probe: Probe,
    ctx: Context,
    *,
    steps: int,
    rate: Tensor | float,
) -> State:
    """Take so many gradient steps of size `rate` from `new` towards what those heard say.

    `state`: the client's before the exchange, with which the messages came; `weight` `[K]`: trust in each, of
    which 0 counts as not heard; `say` `[]`: λ. Where that is 0, or a teacher's numbers are not finite, the
    result is `new`.
    """
    if not task.kind.predicts_classes:
        raise ConfigError(
            'models of other architectures, and with own_shape = "distil" all models, teach what they say of '
            "classes, but the targets of this task are no classes; give all clients one architecture, and "
            "leave own_shape out"
        )
    x, labels = _blends(probe, ctx, min(steps, BATCHES) * BATCH)
    said = task.look(lambda its, one: its.logits(one, x).softmax(dim=-1), state, inbox)
    share = torch.where(weight > 0, weight, 0.0)
    share = share / share.sum().clamp_min(torch.finfo(share.dtype).tiny)
    teacher = weighted_sum(share, {"said": torch.where((share > 0)[:, None, None], said, 0.0)})["said"]
    target = (1 - say) * labels(teacher.shape[-1]) + say * teacher
    taught = new
    for step in range(steps):
        first = step % BATCHES * BATCH
        some = slice(first, first + BATCH)
        taught = _step(task, taught, x[some], target[some], ctx, rate)
    numbers = [teacher, *taught.params.values(), *taught.buffers.values()]
    sound = (say > 0) & torch.stack([v.isfinite().all() for v in numbers]).all()
    return new._replace(
        params={k: torch.where(sound, v, new.params[k]) for k, v in taught.params.items()},
        buffers={k: torch.where(sound, v, new.buffers[k]) for k, v in taught.buffers.items()},
    )


def _step(task: Task, state: State, x: Tensor, target: Tensor, ctx: Context, rate: Tensor | float) -> State:
    """Descend the cross entropy of outputs to targets `[B, L]`; the optimiser's memory stays as it is."""

    def objective(outputs: Tensor, _features: Tensor, wanted: Tensor) -> Tensor:
        return -(wanted * outputs.log_softmax(dim=-1)).sum(dim=-1).mean()

    seed = ctx.stream("dropout").words(1)[0]
    found = task.gradients(state, Batch(x, target, seed, seed), objective=objective)
    params = {k: p - rate * found.grads[k] for k, p in state.params.items()}
    return state._replace(params=params, buffers=found.buffers)


def _blends(probe: Probe, ctx: Context, count: int) -> tuple[Tensor, Callable[[int], Tensor]]:
    """Draw blends of two own samples each `[S, ...]`, and a way to blend their labels `[S, L]`, given L.

    Samples that are whole numbers, such as words, stay as they are.
    """
    u = ctx.stream("distil").uniform(3 * count).view(3, count).to(probe.size.dtype)
    place = probe.mask.cumsum(dim=0)
    first, second = ((place <= (u[i] * place[-1]).floor()[:, None]).sum(dim=-1) for i in (0, 1))
    part = u[2] if probe.x.is_floating_point() else torch.ones_like(u[2])
    x = probe.x[first]
    if probe.x.is_floating_point():
        wide = part.view(-1, *(1,) * (x.dim() - 1)).to(x.dtype)
        x = wide * x + (1 - wide) * probe.x[second]

    def labels(classes: int) -> Tensor:
        ours, theirs = (one_hot(probe.y[at], classes) for at in (first, second))
        return part[:, None] * ours + (1 - part[:, None]) * theirs

    return x, labels
