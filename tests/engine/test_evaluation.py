"""Accuracy by hand, in one go or several; looking changes nothing."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from coterie.core.data import Federation, Split
from coterie.core.tasks.task import Task
from coterie.core.types import Probe, State
from coterie.engine.batches import StackedData
from coterie.engine.evaluation import Predictor, measure, measurements, predictors, verdicts
from coterie.engine.layout import take_clients
from tests.engine.small import hard, simulator
from tests.plugins.algorithms.everything import Everything
from tests.trees import clone, same


def two_clients() -> tuple[Task, StackedData, list[Predictor]]:
    """Inputs 0..5 with a linear model each: label 1 from 2.5 (client 0), from 4.5 (client 1)."""
    pool = torch.arange(6.0)[:, None]
    rows = torch.arange(6)
    truth = (rows >= 3).long()
    personal = Split(
        torch.tensor([0, 1, 2, 3, 4, 5, 3]), torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([6, 1])
    )
    uniform = Split(rows.repeat(2), torch.cat([truth, 1 - truth]), torch.tensor([6, 6]))
    validation = Split(torch.tensor([4]), torch.tensor([1]), torch.tensor([0, 1]))
    federation = Federation(pool, personal, validation, personal, uniform, torch.zeros(2), ("low", "high"))
    task = Task(torch.nn.Linear(1, 2).double())
    weight = torch.tensor([[[0.0], [1.0]], [[0.0], [1.0]]], dtype=torch.float64)
    bias = torch.tensor([[2.5, 0.0], [4.5, 0.0]], dtype=torch.float64)
    feed = StackedData.of([federation], [0], "all", torch.device("cpu"), torch.float64)
    state = State({"weight": weight, "bias": bias}, {}, {}, {}, {})
    return task, feed, [Predictor.plain(task, slice(0, 2), state)]


def test_accuracy_by_hand() -> None:
    found = measurements(*two_clients())
    # Client 0 is right about everything; client 1 takes 3 for low, and 4, too.
    assert found["personal"].tolist() == [1.0, 0.0]
    # The second client calls low high: of 0..5 it puts out 0 0 0 0 0 1, wanted 1 1 1 0 0 0.
    assert found["global"].tolist() == pytest.approx([1.0, 2 / 6])
    assert found["validation"][0].isnan()  # it has none
    assert found["validation"][1] == 0.0


def test_which_personal_samples_are_right_by_hand() -> None:
    """Six of the first client, then the only one of the second."""
    assert verdicts(*two_clients()).tolist() == [True] * 6 + [False]


def test_the_last_evaluation_records_which_samples_were_right() -> None:
    """In bits that lie as the clients' samples do; each client's share of ones is its accuracy."""
    s = simulator(hard(methods=["Local", "FedAvg"], seeds=[0, 1], data__test=13))
    while s.t < s.stack.iterations:
        assert not any("correct" in row for row in s.evaluate())
        s.step_to_next_event()
    for row, member in zip(s.evaluate(), s.stack.members, strict=True):
        count = s.stack.data.personal.count[member.clients].numpy()
        bits = np.unpackbits(np.frombuffer(base64.b64decode(row["correct"]), dtype=np.uint8))
        assert len(bits) == -(-count.sum() // 8) * 8
        clients = np.split(bits, np.cumsum(count))[:-1]
        assert [own.mean() for own in clients] == pytest.approx(row["personal"])


@pytest.mark.parametrize("chunk", [1, 200, 1000])
def test_in_several_goes_it_is_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    s = simulator(hard(methods=["Local", "FedAvg"], seeds=[0, 1]))
    s.step_to_next_event()
    parts = list(predictors(s.stack, s.clients, s.t))
    assert len(parts) == 1
    whole = measurements(s.stack.task, s.stack.data, parts)
    bits = verdicts(s.stack.task, s.stack.data, parts)
    monkeypatch.setattr("coterie.engine.memory_budget.TEMPORARY_BYTES", chunk)
    same(measurements(s.stack.task, s.stack.data, parts), whole)
    assert torch.equal(verdicts(s.stack.task, s.stack.data, parts), bits)


def test_no_samples_at_all() -> None:
    task, feed, (one,) = two_clients()
    none = feed.validation
    part = type(none)(none.index[:0], none.label[:0], none.first * 0, none.count * 0)
    assert bool(measure(task, feed, part, one)["accuracy"].isnan().all())
    assert verdicts(task, dataclasses.replace(feed, personal=part), [one]).tolist() == []


@dataclass(frozen=True)
class Second(Everything):
    """Tests its second model, of which the scores are turned round."""

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Tensor:
        return -Everything.predict(self, task, state, x, probe)


@pytest.mark.parametrize(("name", "sign"), [("Everything", 1), ("Second", -1)])
def test_what_is_tested_is_what_the_algorithm_says(name: str, sign: int) -> None:
    """Beside an algorithm that tests its parameters; each client as it would test itself, bare."""
    home = {"Everything": "tests.plugins.algorithms.everything", "Second": "tests.engine.test_evaluation"}
    methods = {"FedAvg": {}, "second": {"name": f"{home[name]}:{name}"}}
    s = simulator(hard(methods=methods))
    while s.t < 8:
        s.step_to_next_event()
    parts = list(predictors(s.stack, s.clients, s.t))
    assert [part.clients for part in parts] == [slice(0, 6), slice(6, 12)]
    found = measurements(s.stack.task, s.stack.data, parts)["global"]
    data, task = s.stack.data, s.stack.task
    for i in range(12):
        group, inside = s.stack.groups[i // 6], i % 6
        params, buffers = group.algorithm.model(take_clients(s.clients.parts[i // 6], inside))
        first, count = int(data.uniform.first[i]), int(data.uniform.count[i])
        x, y = data.samples(data.uniform, torch.arange(first, first + count))
        scores = task.logits(State(params, buffers, {}, {}, {}), x) * (sign if i >= 6 else 1)
        assert float(found[i]) == pytest.approx(float((scores.argmax(-1) == y).double().mean()))


def test_looking_changes_nothing() -> None:
    s = simulator(hard())
    while s.t < 8:
        s.step_to_next_event()
    before = clone(s.tensors())
    first, again = s.evaluate(), s.evaluate()
    after = s.tensors()
    kept = [k for k in before if k not in ("loss_sum", "steps")]
    same({k: after[k] for k in kept}, {k: before[k] for k in kept})
    for one, other in zip(first, again, strict=True):
        assert {k: v for k, v in one.items() if k != "loss"} == {
            k: v for k, v in other.items() if k != "loss"
        }


def test_the_loss_is_the_mean_since_the_last_look() -> None:
    s = simulator(hard(exchange__every=50))
    while s.t < 10:
        s.step_to_next_event()
    steps, total = s.steps.clone(), s.loss_sum.clone()
    learned = s.stack.members[0].schedule.learns(torch.arange(1, 11)).sum(dim=0)
    assert torch.equal(steps, learned)
    (row,) = s.evaluate()
    want = (total / steps).tolist()
    assert row["loss"] == pytest.approx(want, nan_ok=True)
    assert s.steps.tolist() == [0] * 6


def test_evaluations_are_when_they_are_due() -> None:
    s = simulator(hard())
    due = []
    while s.t < s.stack.iterations:
        s.step_to_next_event()
        if s.evaluation_due():
            due.append(s.t)
    assert due == [10, 20, 24]  # every ten, and the last
