"""Accuracy by hand, in one go or several; looking changes nothing."""

from __future__ import annotations

import pytest
import torch

from coterie.core.data import Federation, Split
from coterie.core.task import Task
from coterie.core.types import State
from coterie.engine.evaluation import accuracies, accuracy
from coterie.engine.feed import Feed
from tests.engine.small import hard, simulator
from tests.trees import clone, same


def two_clients() -> tuple[Task, Feed, State]:
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
    feed = Feed.of([federation], [0], "all", torch.device("cpu"), torch.float64)
    return task, feed, State({"weight": weight, "bias": bias}, {}, {}, {}, {})


def test_accuracy_by_hand() -> None:
    found = accuracies(*two_clients())
    # Client 0 is right about everything; client 1 takes 3 for low, and 4, too.
    assert found["personal"].tolist() == [1.0, 0.0]
    # The second client calls low high: of 0..5 it puts out 0 0 0 0 0 1, wanted 1 1 1 0 0 0.
    assert found["global"].tolist() == pytest.approx([1.0, 2 / 6])
    assert found["validation"][0].isnan()  # it has none
    assert found["validation"][1] == 0.0


@pytest.mark.parametrize("chunk", [1, 200, 1000])
def test_in_several_goes_it_is_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    s = simulator(hard(methods=["Local", "FedAvg"], seeds=[0, 1]))
    s.advance()
    whole = accuracies(s.stack.task, s.stack.feed, s.clients.whole)
    monkeypatch.setattr("coterie.engine.memory.PASSING", chunk)
    same(accuracies(s.stack.task, s.stack.feed, s.clients.whole), whole)


def test_no_samples_at_all() -> None:
    task, feed, state = two_clients()
    none = feed.validation
    part = type(none)(none.index[:0], none.label[:0], none.first * 0, none.count * 0)
    assert bool(accuracy(task, feed, part, state).isnan().all())


def test_looking_changes_nothing() -> None:
    s = simulator(hard())
    while s.t < 8:
        s.advance()
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
        s.advance()
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
        s.advance()
        if s.due():
            due.append(s.t)
    assert due == [10, 20, 24]  # every ten, and the last
