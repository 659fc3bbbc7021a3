"""Ten measurements of 442 people with diabetes, and how far the illness had gone a year later: a regression.

Each client has the people of one sex in one part of the ages, as a doctor might. The target, a number from 25
to 346, counts from 152 in steps of 77, about its mean and deviation, so that it is of size one.

Efron, Hastie, Johnstone, Tibshirani: Least angle regression. Annals of Statistics 32, 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Ge, Le

from coterie.core.data import Dataset, Samples
from coterie.core.registry import register

__all__ = ["Diabetes"]

AGE, SEX = 0, 1
"""Columns."""
MEAN, DEVIATION = 152.0, 77.0
"""About those of the target."""


@register("dataset", "diabetes")
@dataclass(frozen=True)
class Diabetes:
    """442 people with diabetes, dealt by age and sex; for regression. Comes with scikit-learn."""

    ages: Annotated[int, Ge(1), Le(20)] = 4
    """Parts of equally many people, from young to old, of each sex; there are twice as many clients."""

    def load(self, root: Path | None) -> Dataset:
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes(scaled=False)
        x = torch.tensor(bunch.data, dtype=torch.float64)
        y = (torch.tensor(bunch.target, dtype=torch.float32) - MEAN) / DEVIATION
        owner, names = torch.empty(len(x), dtype=torch.int64), []
        for sex, value in enumerate(torch.unique(x[:, SEX])):
            (people,) = torch.where(x[:, SEX] == value)
            rank = x[people, AGE].argsort(stable=True).argsort()
            part = rank * self.ages // len(people)
            owner[people] = sex * self.ages + part
            for k in range(self.ages):
                age = x[people[part == k], AGE]
                names.append(f"sex {value:.0f}, age {age.min():.0f} to {age.max():.0f}")
        columns = tuple(bunch.feature_names)
        return Dataset(Samples(x, y, owner=owner), None, ("progression",), columns, "standard", tuple(names))
