"""One vector for each label: the mean over own samples, sent as a table, and the mean over clients.

A table is the same whatever the model, as long as the vectors are as long: logits always are, features if the
models' heads take in equally many.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from coterie.core.algorithm import Adoption
from coterie.core.errors import ModelError
from coterie.core.tasks.task import Task
from coterie.core.types import Inbox, Probe, State, Tensors

__all__ = [
    "LabelMeans",
    "adopted",
    "head_sizes",
    "heard",
    "mean_over_clients",
    "of_samples",
    "remembering",
    "updated",
]


class LabelMeans(NamedTuple):
    """A vector of F numbers for each of L labels, of one client or of K."""

    mean: Tensor
    """`[..., L, F]`"""
    weight: Tensor
    """`[..., L]`: 0 for a label without a vector, else how much the vector counts."""

    @classmethod
    def empty(cls, labels: int, features: int, like: Tensor) -> LabelMeans:
        """Make a table in which no label has a vector."""
        return cls(like.new_zeros(labels, features), like.new_zeros(labels))

    @classmethod
    def remembered(cls, state: State) -> LabelMeans:
        """Find the table in a client's memory."""
        return cls(state.memory["labels.mean"], state.memory["labels.weight"])

    def tensors(self) -> Tensors:
        """Name the table for a message, or for the memory."""
        return {"labels.mean": self.mean, "labels.weight": self.weight}

    def equal(self) -> LabelMeans:
        """Count each vector alike, however many samples stand behind it."""
        return self._replace(weight=(self.weight > 0).to(self.weight))


def head_sizes(task: Task) -> tuple[int, int]:
    """Count the features that a model's head takes in and the labels that it puts out."""
    layers = [m for m in task.layer_module(task.head).modules() if isinstance(m, nn.Linear)]
    if not layers:
        raise ModelError(
            f"the head {task.head!r} of model {type(task.model).__name__} has no linear layer, so how many "
            "features it takes in is not known; name one as `head`"
        )
    return layers[0].in_features, layers[-1].out_features


def of_samples(values: Tensor, probe: Probe, labels: int) -> LabelMeans:
    """Average values `[n, F]` over the own samples of each label; the weight is how many there are."""
    own = (probe.y[:, None] == torch.arange(labels, device=values.device)) & probe.mask[:, None]
    count = own.sum(dim=0).to(values)
    return LabelMeans(own.to(values).mT @ values / count.clamp_min(1)[:, None], count)


def heard(inbox: Inbox) -> LabelMeans:
    """Read the tables of K senders; those not heard have no vectors."""
    weight = inbox.messages["labels.weight"].clamp_min(0) * inbox.heard[:, None]
    return LabelMeans(inbox.messages["labels.mean"], weight)


def mean_over_clients(tables: LabelMeans, own: LabelMeans | None = None) -> LabelMeans:
    """Average each label's vectors over K clients, and the own one if it is given, by their weights."""
    if own:
        pairs = zip(tables, own, strict=True)
        tables = LabelMeans(*(torch.cat([theirs, ours[None]]) for theirs, ours in pairs))
    total = tables.weight.sum(dim=0)
    share = tables.weight / torch.where(total > 0, total, 1)
    return LabelMeans((share[..., None] * tables.mean).sum(dim=0), total)


def updated(old: LabelMeans, new: LabelMeans) -> LabelMeans:
    """Take the new vector where there is one."""
    known = new.weight > 0
    mean = torch.where(known[:, None], new.mean, old.mean)
    return LabelMeans(mean, torch.where(known, new.weight, old.weight))


def remembering(state: State, new: LabelMeans) -> State:
    """Remember the new table, and the last one's vectors of labels that have no new one."""
    return state._replace(memory=updated(LabelMeans.remembered(state), new).tensors())


def adopted(state: State, inbox: Inbox, adoption: Adoption) -> State:
    """Remember the table of an inbox of one: as it is (`replace`), or half and half (`average`)."""
    new, old = mean_over_clients(heard(inbox)), LabelMeans.remembered(state)
    if adoption == "average":
        half = torch.where((old.weight > 0)[:, None], (old.mean + new.mean) / 2, new.mean)
        new = new._replace(mean=half)
    return remembering(state, new)
