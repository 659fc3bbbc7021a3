"""Small experiments, run to their end, and what each of their worlds came to."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from torch import Tensor

from coterie.core.registry import registered
from coterie.core.tasks.task import Task
from coterie.core.types import State
from coterie.engine.analytic import analytic_model
from coterie.engine.checkpoint import load
from coterie.engine.execution import AnalyticExecution, Execution, LocalStep, VmapExecution, step_alone
from coterie.engine.layout import AlgorithmGroup, Stack, WorldSlot
from coterie.engine.plan import Plan, prepare
from coterie.engine.runner import simulate
from coterie.engine.simulator import Simulator
from coterie.experiment import Experiment
from tests.engine.recording import Recording, Watcher
from tests.sharing import made_once
from tests.trees import one_by_one

__all__ = [
    "EVERY",
    "EVERY_METHOD",
    "KINDS",
    "LoopExecution",
    "Outcome",
    "by_hand",
    "experiment",
    "finished",
    "hard",
    "once",
    "outcome",
    "simulator",
]

EVERY_METHOD: dict[str, dict[str, Any]] = {name: {} for name in registered("algorithm")} | {
    "DFML": {"steps": 2, "period": 2},
    "DisPFL": {"density": 90},
    "FedAvg+": {"switch": 12},
}
"""Every method there is; FedAvg+ turns to Reptile half-way. Of five units some would have no input with
half of the weights: then rounding decides on which side of ReLU's corner a normalised unit lies."""

KINDS = ("Local", "FedAvg", "KD-PDFL", "Ditto", "PENS", "L2C", "CoBo", "DFML")
"""One each that sends nothing, averages, looks, has a second model, asks some, holds samples out, answers,
and feeds back: for what costs seconds a method. All methods are in tests/replay, lockstep and the conformance
suite."""

PLAIN: dict[str, Any] = {
    "seeds": [0],
    "methods": ["FedAvg"],
    "dtype": "float64",
    "model.name": "mlp",
    "model.hidden": [5],
    "data.set": {"name": "synthetic", "groups": 2, "classes": 3, "features": 6, "samples": 60},
    "data.clients": 4,
    "data.sizes": [3, 12],
    "data.test": 10,
    "train.iterations": 24,
    "train.batch": 4,
    "exchange.every": 5,
    "exchange.channel": "ideal",
    "evaluate.every": 10,
    "evaluate.uniform": 9,
}

HARD: dict[str, Any] = {
    "model.norm": "batch",
    "model.dropout": 0.3,
    "train.optimizer": {"name": "sgd", "momentum": 0.5, "weight_decay": 0.01},
    "train.init": "independent",
    "exchange.stars": 3,
    "exchange.channel": {"name": "rayleigh", "neighbours": 3},
    "exchange.loss": 0.2,
    "population.speed": [0.4, 1.0],
    "population.away": 0.2,
    "population.spell": 4,
    "data.clients": 6,
}
"""Running statistics, dropout, momentum, several stars, losses, slow and absent clients."""

LARGE: dict[str, Any] = {
    "data__clients": 2100,
    "exchange__channel": {"name": "rayleigh", "neighbours": 4},
    "evaluate__uniform": 3,
    "data__test": 5,
}
"""Changes for a population large enough to draw links that are up alone, with little else to do."""


def experiment(**changes: Any) -> Experiment:
    """A few clients and tens of iterations; `__` stands for the dot of a path."""
    return _experiment({k.replace("__", "."): v for k, v in changes.items()})


def hard(**changes: Any) -> Experiment:
    """The same with everything in it that makes batching difficult."""
    return _experiment({**HARD, **{k.replace("__", "."): v for k, v in changes.items()}})


def _experiment(changes: dict[str, Any]) -> Experiment:
    tree: dict[str, Any] = {}
    for path, value in {**PLAIN, **changes}.items():
        *tables, key = path.split(".")
        inner = tree
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[key] = value
    return Experiment.parse(tree)


