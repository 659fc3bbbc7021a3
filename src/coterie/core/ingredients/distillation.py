r"""Distillation: a model learns what others say of its client's own samples, whatever their architecture.

The teacher is the weighted mean of what the others say, $v_T(x) = \sum_j w_j v(z_j(x)) / \sum_j w_j$, where
v makes of outputs what means can be taken of (`TaskKind.view`): probabilities of classes, labels or tokens,
and numbers as they are. It is asked on blends of two own samples, $x = u x_a + (1 - u) x_b$ with u uniform:
on the samples themselves all know the targets, so there is little to be told; between them there is. A step
descends the loss (`TaskKind.follow`) towards $(1 - \lambda)\, y + \lambda\, v_T(x)$, with y blended like x,
and $\lambda$ the say of the others. Of classes, that is the cross entropy and, but for a constant, the
Kullback-Leibler divergence; of numbers, the squared error.

Hinton, Vinyals, Dean: Distilling the knowledge in a neural network. 2015.
Zhang, Cisse, Dauphin, Lopez-Paz: mixup: beyond empirical risk minimization. ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.ingredients.messages import weighted_sum
from coterie.core.tasks.task import Task
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
    which 0 counts as not heard, as do teachers who say what is not finite; `say` `[]`: λ. Where that is 0, or
    nobody teaches, the result is `new`.
    """
    blend = _blender(probe, ctx, min(steps, BATCHES) * BATCH)
    x = blend(probe.x)
    said = task.look(lambda its, one: its.kind.view(its.logits(one, x)), state, inbox)
    finite = said.flatten(1).isfinite().all(dim=1)
    share = torch.where((weight > 0) & finite, weight, 0.0)
    taught = share.sum() > 0
    share = share / share.sum().clamp_min(torch.finfo(share.dtype).tiny)
    heard = (share > 0).view(-1, *(1,) * (said.dim() - 1))
    teacher = weighted_sum(share, {"said": torch.where(heard, said, 0.0)})["said"]
    ideal = blend(task.kind.ideal(task.kind.targets(probe.x, probe.y), teacher.shape[-1]))
    if ideal.shape != teacher.shape:
        raise ConfigError(
            f"task {type(task.kind).__name__}: models cannot teach each other, as they say "
            f"{list(teacher.shape[1:])} numbers of a sample, but `ideal` makes {list(ideal.shape[1:])} of "
            "its target; write TaskKind.ideal, or give all clients one architecture and leave own_shape out"
        )
    wanted = (1 - say) * ideal + say * teacher
    after = new
    for step in range(steps):
        first = step % BATCHES * BATCH
        some = slice(first, first + BATCH)
        after = _step(task, after, x[some], wanted[some], ctx, rate)
    numbers = [*after.params.values(), *after.buffers.values()]
    sound = (say > 0) & taught & torch.stack([v.isfinite().all() for v in numbers]).all()
    return new._replace(
        params={k: torch.where(sound, v, new.params[k]) for k, v in after.params.items()},
        buffers={k: torch.where(sound, v, new.buffers[k]) for k, v in after.buffers.items()},
    )


def _step(task: Task, state: State, x: Tensor, wanted: Tensor, ctx: Context, rate: Tensor | float) -> State:
    """Descend the loss towards `wanted` `[B, ..., L]`; the optimiser's memory stays as it is."""

    def objective(outputs: Tensor, _features: Tensor, _y: Tensor) -> Tensor:
        return task.kind.follow(outputs, wanted)

    seed = ctx.stream("dropout").words(1)[0]
    found = task.gradients(state, Batch(x, wanted, seed, seed), objective=objective)
    params = {k: p - rate * found.grads[k] for k, p in state.params.items()}
    return state._replace(params=params, buffers=found.buffers)


def _blender(probe: Probe, ctx: Context, count: int) -> Callable[[Tensor], Tensor]:
    """Draw pairs of own samples, and make a function that blends values `[n, ...]` of these, `[S, ...]`.

    Where samples are whole numbers, such as tokens, it takes the first of each pair as it is.
    """
    u = ctx.stream("distil").uniform(3 * count).view(3, count)
    place = probe.mask.cumsum(dim=0)
    first, second = ((place <= (u[i] * place[-1]).floor()[:, None]).sum(dim=-1) for i in (0, 1))
    part = u[2].to(probe.size.dtype)

    def blend(values: Tensor) -> Tensor:
        if not probe.x.is_floating_point():
            return values[first]
        wide = part.view(-1, *(1,) * (values.dim() - 1))
        return wide * values[first] + (1 - wide) * values[second]

    return blend
