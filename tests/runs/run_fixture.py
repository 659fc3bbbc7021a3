"""A small run with made-up numbers: 4 clients in two groups, Local and KD-PDFL, two seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.core.tasks.metric import TaskFacts
from coterie.experiment import Experiment
from coterie.runs import Run, RunFolder

NAN = float("nan")
CLASSIFICATION = TaskFacts()

EXPERIMENT = Experiment.parse(
    {
        "name": "made up",
        "seeds": [0, 1],
        "methods": {"Local": "Local", "KD-PDFL": {"tau": 0.1}},
        "data": {"clients": 4},
        "train": {"iterations": 10},
    }
)


def described(experiment: Experiment) -> list[dict[str, Any]]:
    """Its worlds; those of one seed share their clients."""
    return [
        {
            "name": w.name,
            "label": w.label,
            "seed": w.seed,
            "setting": w.setting,
            "federation": experiment.seeds.index(w.seed),
        }
        for w in experiment.worlds()
    ]


WORLDS = described(EXPERIMENT)
CLIENTS = [
    {
        "seed": seed,
        "classes": ["cat", "dog"],
        "group": [0, 0, 1, 1],
        "train": [5, 6, 7, 8],
        "labels": [[5, 0], [3, 3], [0, 7], [4, 4]],
    }
    for seed in (0, 1)
]


def metrics(world: int, t: int, personal: list[float], **more: Any) -> dict[str, Any]:
    return {
        "world": world,
        "t": t,
        "personal": personal,
        "global": [0.5] * len(personal),
        "validation": [0.5] * len(personal),
        "loss": [1.0 + client for client in range(len(personal))],
        "bytes": 0,
        "models_carried": 0.5,
        "diverged": [],
        **more,
    }


METRICS = [
    metrics(0, 0, [0.1] * 4),
    metrics(1, 0, [0.9] * 4),
    metrics(2, 0, [0.1] * 4),
    metrics(3, 0, [0.8] * 4),
    metrics(0, 10, [0.5, 0.6, 0.7, 0.8]),
    metrics(1, 10, [0.6, 0.6, 0.9, 0.7], bytes=1000),
    metrics(2, 10, [0.4] * 4),
    metrics(3, 10, [0.6, 0.8, 0.2, NAN], bytes=3000, diverged=[3]),
]


def exchange(t: int, client: int, neighbours: list[int], **more: Any) -> dict[str, Any]:
    return {
        "world": 1,
        "t": t,
        "kind": "wake",
        "client": client,
        "neighbours": neighbours,
        **more,
    }


EXCHANGES = [
    exchange(0, 0, [1, 2, 3], heard=[True, True, False], weight=[0.8, 0.1, 0.0], distance=[0.1, 0.9, NAN]),
    exchange(1, 2, [0], kind="receive"),
    exchange(5, 3, [2, 1], weight=np.array([0.5, 0.5]), confidence=0.3),
    exchange(6, 1, [0], kind="receive", weight=[0.05]),
]


def make(
    path: Path,
    experiment: Experiment = EXPERIMENT,
    clients: Sequence[dict[str, Any]] = CLIENTS,
    metrics: Sequence[dict[str, Any]] = METRICS,
    exchanges: Sequence[dict[str, Any]] = EXCHANGES,
    task: TaskFacts = CLASSIFICATION,
) -> Run:
    """The run, or another of other numbers; `clients`: those of each seed."""
    with RunFolder.create(path, experiment) as folder:
        fill(folder, described(experiment), clients, metrics, exchanges, task)
    return Run(path)


def fill(
    folder: RunFolder,
    worlds: Sequence[dict[str, Any]] = WORLDS,
    clients: Sequence[dict[str, Any]] = CLIENTS,
    metrics: Sequence[dict[str, Any]] = METRICS,
    exchanges: Sequence[dict[str, Any]] = EXCHANGES,
    task: TaskFacts = CLASSIFICATION,
) -> None:
    folder.describe(worlds, clients, task)
    for row in metrics:
        folder.metrics(row)
    for row in exchanges:
        folder.exchange(row)
    folder.status("done", 10, 10, 1.5)
