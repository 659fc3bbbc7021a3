"""A client whose loss is not finite is named, left alone and reported; the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.engine.execution import VmapExecution
from coterie.engine.plan import prepare
from coterie.engine.runner import simulate
from tests.engine.recording import Recording, Watcher
from tests.engine.small import EVERY_METHOD, LoopExecution, by_hand, experiment, outcome, simulator

# Client 1's inputs are so large that its first step overflows, and its second loss is not a number.
OVERFLOW: dict[str, Any] = {
    "data__set": "tests.engine.nets:three_clients",
    "data__clients": 3,
    "data__sizes": "all",
    "dtype": "float32",
    "model": {"name": "tests.engine.nets:plain"},
    "train__optimizer": {"name": "sgd", "momentum": 0.9},
}


@pytest.mark.parametrize("execution", [VmapExecution, LoopExecution, by_hand])
def test_it_is_named_left_alone_and_reported(tmp_path: Path, execution: Any) -> None:
    watcher, recording = Watcher(), Recording(tmp_path)
    deep = {**OVERFLOW, "model": {"name": "mlp", "hidden": [5]}}  # some algorithms send all but the head
    methods = {
        name: options for name, options in EVERY_METHOD.items() if name != "Pooled"
    }  # all have the sample
    plan = prepare(experiment(methods=methods, **deep))
    simulate(plan, recording, progress=watcher, execution=execution)
    assert len(watcher.notices) == len(methods)
    for name in methods:
        t = 1 if name == "FedProto" else 2  # the distance of features is in its loss from the first one on
        (notice,) = (
            n for n in watcher.notices if n.startswith(f"{name}, seed 0: client 1 diverged at iteration {t}")
        )
        assert "train.lr" in notice
    for row in recording.rows["metrics"]:
        out = row["t"] > 0
        assert row["diverged"] == ([1] if out else [])
        for key in ("personal", "global", "validation", "loss"):
            assert (row[key][1] != row[key][1]) is (out or key == "loss"), (row["t"], key)
            assert row[key][0] == row[key][0] or (key == "loss" and not out)
    for world in outcome(plan, recording).values():
        for k, v in world.tensors.items():
            assert torch.isfinite(v[[0, 2]]).all(), k
    accuracy = {name: value for one in watcher.accuracy for name, value in one.items()}  # of all stacks
    assert all(0 <= accuracy[name] <= 1 for name in methods)


def test_the_others_are_as_if_it_were_absent() -> None:
    """Once it has diverged, nobody hears it, and it hears nobody."""
    s = simulator(experiment(methods=["FedAvg"], **OVERFLOW, exchange__stars=3, train__personalize=0.0))
    while s.t < 4:
        s.step_to_next_event()
    assert s.diverged.tolist() == [0, 2, 0]
    before = {k: v.clone() for k, v in s.clients.whole.params.items()}
    s.step_to_next_event()
    assert s.t == 5
    for k, now in s.clients.whole.params.items():
        mean = (before[k][0] + before[k][2]) / 2
        torch.testing.assert_close(now[[0, 2]], mean.expand(2, *mean.shape), rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(now[1], before[k][1], rtol=0, atol=0, equal_nan=True)
    assert int(s.bytes[0]) == 2 * 6 * 4  # two sound stars hear each other: one message each of six numbers
    s.step_to_next_event()
    assert int(s.bytes[0]) == 4 * 6 * 4


def test_who_heard_only_those_who_diverged_heard_nobody() -> None:
    s = simulator(experiment(methods=["KD-PDFL"], **OVERFLOW, exchange__stars=1, exchange__cap=1))
    while s.t < 4:
        s.step_to_next_event()
    s.diverged[:] = torch.tensor([2, 2, 0])
    before = {k: v.clone() for k, v in s.tensors().items()}
    assert [s.step_to_next_event(), s.step_to_next_event()] == [[], []]
    assert s.t == 6
    for k, v in before.items():
        torch.testing.assert_close(s.tensors()[k], v, rtol=0, atol=0, equal_nan=True)


def test_it_stays_as_it_was_when_it_diverged() -> None:
    s = simulator(experiment(methods=["Local"], **OVERFLOW))
    while s.t < 4:
        s.step_to_next_event()
    stuck = {k: v[1].clone() for k, v in s.tensors().items() if k.startswith(("params", "optim"))}
    assert s.diverged[1] == 2
    s.evaluate()
    while s.t < 14:
        s.step_to_next_event()
    for k, v in stuck.items():
        torch.testing.assert_close(s.tensors()[k][1], v, rtol=0, atol=0, equal_nan=True)
    assert s.steps.tolist() == [6, 0, 6]  # iterations 7, 8, 9 and 12, 13, 14
    assert s.diverged.tolist() == [0, 2, 0]


def test_everybody_may_diverge(tmp_path: Path) -> None:
    """A learning rate beyond all reason: no client is left, and the run still ends in order."""
    watcher, recording = Watcher(), Recording(tmp_path)
    e = experiment(methods=EVERY_METHOD, dtype="float32", train__lr=1e30)
    assert simulate(prepare(e), recording, progress=watcher)
    last = [row for row in recording.rows["metrics"] if row["t"] == 24]
    assert [row["diverged"] for row in last] == [[0, 1, 2, 3]] * len(EVERY_METHOD)
    assert watcher.accuracy[-1] == {}
    assert len(watcher.notices) == 4 * len(EVERY_METHOD)


def test_one_world_does_not_harm_another() -> None:
    good = simulator(experiment(train__lr=0.1, dtype="float32"))
    both = simulator(experiment(grid={"train.lr": [0.1, 1e30]}, dtype="float32"))
    for s in (good, both):
        while s.t < s.stack.iterations:
            s.step_to_next_event()
    assert both.diverged[:4].tolist() == [0] * 4
    assert bool((both.diverged[4:] > 0).all())
    for k, v in good.clients.whole.params.items():
        torch.testing.assert_close(both.clients.whole.params[k][:4], v, rtol=1e-5, atol=1e-6)
