"""Models that cannot be batched run one client at a time, and come to what batched ones come to."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.errors import ModelError
from coterie.core.tasks.task import Alone
from coterie.engine.execution import OneByOneExecution
from coterie.engine.plan import Plan, choose_execution, prepare
from tests.engine.recording import Watcher
from tests.engine.small import EVERY_METHOD, KINDS, Outcome, experiment, finished
from tests.trees import same

NETS = "tests.engine.nets"
SOME = {name: EVERY_METHOD[name] for name in KINDS}


def alone(plan: Plan) -> Plan:
    """The same, as if no model could be batched."""
    parts = []
    for stack in plan.stacks:
        task = dataclasses.replace(stack.task, alone=Alone("for a test", 0.0))
        parts.append(dataclasses.replace(stack, task=task))
    return plan._replace(stacks=parts)


def agree(one: dict[tuple[str, int], Outcome], other: dict[tuple[str, int], Outcome]) -> None:
    assert one.keys() == other.keys()
    for key, got in one.items():
        same(got.tensors, other[key].tensors, 1e-9)
        for mine, others in zip(got.metrics, other[key].metrics, strict=True):
            assert mine["loss"] == pytest.approx(others["loss"], rel=1e-9, nan_ok=True)
            assert mine["personal"] == others["personal"]
            assert mine["bytes"] == others["bytes"]
        assert len(got.exchanges) == len(other[key].exchanges)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of attention: it only says so
@pytest.mark.parametrize(
    "changes",
    [
        {"methods": EVERY_METHOD},
        {"methods": SOME, "model": f"{NETS}:attending", "exchange__stars": 2, "exchange__probe": 3},
        {"methods": SOME, "model": {"name": "mlp", "hidden": [5], "dropout": 0.3, "norm": "batch"}},
        {
            "methods": SOME,
            "attack": "sign_flip",
            "exchange__precision": "half",
            "population__speed": [0.5, 1.0],
        },
    ],
)
def test_with_batching_disabled_the_numbers_are_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    e = experiment(**changes)
    one = finished(prepare(e), tmp_path / "batched")
    agree(finished(alone(prepare(e)), tmp_path / "alone"), one)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        ("recurrent", "layer '2.lstm' (LSTM)"),
        ({"name": f"{NETS}:sequence", "kind": "gru", "dropout": 0.5}, "layer '2.net' (GRU)"),
        ({"name": f"{NETS}:sequence", "kind": "lstm", "dropout": 0.5}, "layer '2.net' (LSTM)"),
        ("packed", "layer '2"),
        ("deciding", "layer '2' (Deciding)"),
        ("cumulative", "layer '2' (BatchNorm1d)"),
    ],
)
def test_what_cannot_be_batched_runs_all_the_same(tmp_path: Path, model: Any, layer: str) -> None:
    e = experiment(
        model=f"{NETS}:{model}" if isinstance(model, str) else model,
        # Methods that differentiate by a way of their own cannot do so with packed sequences.
        methods={k: SOME[k] for k in ("Local", "FedAvg", "KD-PDFL")} if model == "packed" else SOME,
        train__iterations=12,
        data__set={"name": "synthetic", "groups": 2, "classes": 3, "features": 8, "samples": 60},
    )
    shown = Watcher()
    plan = prepare(e, progress=shown)
    (told,) = (text for text in shown.notices if text.startswith(layer))
    assert re.search(
        r"cannot be batched over clients \(.*\), so clients compute one at a time: [\d.]+ ms a local step "
        rf"here, some \d+ \w+ for the local steps of all {4 * len(e.methods)} clients$",
        told,
    )
    assert isinstance(choose_execution(plan.stacks[0], None), OneByOneExecution)
    first, second = (finished(prepare(e), tmp_path / name) for name in "ab")
    agree(first, second)
    losses = [row["loss"][0] for row in first["Local", 0].metrics]
    assert losses[-1] != losses[0]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("model", ["forgetting", {"name": f"{NETS}:attending", "dropout": 0.5}])
def test_what_functions_drop_is_the_clients_own(tmp_path: Path, model: Any) -> None:
    """Another global seed changes nothing; another seed of the experiment does."""
    name = f"{NETS}:{model}" if isinstance(model, str) else model
    e = experiment(model=name, data__set={"name": "synthetic", "groups": 2, "classes": 3, "features": 8})
    torch.manual_seed(1)
    first = finished(prepare(e), tmp_path / "a")
    torch.manual_seed(2)
    agree(finished(prepare(e), tmp_path / "b"), first)
    (stack,) = prepare(e).stacks
    assert stack.task.draws
    assert stack.task.random
    assert stack.task.alone is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "alpha_dropout",
            r"layer '2' \(AlphaDropout\) draws random numbers in training that are not the client's",
        ),
        ("noisy", r"layer '2' \(Noisy\) draws random numbers in training"),
        ("always", r"layer '2' \(Always\) draws random numbers in evaluation"),
    ],
)
def test_draws_that_cannot_be_keyed_are_refused(name: str, told: str) -> None:
    with pytest.raises(ModelError, match=told) as raised:
        prepare(experiment(model=f"{NETS}:{name}"))
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_models_that_can_be_batched_are() -> None:
    for name in ("attentive", "dropout", "batch_norm"):
        (stack,) = prepare(experiment(model=f"{NETS}:{name}")).stacks
        assert stack.task.alone is None
        assert not stack.task.draws
