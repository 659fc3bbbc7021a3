"""A model plugin, or the user's own function or class, as a `Task` that fits the data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.errors import ConfigError, ModelError
from coterie.core.messages import alike
from coterie.core.model_choice import SAME, ModelChoice
from coterie.core.optim import Optimizer
from coterie.core.registry import build, describe_error, user_code
from coterie.core.task import Task

__all__ = ["acquainted", "build_model", "build_task", "input_type", "with_proxy"]


def build_task(
    name: str,
    options: Mapping[str, Any],
    inputs: tuple[int, ...],
    classes: int,
    dtype: torch.dtype,
    optimizer: Optimizer,
    init: str,
) -> Task:
    """Make a `Task` of the named model for samples of this shape and so many classes.

    Weights that the model brings along are found by building twice: what is drawn differs if the seeds do,
    what is brought does not.
    """
    seeds = (0, 0) if init == "given" else (0, 1)
    made, again = (
        Task(build_model(name, options, inputs, classes, seed).to(dtype), optimizer=optimizer)
        for seed in seeds
    )
    own, other, fresh = (
        {**params, **buffers} for params, buffers in (made.given(), again.given(), made.init_params(0))
    )
    drawn = [k for k, v in own.items() if _differ(v, other.get(k))]
    if init == "given" and drawn:
        raise ModelError(
            f"model {name!r} has other weights each time that it is built, such as {drawn[0]!r}, so "
            "train.init = 'given' is no model in particular; let it load them from a file, or draw them from "
            "torch's own generator, which is seeded here"
        )
    brought = tuple(k for k, v in own.items() if k not in drawn and _differ(v, fresh[k]))
    return made if init == "given" or not brought else replace(made, brought=brought)


def acquainted(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Let each task of a federation know those of the others whose models have other names or shapes."""
    models = [{**params, **buffers} for params, buffers in (task.given() for task in tasks)]
    return tuple(
        replace(task, foreign=tuple(t for t, m in zip(tasks, models, strict=True) if not alike(own, m)))
        for task, own in zip(tasks, models, strict=True)
    )


def with_proxy(
    task: Task, choice: ModelChoice | None, inputs: tuple[int, ...], classes: int, init: str
) -> Task:
    """Give a task the second model that an algorithm names, if it names one."""
    if choice is None:
        return task
    if choice != SAME:
        how = next(task.model.parameters()).dtype, task.optimizer, init
        return replace(task, proxy=build_task(choice.name, dict(choice.options), inputs, classes, *how))
    if task.foreign:
        raise ConfigError(
            f"proxy = {SAME.name!r} is a model like the clients' own, but theirs differ; name one for "
            'all of them, such as proxy = "mlp"'
        )
    return replace(task, proxy=task)


def build_model(
    name: str, options: Mapping[str, Any], inputs: tuple[int, ...], classes: int, seed: int = 0
) -> nn.Module:
    """Build the named model for samples of this shape and so many classes, under torch's seed."""
    built = build("model", name, options, "model")
    if isinstance(built, functools.partial):
        try:
            inspect.signature(built).bind(inputs, classes)
        except TypeError as error:
            raise ConfigError(
                f"model {name!r} must take the shape of a sample and the number of classes first, then its "
                f"options: (inputs, classes, ...), got {inspect.signature(built.func)}: {error}"
            ) from None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # a layer that cannot be reset keeps what it draws here
        what = f"model {name!r} cannot be built for inputs of shape {inputs} and {classes} classes"
        with user_code(what, ModelError):
            made = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model {name!r} gives {type(made).__name__}, not an nn.Module")
    return made


def _differ(one: Tensor, other: Tensor | None) -> bool:
    """Tell whether two tensors differ where the first has a number."""
    return other is None or one.shape != other.shape or bool(((one != other) & (one == one)).any())


def input_type(model: nn.Module, name: str, x: Tensor) -> torch.dtype:
    """Find the type in which a model takes whole numbers `[n, ...]`: int64 if it runs on those, else float32.

    Tried on the samples with the smallest and the largest number: a vocabulary may be too small.
    """
    flat = x.flatten(1).long()
    few = x[[int(flat.amin(dim=1).argmin()), int(flat.amax(dim=1).argmax())]]
    reasons = []
    for kind in (torch.int64, torch.float32):
        try:
            with torch.no_grad():
                model.eval()(few.to(kind))
            return kind
        except Exception as error:  # the user's own code
            reasons.append(describe_error(error))
    raise ModelError(
        f"model {name!r} can be run neither on whole numbers from {int(flat.min())} to {int(flat.max())}: "
        f"{reasons[0]}; nor on the same as floating point: {reasons[1]}"
    )
