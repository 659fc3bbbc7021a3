r"""Groups of tasks with a known true graph: one random linear teacher for each group.

$x \sim N(0, I),\quad y = \arg\max_l\, (W_g x / \sqrt{F} + \text{noise} \cdot \varepsilon)_l$
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

__all__ = ["Synthetic"]


@register("dataset", "synthetic")
@dataclass(frozen=True)
class Synthetic:
    """Groups of clients with a linear task each: who should work with whom is known."""

    groups: Annotated[int, Ge(1)] = 4
    """Groups of tasks, each with its own teacher."""
    classes: Annotated[int, Ge(2)] = 5
    """Labels."""
    features: Annotated[int, Ge(1)] = 20
    """Numbers of an input."""
    samples: Annotated[int, Ge(1)] = 500
    """Training samples of a group; there are as many test samples again."""
    noise: Annotated[float, Ge(0)] = 0.1
    """Standard deviation of what is added to the teacher's scores, which are of size one."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed of teachers and samples; independent of the run's seeds."""

    def load(self, root: Path | None) -> Dataset:
        parts = (self._part("train"), self._part("test"))
        return Dataset(*parts, classes=tuple(str(label) for label in range(self.classes)))

    def _part(self, part: str) -> Samples:
        group = torch.arange(self.groups)
        n, f, classes = self.samples, self.features, self.classes
        teacher = Stream(self.seed, "teacher").normal(f * classes, client=group).view(-1, f, classes)
        x = Stream(self.seed, f"{part} inputs").normal(n * f, client=group).view(-1, n, f)
        noise = Stream(self.seed, f"{part} noise").normal(n * classes, client=group).view(-1, n, classes)
        y = (x @ teacher / math.sqrt(f) + self.noise * noise).argmax(dim=-1)
        return Samples(x.flatten(0, 1).float(), y.flatten(), group=group.repeat_interleave(n))
