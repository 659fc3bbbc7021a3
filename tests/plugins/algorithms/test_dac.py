"""DAC: scores by hand, chances to be asked, and FedAvg where all are asked."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import guarded_mix
from coterie.core.sampling import context
from coterie.core.types import Probe, Reachable, State
from coterie.plugins.algorithms.dac import DAC
from coterie.plugins.algorithms.fedavg import FedAvg
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same


def own() -> Probe:
    """Samples x = 1 called 0, so that a model's loss is ½θ²; one more is padding."""
    return probe([1.0, 50.0], mask=[True, False])


def scored(*scores: float) -> State:
    return client(DAC(), ONE, 0.0)._replace(rows={"score": numbers(scores)})


def asked(method: DAC, state: State, seed: int, slots: tuple[int, ...] = (1, 2, 3), t: int = 0) -> Tensor:
    reachable = Reachable(torch.tensor(slots), torch.tensor([slot > 0 for slot in slots]))
    return method.ask(ONE, state, reachable, context("ask", seed, t, 0, last=1000, every=10))


def how_often(method: DAC, state: State, slots: tuple[int, ...], t: int = 0) -> list[float]:
    """The share of 2,000 exchanges in which each is asked; its standard deviation is at most 0.011."""
    return (
        torch.stack([asked(method, state, seed, slots, t) for seed in range(2000)]).double().mean(0).tolist()
    )


def test_all_that_are_heard_are_averaged_and_scored() -> None:
    # losses ½·2² and ½·1²: scores ½ and 2; (0 + 2 + 1)/3
    new, info = guarded_mix(DAC(), ONE, scored(0, 0, 7, 0), inbox([2.0, 1.0], slot=[1, 3]), own(), moment())
    assert theta(new) == pytest.approx(1.0, abs=1e-15)
    assert new.rows["score"].tolist() == [0, 0.5, 7, 2]
    assert info["distance"].tolist() == [2.0, 0.5]
    assert info["weight"].tolist() == [0.5, 2.0]


def test_what_is_not_heard_or_cannot_be_measured_is_not_scored() -> None:
    box = inbox([0.0, 1.0, 1e200], heard=[False, True, True])
    new, info = guarded_mix(DAC(), ONE, scored(0, 4, 0, 0), box, own(), moment())
    assert theta(new) == 0.5
    assert new.rows["score"].tolist() == [0, 4, 2, 0]
    assert info["heard"].tolist() == [False, True, False]


def test_a_perfect_model_has_a_finite_score() -> None:
    new, _ = guarded_mix(DAC(), ONE, scored(0, 0, 0, 0), inbox([0.0]), own(), moment())
    assert new.rows["score"].tolist() == pytest.approx([0, 1e6, 0, 0])


def test_chances_to_be_asked() -> None:
    """Losses 1 and ½, scores 1 and 2: e / (e + e²) = 0.26894 and 0.73106 for τ = 1; alike for τ = 0."""
    state = scored(0, 1, 2, 9)
    assert how_often(DAC(sampled=1, tau=1.0), state, (1, 2)) == pytest.approx([0.26894, 0.73106], abs=0.03)
    assert how_often(DAC(sampled=1, tau=0.0), state, (1, 2)) == pytest.approx([0.5, 0.5], abs=0.03)


def test_a_peer_never_heard_scores_as_the_best_one() -> None:
    assert how_often(DAC(sampled=1, tau=1.0), scored(0, 2, 0, 2), (1, 2)) == pytest.approx(
        [0.5, 0.5], abs=0.03
    )
    assert asked(DAC(sampled=1), scored(0, 1, 0, 9), 0, (1, 2)).tolist() == [False, True]


def test_tau_can_grow() -> None:
    """2τ/(1 + e^(-0.2·n)) - τ + 1 after n exchanges: 1 at first, 1 + τ·0.46212 after five, then 1 + τ."""
    method = DAC(tau=10.0, schedule="growing")
    found = [float(method.sharpness(context("ask", 0, t, 0, last=9999, every=10))) for t in (0, 50, 5000)]
    assert found == pytest.approx([1.0, 5.6212, 11.0], abs=1e-4)


def test_whom_it_asks_does_not_depend_on_their_order() -> None:
    state = scored(0, 1, 2, 3)
    for seed in range(10):
        first, second, third = asked(DAC(tau=1.0), state, seed).tolist()
        assert first + second + third == 2
        assert asked(DAC(tau=1.0), state, seed, (3, 0, 1, 2)).tolist() == [third, False, first, second]


def test_everybody_asked_is_fedavg() -> None:
    mine, fedavg = (lived(m, world()) for m in (DAC(sampled=5), FedAvg(adoption="ignore")))
    same(mine[0][:4], fedavg[0][:4])
    for (state, _), (other, _) in zip(mine[1:], fedavg[1:], strict=True):
        same(state[:4], other[:4])
