"""A model plugin, or the user's own function or class, as a `Task` that fits the data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from coterie.core.errors import ConfigError, ModelError
from coterie.core.ingredients.messages import alike
from coterie.core.models.keyed_functions import keyed
from coterie.core.models.model_choice import SAME, ModelChoice
from coterie.core.models.optim import Optimizer
from coterie.core.registry import build, describe_error, user_code
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_kind import TaskKind
from coterie.core.types import Batch, State, Tensors

__all__ = ["acquainted", "build_model", "build_task", "input_type", "with_proxy"]


def build_task(
    name: str,
    options: Mapping[str, Any],
    inputs: tuple[int, ...],
    names: tuple[str, ...],
    kind: TaskKind,
    dtype: torch.dtype,
    optimizer: Optimizer,
    init: str,
    *,
    weights: Tensors | None = None,
    freeze: Sequence[str] = (),
    samples: tuple[Tensor, Tensor] | None = None,
) -> Task:
    """Make a `Task` of this kind and the named model, for samples of this shape.

    `names`: of the classes, targets or tokens. `weights`: pretrained tensors, by name. `freeze`: roles and
    patterns of what never changes. `samples`: some, with their targets, on which random draws inside the
    model are looked for.

    Weights that the model brings along are found by building twice: what is drawn differs if the seeds do,
    what is brought does not.
    """
    classes = kind.shape(inputs, names)[-1]
    seeds = (0, 0) if init == "given" else (0, 1)
    made, again = (
        Task(build_model(name, options, inputs, classes, seed).to(dtype), kind, optimizer) for seed in seeds
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
    made = made if init == "given" or not brought else replace(made, brought=brought)
    if weights:
        made = _pretrained(made, weights, init)
    if freeze:
        made = _frozen(made, freeze)
    return made if samples is None else _differentiable(keyed(made, samples[0]), *samples)


def _pretrained(task: Task, weights: Tensors, file: str) -> Task:
    """Let a task begin from the tensors that fit it by name, and tell of the others."""
    params, buffers = task.given()
    own, what = {**params, **buffers}, f"train.init = {file!r}"
    fit = {k: v for k, v in weights.items() if k in own}
    if not fit:
        raise ModelError(
            f"{what} fits no layer of model {type(task.model).__name__}: the file has {_some(weights)}, the "
            f"model {_some(own)}; name the tensors as the model does"
        )
    for name, tensor in fit.items():
        if tensor.shape != own[name].shape:
            raise ModelError(
                f"{what}: the tensor {name!r} has shape {list(tensor.shape)}, but in the model "
                f"{list(own[name].shape)}; leave it out of the file to have it drawn anew"
            )
    odd = [k for k in weights if k not in own and k not in task.model.state_dict()]
    missing = [k for k in params if k not in weights]
    told = [
        f"{len(odd)} of its tensors fit no layer and are not used: {_some(odd)}" if odd else "",
        f"{len(missing)} of the model are not in it and are drawn anew: {_some(missing)}" if missing else "",
    ]
    unfit = "; ".join(filter(None, told))
    tensors = {k: v.to(own[k].dtype) for k, v in fit.items()}
    brought = tuple(k for k in task.brought if k not in fit)
    return replace(task, weights=tensors, brought=brought, unfit=f"{what}: {unfit}" if unfit else "")


def _frozen(task: Task, freeze: Sequence[str]) -> Task:
    """Freeze the parameters that play the roles or match the patterns."""
    params, _ = task.given()
    matching = task.matching(freeze, tuple(params), "train.freeze")
    frozen = tuple(k for k in params if k in matching)
    if len(frozen) == len(params):
        raise ConfigError(
            f"train.freeze = {list(freeze)} leaves nothing to learn: all of {_some(params)} are frozen; "
            "leave some out, such as the head"
        )
    if not frozen:
        raise ConfigError(
            f"train.freeze = {list(freeze)} freezes nothing: what it names is excluded again, or does not "
            f"learn; there are: {', '.join(params)}"
        )
    return replace(task, frozen=frozen)


def _some(names: Iterable[str]) -> str:
    """List a few of many names."""
    listed = list(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def _differentiable(task: Task, x: Tensor, y: Tensor) -> Task:
    """Try a gradient: a model that only autograd can differentiate is differentiated by that from then on."""
    params, buffers = task.given()
    floating = next(v.dtype for v in params.values())
    x, y = (part.to(floating) if part.is_floating_point() else part for part in (x, y))
    batch = Batch(x, y, torch.ones((), dtype=floating), torch.tensor(0))
    for made in (task, replace(task, autograd=True)):
        try:
            made.gradients(State(params, buffers, {}, {}, {}), batch)
        except Exception:  # whatever it is: a dry run tells of it
            continue
        return made
    return task


def acquainted(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Let each task of a federation know those of the others whose models have other names or shapes."""
    models = [{**params, **buffers} for params, buffers in (task.given() for task in tasks)]
    return tuple(
        replace(task, foreign=tuple(t for t, m in zip(tasks, models, strict=True) if not alike(own, m)))
        for task, own in zip(tasks, models, strict=True)
    )


def with_proxy(
    task: Task,
    choice: ModelChoice | None,
    inputs: tuple[int, ...],
    names: tuple[str, ...],
    init: str,
    where: str = "proxy",
) -> Task:
    """Give a task the second model that an algorithm names, if it names one; `where` begins an error."""
    if choice is None:
        return task
    if choice != SAME:
        how = task.kind, next(task.model.parameters()).dtype, task.optimizer, init
        return replace(task, proxy=build_task(choice.name, dict(choice.options), inputs, names, *how))
    if task.foreign:
        raise ConfigError(
            f"{where} = {SAME.name!r} is a model like the clients' own, but theirs differ; name one for "
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
            if not _needs_nothing(built):
                raise ConfigError(
                    f"model {name!r} must take the shape of a sample and the number of classes first, then "
                    "its "
                    f"options: (inputs, classes, ...), or nothing but options, got "
                    f"{inspect.signature(built.func)}: {error}"
                ) from None
            made_for_these = built
            built = lambda inputs, classes: made_for_these()  # noqa: E731
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # a layer that cannot be reset keeps what it draws here
        what = f"model {name!r} cannot be built for inputs of shape {inputs} and {classes} classes"
        with user_code(what, ModelError):
            made = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model {name!r} gives {type(made).__name__}, not an nn.Module")
    return made


def _needs_nothing(made_by: functools.partial[Any]) -> bool:
    """Tell whether a model knows the shapes of its data itself."""
    try:
        inspect.signature(made_by).bind()
    except TypeError:
        return False
    return True


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
