"""A task kind by its name and options, with a loss or a metric of the user's own if they are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.registry import build, describe_type, resolve, user_code
from coterie.core.tasks.metric import Metric
from coterie.core.tasks.task_kind import ClosedForm, TaskKind, Trained
from coterie.core.types import Tensors

__all__ = ["build_kind", "classification"]


@cache
def classification() -> TaskKind:
    """Build the kind of tasks that do not say of which kind they are."""
    return build_kind("classification", {})


def build_kind(name: str, options: Mapping[str, Any]) -> TaskKind:
    """Build the named kind; `loss` and `metric` may name the user's own functions, `"mine:loss"`."""
    rest, own = dict(options), {}
    for what in ("loss", "metric"):
        if ":" in str(rest.get(what, "")):
            own[what] = rest.pop(what)
    kind = build("task", name, rest, "task")
    if not isinstance(kind, TaskKind):
        raise ConfigError(f"task: {name!r} is not a TaskKind but {type(kind).__name__}")
    functions = {what: _function(what, str(named)) for what, named in own.items()}
    if "metric" in functions and not isinstance(getattr(functions["metric"], "metric", None), Metric):
        raise ConfigError(
            f"task.metric: {own['metric']!r} does not say which way is better; mark the function with "
            "@coterie.metric(higher_is_better=...)"
        )
    return _with_own(kind, functions) if functions else kind


def _function(what: str, named: str) -> Callable[[Tensor, Tensor], Any]:
    """Import a function of the user's own, and let its errors be told as such."""
    with user_code(f"task.{what}: {named!r} cannot be imported"):
        function: Any = resolve(what, named)
    if not callable(function):
        raise ConfigError(f"task.{what}: {named!r} must be a function, got {type(function).__name__}")

    def called(outputs: Tensor, y: Tensor) -> Any:
        with user_code(f"task.{what}: {named!r} failed on {describe_type(outputs)} and {describe_type(y)}"):
            given = function(outputs, y)
            found = given if isinstance(given, Tensor) else torch.as_tensor(given)
        if found.shape != ():
            raise ConfigError(
                f"task.{what}: {named!r} must give one number, of shape [], got {describe_type(found)}"
            )
        return found

    if marked := getattr(function, "metric", None):
        called.metric = marked  # type: ignore[attr-defined]
    return called


def _with_own(kind: TaskKind, functions: Mapping[str, Callable[[Tensor, Tensor], Any]]) -> TaskKind:
    """Make a kind like this one, with the user's functions in place of its loss, or before its metrics."""
    parts = tuple(_PARTS[what] for what in functions)
    made: TaskKind = object.__new__(type(f"Own{type(kind).__name__}", (*parts, type(kind)), {}))
    own = {f"_own_{what}": function for what, function in functions.items()}
    made.__dict__.update(kind.__dict__, _usual=kind, **own)
    return made


class _OwnLoss:
    """The part of a kind with a loss of the user's own: nothing that is made for another loss holds."""

    _own_loss: Callable[[Tensor, Tensor], Tensor]
    closed_form: ClosedForm | None = None

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self._own_loss(outputs, y)

    losses = TaskKind.losses
    judge = TaskKind.judge


class _OwnMetric:
    """The part of a kind with a metric of the user's own, which comes first."""

    _own_metric: Any
    _usual: TaskKind

    @property
    def metrics(self) -> tuple[Metric, ...]:
        own: Metric = self._own_metric.metric
        return own, *(one for one in self._usual.metrics if one.name != own.name)

    def measure(self, outputs: Tensor, y: Tensor, trained: Trained | None = None) -> Tensors:
        own = self._own_metric(outputs, y).to(outputs.dtype)
        return {**self._usual.measure(outputs, y, trained), self._own_metric.metric.name: own}

    measure_all = TaskKind.measure_all


_PARTS = {"loss": _OwnLoss, "metric": _OwnMetric}
