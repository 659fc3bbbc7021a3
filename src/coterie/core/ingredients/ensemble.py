"""An ensemble: the own model and those heard, of whatever architecture, which teach one another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from coterie.core.ingredients.messages import weighted_sum
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Inbox, Message, Probe, State

__all__ = ["Learners", "answers", "ensemble", "log_frequencies", "step_together"]


class Learners(NamedTuple):
    """The models of one architecture, k of them, which learn side by side."""

    task: Task
    models: State
    """`[k, ...]`"""
    size: Tensor
    """`[k]`: how many numbers of each model learn; 0 for one that takes no part."""
    sent: tuple[str, ...]
    """Names of the tensors that travel."""

    @classmethod
    def of(cls, task: Task, state: State, messages: Message, part: Tensor) -> Learners:
        """Merge messages `[k, ...]` into a state, each by itself; `part` `[k]`: those that take part."""
        bare = State(state.params, state.buffers, {}, {}, {})
        numbers = sum(p.numel() for p in state.params.values())
        size = part.to(next(iter(messages.values())).dtype) * numbers
        return cls(task, task.mapped(partial(task.merge, bare))(messages), size, tuple(messages))

    def says(self, x: Tensor) -> Tensor:
        """Compute the probabilities of labels `[k, n, L]`; zeros of models that take no part."""
        said = self.task.mapped(lambda one: self.task.logits(one, x).softmax(dim=-1))(self.models)
        return torch.where(self.size[:, None, None] > 0, said, 0.0)

    def step(self, batch: Batch, teacher: Tensor, say: Tensor, labels: Tensor) -> Learners:
        """Descend the loss of labels and of what each model's teacher says `[k, n, L]`, of weight `say` `[]`.

        `labels` `[L]`: how often there is each, as a logarithm; rare ones are moved less.
        """

        def stepped(one: State, teacher: Tensor) -> State:
            def objective(outputs: Tensor, _features: Tensor, y: Tensor) -> Tensor:
                own = self.task.kind.mean_loss(outputs + labels, y)
                others = -(teacher * outputs.log_softmax(dim=-1)).sum(dim=-1).mean()
                return (1 - say) * own + say * others

            grads, _, buffers = self.task.gradients(one, batch, objective=objective)
            params = {k: p - batch.lr * grads[k] for k, p in one.params.items()}
            return one._replace(params=params, buffers=buffers)

        return self._replace(models=self.task.mapped(stepped)(self.models, teacher))

    def messages(self, share: Tensor | float) -> Message:
        """Name what is sent of the models `[k, ...]`, moved so far towards their mean."""
        tensors = {**self.models.params, **self.models.buffers}
        sent, part = {k: tensors[k] for k in self.sent}, self.size / self.size.sum().clamp_min(1)
        mean = weighted_sum(part, {k: _zero_unless(part > 0, m) for k, m in sent.items()})
        return {k: m + share * (mean[k] - m) for k, m in sent.items()}


def ensemble(task: Task, state: State, ours: Message, inbox: Inbox) -> list[Learners]:
    """Gather the own model, the first of those like it, with those heard, by architecture.

    `ours`: what is sent of the own one. Architectures of which there is no message are left out.
    """
    own = {k: torch.cat([ours[k][None], m]) for k, m in inbox.messages.items()}
    found = [Learners.of(task, state, own, torch.cat([torch.ones_like(inbox.own[:1]), inbox.own]))]
    for its, (messages, mask) in zip(task.foreign, inbox.foreign, strict=False):
        if messages:
            found.append(Learners.of(its, its.blank(messages), messages, mask & inbox.heard))
    return found


def step_together(everybody: Sequence[Learners], batch: Batch, say: Tensor, labels: Tensor) -> list[Learners]:
    """Let each model take a step towards the mean of all others, weighted by size; `labels`: as of `step`."""
    sizes = [some.size[:, None, None] for some in everybody]
    weighted = [size * some.says(batch.x) for size, some in zip(sizes, everybody, strict=True)]
    total, together = torch.cat(sizes).sum(), torch.cat(weighted).sum(dim=0)
    teachers = [
        (together - own) / (total - size).clamp_min(1) for own, size in zip(weighted, sizes, strict=True)
    ]
    return [some.step(batch, t, say, labels) for some, t in zip(everybody, teachers, strict=True)]


def answers(everybody: Sequence[Learners], inbox: Inbox, share: Tensor | float) -> tuple[State, Inbox]:
    """Return the own model, and the others in the places of what they were; each moved towards the mean.

    `share`: how far, from 0 to 1; the mean is that of an architecture.
    """
    own, *others = [some.messages(share) for some in everybody]
    mine = State(*({k: v[0] for k, v in part.items()} for part in everybody[0].models))
    rest = iter(others)
    foreign = tuple(f._replace(messages=next(rest)) if f.messages else f for f in inbox.foreign)
    back = inbox._replace(messages={k: m[1:] for k, m in own.items()}, foreign=foreign)
    return everybody[0].task.merge(mine, {k: m[0] for k, m in own.items()}), back


def log_frequencies(probe: Probe, labels: int) -> Tensor:
    """Compute the logarithm `[L]` of the share of each label among own samples; none counts as hardly any."""
    counts = (one_hot(probe.y, labels) * probe.mask[:, None]).sum(dim=0).to(probe.size)
    return (counts / counts.sum()).clamp_min(torch.finfo(counts.dtype).tiny).log()


def _zero_unless(part: Tensor, values: Tensor) -> Tensor:
    return torch.where(part.view(-1, *(1,) * (values.dim() - 1)), values, 0.0)
