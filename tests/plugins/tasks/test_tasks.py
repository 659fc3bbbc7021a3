"""Each task kind: losses and metrics by hand, what it refuses, and what a neighbour's outputs are worth."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import describe, registered
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_factory import build_kind
from coterie.core.tasks.task_kind import TaskKind, Trained
from coterie.core.types import Batch, Probe, State
from coterie.engine.analytic import analytic_model, materialise
from coterie.plugins.tasks.autoencoder import linear_probe
from coterie.plugins.tasks.multilabel import average_precision

X = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
Z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
Y = torch.tensor([[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])


def probe(x: Tensor, y: Tensor) -> Probe:
    mask = torch.ones(len(x), dtype=torch.bool)
    return Probe(x, y, mask, torch.tensor(float(len(x))), torch.zeros_like(mask))


def measured(kind: TaskKind, outputs: Tensor, y: Tensor) -> dict[str, float]:
    return {name: float(value) for name, value in kind.measure(outputs, y).items()}


@pytest.mark.parametrize("name", registered("task"))
def test_a_task_is_described_and_its_metrics_are_named_apart(name: str) -> None:
    kind = build_kind(name, {})
    assert describe(type(kind))
    names = [metric.name for metric in kind.metrics]
    assert len(set(names)) == len(names) > 0
    assert kind.facts("mine").metric == kind.metrics[0]


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({}, (0 + 1 + 4 + 0 + 4 + 1) / 6),
        ({"loss": "absolute"}, (0 + 1 + 2 + 0 + 2 + 1) / 6),
        ({"loss": "huber", "delta": 1.0}, (0 + 0.5 + 1.5 + 0 + 1.5 + 0.5) / 6),
    ],
)
def test_regression_by_hand(options: dict[str, Any], loss: float) -> None:
    kind = build_kind("regression", options)
    assert float(kind.mean_loss(Z, Y)) == pytest.approx(loss)
    assert float(kind.losses(Z, Y).mean()) == pytest.approx(loss)
    found = measured(kind, Z, Y)
    assert found["rmse"] == pytest.approx((10 / 6) ** 0.5)
    assert found["mae"] == pytest.approx(1.0)
    assert found["r2"] == pytest.approx(((1 - 8 / 2) + (1 - 2 / 2)) / 2)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_what_a_neighbour_is_worth_does_not_depend_on_the_unit(loss: str) -> None:
    """In kilograms or in grams, a neighbour's loss is as many nats above another's."""
    kind = build_kind("regression", {"loss": loss, "delta": 1e9})

    def apart(unit: float) -> float:
        own = probe(X, unit * Y[:, :1].repeat(2, 1)[:4])
        nats = kind.nats(kind.judge(unit * torch.stack([X / 2, X * 2]), own))
        return float(nats[1] - nats[0])

    assert apart(1.0) == pytest.approx(apart(1000.0), rel=1e-4)


@pytest.mark.parametrize("name", ["regression", "multilabel", "next_token", "autoencoder"])
def test_the_blind_know_the_targets_alone(name: str) -> None:
    """Of constant outputs, theirs have about the smallest loss on the own targets."""
    y = {
        "regression": torch.tensor([[1.0], [2.0], [6.0]]),
        "multilabel": torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]).repeat(50, 1),
        "next_token": torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0]]).repeat(50, 1),
        "autoencoder": torch.zeros(3, dtype=torch.int64),
    }[name]
    kind, x = build_kind(name, {}), torch.tensor([[1.0], [2.0], [6.0]])
    own = probe(x if name == "autoencoder" else torch.zeros(len(y), 4), y)
    shape = (len(y), 4, 2) if name == "next_token" else (len(y), y.shape[1] if y.dim() > 1 else 1)
    blind = kind.blind(torch.zeros(shape), own)
    others = [blind + torch.eye(shape[-1])[0], blind - torch.eye(shape[-1])[0]]
    losses = kind.judge(torch.stack([blind, *others]), own)
    assert int(losses.argmin()) == 0


def test_multilabel_by_hand() -> None:
    outputs = torch.tensor([[2.0, -1.0, 0.5], [-1.0, -2.0, 3.0], [1.0, 1.0, -1.0]])
    true = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    found = measured(build_kind("multilabel", {}), outputs, true)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 3))  # said 5, of which 3 are true; true are 4
    want = average_precision_score(true.numpy(), outputs.numpy(), average="macro")
    assert found["average_precision"] == pytest.approx(want)
    assert bool(average_precision(outputs, torch.zeros(3, 3, dtype=torch.bool)).isnan())


def test_next_token_by_hand() -> None:
    outputs = torch.tensor([[[9.0, 0.0], [9.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]).double()
    y = torch.tensor([[0, 1], [0, 1]])
    found = measured(build_kind("next_token", {}), outputs, y)
    sure = torch.tensor(9.0).double().exp().log1p()  # -log of what is unlikely; the likely one: less 9
    mean = (sure - 9 + sure + 2 * torch.tensor(2.0).double().log()) / 4
    assert found["perplexity"] == pytest.approx(float(mean.exp()))
    assert found["token_accuracy"] == 0.5


def test_a_linear_probe_tells_whether_features_part_the_labels() -> None:
    torch.manual_seed(0)
    y = torch.arange(60) % 3
    good, bad = torch.eye(3)[y] + 0.1 * torch.randn(60, 3), torch.randn(60, 3)
    assert float(linear_probe(Trained(good[:30], y[:30], good[30:], y[30:]), 1e-2)) == 1.0
    assert float(linear_probe(Trained(bad[:30], y[:30], bad[30:], y[30:]), 1e-2)) < 0.7
    nobody = torch.zeros(30, dtype=torch.int64)
    assert bool(linear_probe(Trained(good[:30], nobody, good[30:], nobody), 1e-2).isnan())


def test_quantiles_of_the_target_are_of_equal_size() -> None:
    y = torch.tensor([5.0, 5.0, 5.0, 1.0, 9.0, 7.0])[:, None]
    bins, count = build_kind("regression", {"bins": 3}).strata(y, ("target",))
    assert count == 3
    assert bins.bincount().tolist() == [2, 2, 2]
    assert bins[3] == 0
    assert bins[4] == bins[5] == 2


def test_the_squared_loss_by_hand_is_what_autograd_finds() -> None:
    task = Task(
        nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).double(), build_kind("regression", {})
    )
    known = analytic_model(task, (3,))
    assert known
    assert known.loss == "squared"
    params, _ = task.init_params(0)
    x, y = torch.randn(7, 3).double(), torch.randn(7, 2).double()
    one = torch.ones((), dtype=torch.float64)
    want = task.gradients(State(params, {}, {}, {}, {}), Batch(x, y, one, torch.tensor(0)))
    got = known.gradients({k: v[None] for k, v in params.items()}, x[None], y[None], one[None])
    assert float(got.loss[0]) == pytest.approx(float(want.loss))
    for name, gradient in materialise(got.grads).items():
        assert torch.allclose(gradient[0], want.grads[name])


NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("classification", torch.tensor([0.5, 1.0]), 'numbers are learned by task = "regression"'),
        ("classification", torch.tensor([0, 2]), "mine: y must be from 0 to 1, got 0 to 2"),
        ("regression", torch.tensor([0, 1]), "y are 2 labels .* name the columns to predict"),
        ("regression", torch.tensor([[1.0, torch.nan]]), "y of sample 0 is not finite"),
        ("regression", torch.tensor([[1.0]]), "y has 1 targets, but there are 2 names"),
        (
            "multilabel",
            torch.tensor([[0, 1], [2, 1]]),
            "0 or 1 .* got 2 for label 'a' of sample 1",
        ),
        ("multilabel", torch.tensor([0, 1]), r"shape \[n, labels\], got int64 of shape \[2\]"),
        ("next_token", torch.tensor([[0, 2]]), "tokens must be from 0 to 1, got 0 to 2"),
        ("next_token", torch.tensor([[0.0, 1.0]]), r"whole numbers of shape \[n, length\], got float32"),
        ("autoencoder", torch.tensor([[0, 1]]), "whole numbers of shape"),
    ],
)
def test_targets_that_do_not_fit_are_refused(name: str, y: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=f"^mine: .*{message}" if not message.startswith("mine") else message):
        build_kind(name, {}).accept(y, NAMES, "mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "squard"}, "task.loss: "),
        ({"delta": -1.0}, "task.delta: "),
        ({"loss": "tests.plugins.tasks.own:nothing"}, "has no 'nothing'"),
        ({"metric": "tests.plugins.tasks.own:unmarked"}, "does not say which way is better"),
        ({"metric": "tests.plugins.tasks.own:NUMBER"}, "must be a function, got int"),
        ({"metric": "rmse"}, "task.metric"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_kind("regression", options)
