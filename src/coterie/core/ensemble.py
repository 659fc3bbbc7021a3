"""Ensembles: models of one or several architectures that teach one another on the same mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from coterie.core.messages import weighted_sum
from coterie.core.task import Task
from coterie.core.types import Batch, Message, Probe, State

__all__ = ["Learners", "log_frequencies", "step_together"]


class Learners(NamedTuple):
    """The models of one architecture, k of them, which learn side by side."""

    task: Task
    models: State
    """`[k, ...]`"""
    size: Tensor
    """`[k]`: how many numbers of each model learn; 0 for one that does not take part."""

    @classmethod
    def of(cls, task: Task, state: State, messages: Message, part: Tensor) -> Learners:
        """Merge messages `[k, ...]` into a state, each by itself; `part` `[k]`: those that take part."""

        def begun(message: Message) -> State:
            params, buffers, *_ = task.merge(state, message)
            return State(params, buffers, task.optimizer.init(params), {}, {})

        numbers = sum(p.numel() for p in state.params.values())
        size = part.to(next(iter(messages.values())).dtype) * numbers
        return cls(task, task.mapped(begun)(messages), size)

    def says(self, x: Tensor) -> Tensor:
        """Compute the probabilities of labels `[k, n, L]`; zeros of models that take no part."""
        said = self.task.mapped(lambda one: self.task.logits(one, x).softmax(dim=-1))(self.models)
        return torch.where(self.size[:, None, None] > 0, said, 0.0)

    def step(self, batch: Batch, teacher: Tensor, say: Tensor, log_frequency: Tensor) -> Learners:
        """Take a step towards each model's teacher `[k, n, L]`; `say` `[]`: its weight against the labels."""

        def stepped(one: State, teacher: Tensor) -> State:
            def objective(outputs: Tensor, _features: Tensor, y: Tensor) -> Tensor:
                labels = self.task.kind.mean_loss(outputs + log_frequency, y)
                others = -(teacher * outputs.log_softmax(dim=-1)).sum(dim=-1).mean()
                return (1 - say) * labels + say * others

            grads, _, buffers = self.task.gradients(one, batch, objective=objective)
            return self.task.apply(one._replace(buffers=buffers), grads, batch.lr)

        return self._replace(models=self.task.mapped(stepped)(self.models, teacher))

    def nearer(self, like: Message, share: Tensor | float) -> Message:
        """Name what is sent of the models as in `like` `[k, ...]`, moved so far towards their mean."""
        tensors = {**self.models.params, **self.models.buffers}
        sent, part = {k: tensors[k] for k in like}, self.size / self.size.sum().clamp_min(1)
        mean = weighted_sum(part, {k: _zero_unless(part > 0, m) for k, m in sent.items()})
        return {k: m + share * (mean[k] - m) for k, m in sent.items()}


def step_together(everybody: Sequence[Learners], batch: Batch, say: Tensor, labels: Tensor) -> list[Learners]:
    """Let each model take a step towards the mean of all others, weighted by size; `labels`: as of `step`."""
    said = [some.says(batch.x) for some in everybody]
    total = torch.cat([some.size for some in everybody]).sum()
    weighted = [some.size[:, None, None] * p for some, p in zip(everybody, said, strict=True)]
    together = torch.cat(weighted).sum(dim=0)
    stepped = []
    for some, own in zip(everybody, weighted, strict=True):
        teacher = (together - own) / (total - some.size[:, None, None]).clamp_min(1)
        stepped.append(some.step(batch, teacher, say, labels))
    return stepped


def log_frequencies(probe: Probe, labels: int) -> Tensor:
    """Compute the logarithm `[L]` of the share of each label among own samples; none counts as hardly any."""
    counts = (one_hot(probe.y, labels) * probe.mask[:, None]).sum(dim=0).to(probe.size)
    return (counts / counts.sum()).clamp_min(torch.finfo(counts.dtype).tiny).log()


def _zero_unless(part: Tensor, values: Tensor) -> Tensor:
    return torch.where(part.view(-1, *(1,) * (values.dim() - 1)), values, 0.0)
