"""Metrics: what is measured of a model, in which unit, and which way is better; nothing here needs torch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from coterie.core.errors import ConfigError

__all__ = ["ACCURACY", "KINDS_OF_SAMPLES", "Metric", "TaskFacts", "metric"]

KINDS_OF_SAMPLES = ("personal", "global", "validation")
"""The samples on which a client is measured: its own test samples, those that are the same for all of its
group, and its validation samples."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Metric:
    """One number of each client, and how people read it."""

    name: str
    """The key in files: letters, digits and underscores."""
    title: str = ""
    """The words above a column or beside an axis; empty: the name."""
    unit: str = ""
    """The unit of what is shown, such as "%"; empty: it has none."""
    higher_is_better: bool = True
    scale: float = 1.0
    """Factor from what files hold to what is shown: 100 for a share shown in percent."""
    digits: int = 2
    """Digits after the decimal point of what is shown."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.name):
            raise ConfigError(f"metric {self.name!r}: expected a name of letters, digits and underscores")
        if not self.title:
            object.__setattr__(self, "title", self.name)

    @property
    def heading(self) -> str:
        """The title with the unit: `accuracy %`."""
        return f"{self.title} {self.unit}".strip()

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        return f"{'higher' if self.higher_is_better else 'lower'} is better"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Metric:
        """Read the metric that results name; those of earlier versions name none, for it was accuracy."""
        return cls(**given) if (given := values.get("metric")) else ACCURACY

    def gain(self, value: Any, other: Any) -> Any:
        """Compute how much better a value is than another, numbers or arrays; negative: it is worse."""
        return value - other if self.higher_is_better else other - value

    def show(self, value: float) -> str:
        """Write a value for people, without the unit."""
        return f"{value * self.scale:,.{self.digits}f}"

    def best(self, values: Any) -> float:
        """Pick the best of some values; those that are not finite are left out, NaN if none is left."""
        there = [float(v) for v in values if math.isfinite(v)]
        return (max if self.higher_is_better else min)(there, default=math.nan)


ACCURACY = Metric("accuracy", unit="%", scale=100.0, digits=1)
"""The metric of all runs that do not say which one they have."""


@dataclass(frozen=True)
class TaskFacts:
    """Facts of a task that a reader of results must know: `task.json` of a run folder."""

    name: str = "classification"
    """The task's name in the experiment."""
    metrics: tuple[Metric, ...] = (ACCURACY,)
    """The first one is what `personal`, `global` and `validation` hold, and what clients are compared by."""
    has_classes: bool = True
    """True if targets are one class each, so that labels can be counted, and partitions deal by them."""

    @property
    def metric(self) -> Metric:
        """The first metric."""
        return self.metrics[0]

    def columns(self) -> dict[str, Metric]:
        """Name the columns of values of each client: `personal`, ..., `validation.r2`."""
        return {
            kind if number == 0 else f"{kind}.{one.name}": one
            for number, one in enumerate(self.metrics)
            for kind in KINDS_OF_SAMPLES
        }

    def plain(self) -> dict[str, Any]:
        """Give data fit for JSON."""
        return {**asdict(self), "metrics": [asdict(one) for one in self.metrics]}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TaskFacts:
        """Read the task that a summary or a status names; one of an earlier version names none."""
        return cls.parse(given) if (given := values.get("task")) else cls()

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> TaskFacts:
        """Read what `plain` gave."""
        metrics = tuple(Metric(**one) for one in facts["metrics"])
        if not metrics:
            raise ValueError("there is no metric")
        return cls(facts["name"], metrics, facts["has_classes"])


def metric(
    *, higher_is_better: bool, title: str = "", unit: str = "", scale: float = 1.0, digits: int = 2
) -> Callable[[F], F]:
    """Say how people read the metric that a function of outputs and targets computes (a decorator)."""

    def mark(function: F) -> F:
        facts = Metric(function.__name__, title, unit, higher_is_better, scale, digits)
        function.metric = facts  # type: ignore[attr-defined]
        return function

    return mark
