"""MidGetter: what a model says about the client's own samples, and how two such views compare."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.registry import resolve, user_code
from coterie.core.tasks.task import Task
from coterie.core.types import Probe, State

__all__ = ["Distance", "distance", "mean_distance", "of_probabilities", "outputs"]

_PROBABILITIES = ("probabilities", "centred")


class Distance(Protocol):
    """The distance between two models' outputs, sample by sample."""

    def __call__(self, p: Tensor, q: Tensor, /) -> Tensor:
        """Compare `[..., n, L]` and `[..., n, L]`: `[..., n]`, never negative, 0 for equal outputs."""
        ...


def outputs(task: Task, state: State, probe: Probe, form: str) -> Tensor:
    """Compute outputs `[n, L]`: `probabilities`, `logits`, `centred`, or what the named layer puts out.

    `probabilities` are what the task makes of the outputs: those of classes, or the predicted numbers.
    `centred` subtracts each model's mean logit over the probe before the softmax, so that two
    models do not seem far apart only because their clients' labels are not equally frequent.
    """
    if form not in (*_PROBABILITIES, "logits"):
        return task.layer(state, probe.x, form)
    z = task.logits(state, probe.x)
    if form == "logits":
        return z
    if form == "centred":
        if not task.kind.predicts_classes:
            raise ConfigError(
                'outputs = "centred" makes up for labels that are not equally frequent, but this task has '
                'none; use "probabilities", the outputs as the task has them'
            )
        mask = probe.mask[:, None].to(z.dtype)
        z = z - (z * mask).sum(dim=0) / mask.sum()
    return task.kind.view(z)


def mean_distance(task: Task, name: str, form: str, p: Tensor, q: Tensor, probe: Probe) -> Tensor:
    """Average the named distance of outputs from the own ones `p` `[n, ..., L]` over the probe, `[...]`."""
    compare = distance(name, form)
    if needs_probabilities(name) and not task.kind.has_probabilities:
        raise ConfigError(
            f"distance {name!r} compares probabilities, but the outputs of this task are none; use another "
            "distance, such as 'wasserstein2d'"
        )
    d = compare(p, q)
    return probe.mean(d.mean(dim=tuple(range(2 - p.dim(), 0))) if p.dim() > 2 else d)


def needs_probabilities(name: str) -> bool:
    """Tell whether the distance called `name` only makes sense between probabilities."""
    return getattr(resolve("distance", name), "needs_probabilities", False)


def of_probabilities(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Mark a distance (as a decorator) that only makes sense between probabilities."""
    function.needs_probabilities = True  # type: ignore[attr-defined]
    return function


def distance(name: str, form: str) -> Distance:
    """Find the distance called `name`, if that distance can compare outputs of this form."""
    with user_code(f"distance {name!r} cannot be imported"):
        found: Distance = resolve("distance", name)
    if not callable(found):
        raise ConfigError(f"distance {name!r} must be a function, got {type(found).__name__}")
    if needs_probabilities(name) and form not in _PROBABILITIES:
        raise ConfigError(
            f"distance {name!r} compares probabilities, but outputs = {form!r} are none; "
            f"use outputs = {' or '.join(map(repr, _PROBABILITIES))}, or another distance"
        )
    return partial(_measured, name, found)


def _measured(name: str, found: Distance, p: Tensor, q: Tensor) -> Tensor:
    """Return what a distance gives, if that is one number for each sample, `[..., n]`."""
    with user_code(f"distance {name!r} failed"):
        d = found(p, q)
    shape = torch.broadcast_shapes(p.shape, q.shape)[:-1]  # type: ignore[no-untyped-call]
    if not isinstance(d, Tensor) or d.shape != shape:
        got = list(d.shape) if isinstance(d, Tensor) else type(d).__name__
        raise ConfigError(
            f"distance {name!r} must give one number for each sample, so shape {list(shape)} for outputs of "
            f"shapes {list(p.shape)} and {list(q.shape)}, got {got}; sum over the last axis only"
        )
    return d