EVERY = hard(methods=EVERY_METHOD)


class Outcome(NamedTuple):
    """What became of one world."""

    tensors: dict[str, Tensor]
    metrics: list[dict[str, Any]]
    exchanges: list[dict[str, Any]]


def finished(plan: Plan, folder: Path, **options: Any) -> dict[tuple[str, int], Outcome]:
    """Simulate to the end; the outcome of every world by name and seed."""
    folder.mkdir(parents=True, exist_ok=True)
    recording = Recording(folder)
    assert simulate(plan, recording, **options)
    return outcome(plan, recording)


def once(factory: pytest.TempPathFactory, name: str, e: Experiment) -> dict[tuple[str, int], Outcome]:
    """Simulate an experiment once for all processes of a test run, under a name of its own."""

    def make(folder: Path) -> None:
        (folder / "outcomes").write_bytes(pickle.dumps(finished(prepare(e), folder)))

    found: dict[tuple[str, int], Outcome] = pickle.loads(
        (made_once(factory, name, make) / "outcomes").read_bytes()
    )
    return found


def outcome(plan: Plan, recording: Recording) -> dict[tuple[str, int], Outcome]:
    """The last checkpoint and the rows of a run, apart for each world.

    Of several architectures, tensors have the place of theirs before their names.
    """
    found: dict[tuple[str, int], Outcome] = {}
    for number, stack in enumerate(plan.stacks):
        file = recording.path / f"checkpoint-{number}.safetensors"
        every = load(file, plan.experiment.fingerprint(), plan.data_hash()).tensors
        for i, one in enumerate(stack.together):
            prefix = f"{i}/" if stack.others else ""
            tensors = {k.removeprefix(prefix): t for k, t in every.items() if k.startswith(prefix)}
            for member, own in _apart(one, tensors):
                own = {f"{prefix}{k}": t for k, t in own.items()}
                rows = {
                    name: [
                        {k: v for k, v in r.items() if k != "world"} for r in rows if r["world"] == member.id
                    ]
                    for name, rows in recording.rows.items()
                }
                key = member.world.name, member.world.seed
                found[key] = Outcome((found[key].tensors if i else {}) | own, **rows)
    return found


def _apart(stack: Stack, tensors: dict[str, Tensor]) -> Iterator[tuple[WorldSlot, dict[str, Tensor]]]:
    """Each world of a stack with the tensors of its clients."""
    for g, group in enumerate(stack.groups):
        for member in group.members:
            own = {k: t[member.clients] for k, t in tensors.items() if k.split("/")[0] in _WHOLE}
            inside = slice(
                member.clients.start - group.clients.start, member.clients.stop - group.clients.start
            )
            m = member.schedule.clients
            for part, width in (("memory", None), ("rows", m)):
                kept = {k: t[inside] for k, t in tensors.items() if k.startswith(f"{part}/{g}/")}
                own |= {f"{part}/{k.split('/', 2)[2]}": t[:, :width] if width else t for k, t in kept.items()}
            yield member, own


_WHOLE = ("params", "buffers", "optim", "steps", "diverged")


def by_hand(task: Task) -> AnalyticExecution:
    """The execution for known layers, of samples that are features."""
    known = analytic_model(task, [1])
    assert known
    return AnalyticExecution(task, known)


class LoopExecution(Execution):
    """One client after the other, each as it would compute alone: what the engine is held against."""

    side_by_side = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def step(self, group: AlgorithmGroup, given: LocalStep) -> tuple[State, Tensor]:
        def one(*parts: Any) -> tuple[State, Tensor]:
            return step_alone(self.task, group, LocalStep(*parts))

        return one_by_one(one)(*(part for part in given if part is not None))


def simulator(experiment: Experiment, progress: Watcher | None = None) -> Simulator:
    """The only stack of an experiment, before its first iteration."""
    (stack,) = prepare(experiment).stacks
    return Simulator(stack, VmapExecution(stack.task), progress)
