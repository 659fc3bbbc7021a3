"""Everything before the first iteration: data, models, a trial of each method, the stacks."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from coterie.core.data import Federation
from coterie.core.errors import ConfigError
from coterie.core.task import Task
from coterie.engine.execution import Execution, Stacked
from coterie.engine.recorder import Progress
from coterie.engine.stack import Stack, stacks
from coterie.engine.trial import trial
from coterie.experiment import Experiment, World
from coterie.federation import Dealer

__all__ = ["Plan", "choose_execution", "prepare"]

WORTH_COMPILING = 2e10
"""Parameters x local steps x clients from which compiling wins more time than it takes."""


class Plan(NamedTuple):
    """An experiment that is ready to go."""

    experiment: Experiment
    worlds: list[World]
    federations: list[Federation]
    """The clients of each world; worlds of one seed and setting share one."""
    stacks: list[Stack]


def prepare(experiment: Experiment, root: Path | None = None, progress: Progress | None = None) -> Plan:
    """Load the data, deal them, build the models and try each method on them."""
    device, dtype = _device(experiment.device), getattr(torch, experiment.dtype)
    if progress:
        progress.stage("dealing the data")
    worlds = list(experiment.worlds())
    dealer = Dealer(root)
    federations = [dealer.federation(w.experiment, w.seed) for w in worlds]
    if progress:
        progress.stage("trying the model")
    tasks = _tasks(worlds, federations, dtype)
    return Plan(experiment, worlds, federations, stacks(worlds, federations, tasks, device, dtype))


def _tasks(worlds: Sequence[World], federations: Sequence[Federation], dtype: torch.dtype) -> list[Task]:
    """One task for all worlds with the same model, optimiser and shapes; every method is tried on it."""
    tasks: dict[str, Task] = {}
    tried = set()
    found = []
    for world, federation in zip(worlds, federations, strict=True):
        e = world.experiment
        inputs, classes = tuple(federation.pool.shape[1:]), len(federation.classes)
        key = f"{e.model!r} {e.train.optimizer!r} {inputs} {classes}"
        if key not in tasks:
            built = e.model.build("model", "model")
            with torch.random.fork_rng(
                devices=[]
            ):  # a layer without reset_parameters keeps what it draws here
                torch.manual_seed(0)
                model = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
            if not isinstance(model, torch.nn.Module):
                raise ConfigError(f"model {e.model.name!r} gives {type(model).__name__}, not an nn.Module")
            tasks[key] = Task(
                model.to(dtype), optimizer=e.train.optimizer, head=getattr(model, "head_name", "")
            )
        algorithm = world.algorithm
        attempt = f"{key} {type(algorithm)} {algorithm} {e.train.batch}"
        if attempt not in tried:
            some = torch.arange(e.train.batch) % len(federation.train.index)
            x, y = federation.pool[federation.train.index[some]].to(dtype), federation.train.label[some]
            trial(tasks[key], algorithm, x, y, classes)
            tried.add(attempt)
        found.append(tasks[key])
    return found


def choose_execution(stack: Stack, progress: Progress | None) -> Execution:
    """Stacked; compiled if that is asked for, or wins more time than it takes."""
    experiment = stack.experiment
    parameters = sum(p.numel() for p in stack.task.model.parameters())
    work = float(parameters) * stack.size * experiment.train.iterations
    compiled = experiment.compile == "on" or (experiment.compile == "auto" and work > WORTH_COMPILING)
    if compiled and stack.device.type == "cpu" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        if progress:
            progress.notice("no C++ compiler found, so local steps run uncompiled, some three times slower")
        compiled = False
    if compiled and progress:
        progress.stage("compiling the local step")
    return Stacked(stack.task, compiled)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} is not to be had here: {reason}; use device = 'cpu'") from None
    return device
