"""kNN-Per: neighbours, their weights and λ by hand; λ = 0 predicts as FedAvg, which it is in training."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from coterie.core.tasks.task import Task
from coterie.core.types import Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.knn_per import KNNPer
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import numbers, row
from tests.plugins.algorithms.squares import moment
from tests.trees import same

TASK = Task(nn.Sequential(nn.Flatten(), nn.Linear(1, 2)).double())
"""Features are the samples themselves; labels A = 0 and B = 1."""


def client(p: float = 0.3) -> State:
    """A network that gives A this probability, whatever it sees: the logits are log p and log(1 - p)."""
    params = {"1.weight": torch.zeros(2, 1).double(), "1.bias": numbers([log(p), log(1 - p)])}
    return KNNPer().init(TASK, Start(params, {}, row(), torch.tensor(0)), moment(0))


def stored(x: Sequence[float], y: Sequence[int], mask: Sequence[bool] = ()) -> Probe:
    there = torch.tensor(list(mask) or [True] * len(x))
    return Probe(numbers(x)[:, None], torch.tensor(y), there, there.sum().double(), torch.zeros_like(there))


def scores(method: KNNPer, probe: Probe, x: float = 1.0, p: float = 0.3) -> Tensor:
    return method.predict(TASK, client(p), numbers([x])[:, None], probe)[0]


def test_one_stored_sample_by_hand() -> None:
    # p_kNN(A) = 1, p_net(A) = 0.3: ½·1 + ½·0.3
    assert scores(KNNPer(), stored([1.0], [0])).tolist() == pytest.approx([0.65, 0.35], abs=1e-15)


def test_nearer_samples_weigh_more() -> None:
    # squared distances 1 and 4, s = 2: e^-½ for A, e^-2 for B; λ = 1
    got = scores(KNNPer(lam=1.0, scale=2.0), stored([2.0, -1.0], [0, 1]))
    a, b = exp(-0.5), exp(-2)
    assert got.tolist() == pytest.approx([a / (a + b), b / (a + b)], abs=1e-15)


@pytest.mark.parametrize(("k", "want"), [(1, [0.0, 1.0]), (2, [0.5, 0.5]), (3, [2 / 3, 1 / 3])])
def test_only_the_nearest_real_samples_count(k: int, want: list[float]) -> None:
    # B at distance 0.1, A at 0.2 and 0.3; padding would be nearest; a wide kernel weighs all alike
    probe = stored([1.3, 1.0, 1.2, 1.1], [0, 0, 0, 1], [True, False, True, True])
    got = scores(KNNPer(k=k, lam=1.0, scale=1e9), probe)
    assert got.tolist() == pytest.approx(want, abs=1e-8)


def test_samples_far_beyond_the_kernel_still_count() -> None:
    assert scores(KNNPer(lam=1.0), stored([1e3], [1])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("x", "y", "p", "want"),
    [
        # neighbours are always right, the network (always A) in half of the cases: of all good λ the largest
        ([0.0, 0.1, 5.0, 5.1], [0, 0, 1, 1], 0.6, 1.0),
        # neighbours are always wrong, the network (A at 0.6) right in half: λ·1 < (1 - λ)·0.2 beyond λ = 1/6
        ([0.0, 0.1, 5.0, 5.1], [0, 1, 0, 1], 0.6, 0.15),
        # a single sample has no neighbour: every λ < 1 is as good, and 1 says A where both are 0
        ([0.0], [1], 0.3, 0.95),
    ],
)
def test_leave_one_out_by_hand(x: list[float], y: list[int], p: float, want: float) -> None:
    method, probe = KNNPer(k=1, choice="leave-one-out"), stored(x, y)
    store = TASK.features(client(p), probe.x)
    assert float(method.share_of_near(TASK, client(p), store, probe)) == pytest.approx(want, abs=1e-15)


def test_padding_does_not_choose() -> None:
    method = KNNPer(k=1, choice="leave-one-out")
    probe = stored([0.0, 0.1, 5.0, 5.1, 9.0], [0, 1, 0, 1, 0], [True] * 4 + [False])
    store = TASK.features(client(0.6), probe.x)
    assert float(method.share_of_near(TASK, client(0.6), store, probe)) == pytest.approx(0.15, abs=1e-15)


def test_scores_are_probabilities() -> None:
    w = world()
    states = lived(KNNPer(), w)[-1][0]
    for choice in ("fixed", "leave-one-out"):
        method = KNNPer(k=3, choice=choice)
        got = vmap(lambda s, b, p, m=method: m.predict(w.task, s, b.x, p))(states, w.batches[0], w.probes)
        assert got.min() >= 0
        torch.testing.assert_close(got.sum(dim=-1), torch.ones(got.shape[:-1]).double())


def test_it_learns_as_fedavg_and_without_neighbours_predicts_so() -> None:
    w = world()
    lives = lived(KNNPer(), w)
    same(lives, lived(FedAvg(), w))
    states, batch = lives[-1][0], w.batches[0]
    mine, fedavg = (
        vmap(lambda s, b, p, m=m: m.predict(w.task, s, b.x, p))(states, batch, w.probes)
        for m in (KNNPer(lam=0.0), FedAvg())
    )
    assert torch.equal(mine, torch.softmax(fedavg, dim=-1))
    assert torch.equal(mine.argmax(dim=-1), fedavg.argmax(dim=-1))
