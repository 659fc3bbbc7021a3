"""Runs of Local and FedAvg in which it is known what each client lost and won."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coterie.experiment import Experiment
from coterie.runs import Run
from tests.runs.run_fixture import make, metrics

Pairs = Sequence[tuple[int, int]]
"""Of each client: the samples that only its Local twin got right, and those that only it got right."""
BOTH = 3
"""Samples that both got right, so that clients do not begin with a byte."""


def people(count: int, seeds: int, **facts: Any) -> tuple[Experiment, list[dict[str, Any]]]:
    """An experiment with Local and FedAvg, and the clients of each seed."""
    methods = {"Local": "Local", "FedAvg": "FedAvg"}
    experiment = Experiment.parse({"seeds": seeds, "methods": methods, "data": {"clients": count}})
    labels = {"classes": ["cat"], "group": [0] * count, "train": [1] * count, "labels": [[1]] * count}
    return experiment, [{"seed": seed, **labels, **facts} for seed in range(seeds)]


def bits(samples: Sequence[int]) -> str:
    return base64.b64encode(np.packbits(np.array(samples, dtype=np.uint8)).tobytes()).decode()


def sampled(path: Path, *seeds: Pairs, **facts: Any) -> Run:
    """FedAvg's clients got right what their pairs of each seed say, of as many samples in every seed."""
    test = [lost + won + BOTH for lost, won in seeds[0]]
    rows = []
    for k, pairs in enumerate(seeds):
        for world, (twin, own) in ((2 * k, (1, 0)), (2 * k + 1, (0, 1))):
            right = [[twin] * lost + [own] * won + [1] * BOTH for lost, won in pairs]
            accuracy = [sum(one) / len(one) for one in right]
            rows.append(metrics(world, 10, accuracy, correct=bits([s for one in right for s in one])))
    return make(path, *people(len(test), len(seeds), test=test, **facts), rows, [])


def gained(path: Path, *seeds: Sequence[float]) -> Run:
    """FedAvg's clients are owners of their data and gain so much over Local in each seed."""
    rows = []
    for k, gain in enumerate(seeds):
        rows.append(metrics(2 * k, 10, [0.5] * len(gain)))
        rows.append(metrics(2 * k + 1, 10, [0.5 + g for g in gain]))
    return make(path, *people(len(seeds[0]), len(seeds), owned=True), rows, [])
