"""Every method of the registry on a regression: simulated as in real peers, or refused in one sentence."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coterie import Experiment, run
from coterie.core.errors import ConfigError, CoterieError
from coterie.core.registry import registered
from coterie.engine.plan import prepare
from tests.engine.small import EVERY_METHOD, KINDS, LoopExecution, experiment, finished
from tests.own_numbers import numbers
from tests.peer.test_lockstep import check, over_memory
from tests.trees import same

RELATED = {"name": "related_tasks", "families": 2, "tasks": 2, "samples": 12, "features": 6, "hidden": 3}
OWN = "tests.plugins.tasks.own"
OF_LABELS = [name for name, method in registered("algorithm").items() if method.needs_classes]


def regression(**changes: Any) -> Experiment:
    return experiment(**{"data__set": RELATED, "task": {"name": "regression"}, **changes})


EVERY = regression(methods={n: options for n, options in EVERY_METHOD.items() if n not in OF_LABELS})


def test_every_method_as_one_client_after_the_other(tmp_path: Path) -> None:
    stacked = finished(prepare(EVERY), tmp_path / "stacked")
    alone = finished(prepare(EVERY), tmp_path / "alone", execution=LoopExecution)
    for key, outcome in stacked.items():
        same(outcome.tensors, alone[key].tensors, 1e-9)
        last = outcome.metrics[-1]
        assert all(0 < rmse < 5 for rmse in last["personal"]), key
        assert last["personal.r2"][0] <= 1
        losses = np.frombuffer(base64.b64decode(last["sample_losses"]), dtype="<f4")
        assert losses[:10].mean() == pytest.approx(last["personal"][0] ** 2, rel=1e-4)


@pytest.mark.parametrize("method", [name for name in KINDS if name not in OF_LABELS])
def test_real_peers_learn_a_regression_as_the_simulator_does(method: str, tmp_path: Path) -> None:
    e = regression(methods={method: EVERY_METHOD[method]})
    want = finished(prepare(e), tmp_path)
    (world,) = e.worlds()
    check(world, over_memory, tmp_path, want)


@pytest.mark.parametrize("method", OF_LABELS)
def test_methods_of_labels_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=f"methods.{method}: .* needs labels, but the targets of the task"):
        prepare(regression(methods=[method]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__partition": "dirichlet", "data__set": "tests.own_numbers:numbers"}, "deals by labels, but"),
        (
            {"data__shift": ["concept"]},
            "renames labels, but the targets of the task 'regression'",
        ),
        ({"attack": {"name": "label_flip"}}, "needs labels, but the targets of the task 'regression'"),
        ({"attack": {"name": "model_replacement"}}, "needs labels, but the targets of the task 'regression'"),
        ({"task": {"name": "classification"}}, 'numbers are learned by task = "regression"'),
        ({"task": {"name": "regression", "loss": "tests.plugins.tasks.own:each"}}, "must give one number"),
        (
            {"task": {"name": "regression", "loss": "tests.plugins.tasks.own:endless"}},
            "must be one finite number",
        ),
        ({"task": {"name": "regression", "metric": "tests.plugins.tasks.own:failing"}}, "failed on float64"),
        (
            {"methods": {"KD-PDFL": {"reading": "paper", "distance": "jensen_shannon"}}},
            "compares probabilities, but the outputs of this task are none",
        ),
        (
            {"methods": {"KD-PDFL": {"reading": "paper", "outputs": "centred"}}},
            "makes up for labels that are not equally frequent",
        ),
    ],
)
def test_what_needs_labels_or_fails_is_refused_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        prepare(regression(**changes))


def test_partitions_deal_by_quantiles_of_the_target() -> None:
    """With two bins of a target, each client has one of the two alone."""
    partition = {"name": "pathological", "num_classes_per_partition": 1}
    e = regression(
        data__set="tests.own_numbers:numbers",
        task={"name": "regression", "bins": 2},
        data__partition=partition,
    )
    federation, middle = prepare(e).federations[0], numbers()[1].sort().values[100]
    for own in torch.split(federation.train.label, federation.train.count.tolist()):
        assert bool((own < middle).all()) or bool((own >= middle).all())


def test_a_loss_and_a_metric_of_ones_own(tmp_path: Path) -> None:
    task = {"name": "regression", "loss": f"{OWN}:pinball", "metric": f"{OWN}:near"}
    e = regression(task=task, data__set=f"{OWN}:line", methods=["Local", "KD-PDFL"], train__iterations=200)
    found = run(e, tmp_path / "run", plots=False)
    assert [m.name for m in found.task.metrics] == ["near", "rmse", "mae", "r2"]
    assert found.task.metric.heading == "near %"
    (alone, _) = found.tracks
    assert alone.scores["personal"][-1].mean() > 0.9
    assert alone.scores["personal.rmse"][-1].mean() < 0.5
    assert alone.sample_losses is not None
