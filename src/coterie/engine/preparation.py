"""Everything before the first iteration: data, models, a trial of each method, the stacks."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from coterie.core.data import Federation, Split
from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.core.registry import told
from coterie.core.task import Task
from coterie.engine.execution import Execution, Stacked
from coterie.engine.memory import room_for_clients, room_for_models
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

    def data(self) -> str:
        """A hash of all samples, as the clients have and name them."""
        digest = hashlib.sha256()
        for pool in {id(f.pool): f.pool for f in self.federations}.values():
            digest.update(pool.numpy().tobytes())
        for federation in self.federations:
            for split in (federation.train, federation.validation, federation.personal, federation.uniform):
                for part in (split.index, split.label, split.count):
                    digest.update(part.numpy().tobytes())
        return digest.hexdigest()[:16]


def prepare(
    experiment: Experiment,
    root: Path | None = None,
    progress: Progress | None = None,
    *,
    worlds: Sequence[World] | None = None,
    tested: bool = True,
) -> Plan:
    """Load the data, deal them, build the models and try each method on them.

    `worlds`: others than those of the experiment. Without `tested`, clients have no test samples.
    """
    device, dtype = _device(experiment.device), getattr(torch, experiment.dtype)
    if progress:
        progress.stage("dealing the data")
    worlds = list(experiment.worlds() if worlds is None else worlds)
    room_for_clients(worlds)
    dealer = Dealer(root)
    federations = [dealer.federation(w.experiment, w.seed) for w in worlds]
    if not tested:
        federations = _without_tests(federations)
    if progress:
        progress.stage("trying the model")
    tasks = _tasks(worlds, federations, dtype)
    room_for_models(worlds, federations, tasks, device)
    found = stacks(worlds, federations, tasks, device, dtype)
    for stack in found:
        for group in stack.groups:
            trial(stack, group)
    return Plan(experiment, worlds, federations, found)


def _without_tests(federations: Sequence[Federation]) -> list[Federation]:
    """The same clients, and one object for those that were one, with nothing to be tested on."""
    blind = {}
    for f in federations:
        nothing = Split(f.train.index[:0], f.train.label[:0], torch.zeros_like(f.train.count))
        blind[id(f)] = dataclasses.replace(f, personal=nothing, uniform=nothing)
    return [blind[id(f)] for f in federations]


def _tasks(worlds: Sequence[World], federations: Sequence[Federation], dtype: torch.dtype) -> list[Task]:
    """One task for all worlds with the same model, optimiser and shapes."""
    tasks: dict[str, Task] = {}
    found = []
    for world, federation in zip(worlds, federations, strict=True):
        e = world.experiment
        inputs, classes = tuple(federation.pool.shape[1:]), len(federation.classes)
        key = f"{e.model!r} {e.train.optimizer!r} {inputs} {classes}"
        if key not in tasks:
            tasks[key] = Task(_model(e, inputs, classes).to(dtype), optimizer=e.train.optimizer)
        found.append(tasks[key])
    return found


def _model(experiment: Experiment, inputs: tuple[int, ...], classes: int) -> torch.nn.Module:
    built = experiment.model.build("model", "model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a layer that cannot be reset keeps what it draws here
        try:
            model = built.build(inputs, classes) if hasattr(built, "build") else built(inputs, classes)
        except CoterieError:
            raise
        except Exception as error:
            raise ModelError(
                f"model {experiment.model.name!r} cannot be built for inputs of shape {inputs} and {classes} "
                f"classes: {told(error)}"
            ) from error
    if not isinstance(model, torch.nn.Module):
        raise ConfigError(f"model {experiment.model.name!r} gives {type(model).__name__}, not an nn.Module")
    return model


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
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not to be had here: expected cpu, cuda or cuda:1 and so on")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} is not to be had here: {reason}; use device = 'cpu'") from None
    return device
