"""A run of a regression with made-up numbers: RMSE in kg, the lower the better, and R2, the higher."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coterie.core.tasks.metric import Metric, TaskFacts
from coterie.runs import Run
from tests.runs.run_fixture import CLIENTS, EXCHANGES, EXPERIMENT, make, metrics

__all__ = ["RMSE", "TASK", "losses", "regression"]

RMSE = Metric("rmse", "RMSE", "kg", higher_is_better=False, digits=2)
TASK = TaskFacts("regression", (RMSE, Metric("r2", "R2", digits=2)), has_classes=False)
SAMPLES = 4
"""Test samples of each client."""


def losses(*clients: ArrayLike) -> str:
    """Losses of test samples, client after client, as a row has them."""
    flat = np.concatenate([np.asarray(one, dtype="<f4") for one in clients])
    return base64.b64encode(flat.tobytes()).decode()


def regression(path: Path) -> Run:
    """Local and KD-PDFL with two seeds of four clients; in seed 0 each sample of KD-PDFL's differs by `off`.

    RMSE of seed 0, Local: 1 2 3 4, KD-PDFL: 0.5 2 4 3.5; of seed 1, Local: 2 2 2 2, KD-PDFL: 1 3 2 2.
    """
    people: list[dict[str, Any]] = [
        {**one, "classes": [], "labels": [[]] * 4, "test": [SAMPLES] * 4} for one in CLIENTS
    ]
    alone, joined = [1.0, 2.0, 3.0, 4.0], [0.5, 2.0, 4.0, 3.5]
    # of KD-PDFL's clients: all samples better, some better and some worse, all worse, one sample alone better
    off = [[-1.0, -1.1, -0.9, -1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.1, 0.9, 1.0], [0.0, 0.0, 0.0, -1.0]]
    rows = [
        metrics(0, 0, [9.0] * 4),
        metrics(1, 0, [8.0] * 4),
        metrics(2, 0, [9.0] * 4),
        metrics(3, 0, [8.0] * 4),
        metrics(0, 10, alone, **_further(0.2, losses(*[[2.0] * SAMPLES] * 4))),
        metrics(1, 10, joined, bytes=1000, **_further(0.4, losses(*[2.0 + np.array(one) for one in off]))),
        metrics(2, 10, [2.0] * 4, **_further(0.2, losses(*[[2.0] * SAMPLES] * 4))),
        metrics(3, 10, [1.0, 3.0, 2.0, 2.0], bytes=3000, **_further(0.4, losses(*[[2.0] * SAMPLES] * 4))),
    ]
    return make(path, EXPERIMENT, people, rows, EXCHANGES, TASK)


def _further(r2: float, written: str) -> dict[str, Any]:
    columns = {f"{kind}.r2": [r2] * 4 for kind in ("personal", "global", "validation")}
    return {**columns, "sample_losses": written}
