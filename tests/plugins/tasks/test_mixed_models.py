"""KD-PDFL between different models in every kind of task: as one client alone, and as real peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.engine.plan import prepare
from tests.engine.small import finished, hard
from tests.peer.test_lockstep import check, over_memory, worlds

OWN = "tests.plugins.tasks.own"
DENSE = [{"name": "mlp", "hidden": [5], "norm": "batch", "dropout": 0.3}, {"name": "mlp", "hidden": [4, 3]}]
RELATED = {"name": "related_tasks", "families": 2, "tasks": 2, "samples": 12, "features": 6}
SETTINGS: dict[str, dict[str, Any]] = {
    "regression": {"data__set": RELATED, "model": DENSE},
    "multilabel": {"data__set": f"{OWN}:genres", "model": DENSE},
    "autoencoder": {"model": [{"name": "autoencoder", "width": 5, "code": 2}, DENSE[1]]},
    "next_token": {
        "data__set": f"{OWN}:walks",
        "model": [{"name": "causal_cnn", "width": 4}, {"name": "causal_cnn", "width": 3, "depth": 1}],
    },
}
PAPER = {"name": "KD-PDFL", "reading": "paper", "lessons": 2, "lesson_rate": 0.05}
METHODS = {
    "trust": {"name": "KD-PDFL", "own_shape": "distil", "lessons": 2, "lesson_rate": 0.05},
    "paper": PAPER,
    "no lessons": {**PAPER, "lesson_rate": 1e-12},
}


@pytest.mark.parametrize("task", SETTINGS)
def test_peers_that_distil_arrive_at_the_simulators_models(task: str, tmp_path: Path) -> None:
    """Both architectures learn something in lessons, and real peers the same."""
    changes = {"train__iterations": 12, "train__lr": 0.05, "data__clients": 4, "population__away": 0.0}
    e = hard(methods=METHODS, task={"name": task}, **{**changes, **SETTINGS[task]})
    want = finished(prepare(e), tmp_path)
    taught, alone = (want[name, 0].tensors for name in ("paper", "no lessons"))
    moved = [k for k, v in taught.items() if "/params/" in k and not v.allclose(alone[k], atol=1e-6)]
    assert {k[0] for k in moved} == {"0", "1"}
    for name in ("trust", "paper"):
        check(worlds(e)[name], over_memory, tmp_path, want)
