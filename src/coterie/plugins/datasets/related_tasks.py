r"""Many regressions, some of which are related: a family shares a representation, each has its own head.

$x \sim N(0, I),\quad y = \tanh(x A_f / \sqrt F) \cdot h_i + \text{noise} \cdot \varepsilon$

with the representation $A_f$ of client i's family f, and its own head $h_i$. Clients of one family want
different things of an input, but by the same features: they should share a base and keep their heads
(`share = "base"`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Ge

from coterie.core.data import Dataset, Samples
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["RelatedTasks"]


@register("dataset", "related_tasks")
@dataclass(frozen=True)
class RelatedTasks:
    """A regression for each client, in families that share a representation: who is related is known."""

    families: Annotated[int, Ge(1)] = 3
    """Families of tasks; each is a true group of clients."""
    tasks: Annotated[int, Ge(1)] = 4
    """Tasks of a family, each of which is a client's."""
    features: Annotated[int, Ge(1)] = 8
    """Numbers of an input."""
    hidden: Annotated[int, Ge(1)] = 2
    """Numbers of a representation."""
    samples: Annotated[int, Ge(2)] = 40
    """Training samples of a task; there are four times as many test samples."""
    own: Annotated[float, Ge(0)] = 0.3
    """Size of what a task's head has of its own, against what the heads of its family have in common."""
    noise: Annotated[float, Ge(0)] = 0.1
    """Standard deviation of what is added to a target, which is of size one."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed of tasks and samples; independent of the run's seeds."""

    def load(self, root: Path | None) -> Dataset:
        return Dataset(self._part("train", self.samples), self._part("test", 4 * self.samples), ("target",))

    def _part(self, part: str, n: int) -> Samples:
        task, f, h = torch.arange(self.families * self.tasks), self.features, self.hidden
        family = task // self.tasks
        base = Stream(self.seed, "base").normal(f * h, client=family).view(-1, f, h)
        common = Stream(self.seed, "common head").normal(h, client=family)
        head = (common + self.own * Stream(self.seed, "own head").normal(h, client=task))[:, :, None]
        x = Stream(self.seed, f"{part} inputs").normal(n * f, client=task).view(-1, n, f)
        noise = Stream(self.seed, f"{part} noise").normal(n, client=task)
        y = (torch.tanh(x @ base / math.sqrt(f)) @ head)[:, :, 0] / head.norm(dim=1)
        owner = task.repeat_interleave(n)
        return Samples(
            x.flatten(0, 1).float(), (y + self.noise * noise).flatten().float(), family[owner], owner
        )
