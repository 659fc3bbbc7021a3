"""PENS: losses on own samples by hand, who is averaged and counted, whom each stage asks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import guarded_mix
from coterie.core.sampling import context
from coterie.core.types import Probe, Reachable, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.pens import PENS
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same


def own() -> Probe:
    """Samples x = 1 called 0, so that a model's loss is ½θ²; one more is padding."""
    return probe([1.0, 50.0], mask=[True, False])


def counted(state: State, selected: list[float], chance: list[float]) -> State:
    return state._replace(rows={"selected": numbers(selected), "chance": numbers(chance)})


def test_the_best_two_of_three_are_averaged_with_the_own() -> None:
    # losses ½·4², ½·1², ½·2²: (9 + 1 + 2)/3
    method = PENS(top=2)
    new, info = guarded_mix(method, ONE, client(method, ONE, 9.0), inbox([4.0, 1.0, -2.0]), own(), moment())
    assert theta(new) == pytest.approx((9 + 1 - 2) / 3, abs=1e-15)
    assert info["distance"].tolist() == pytest.approx([8.0, 0.5, 2.0])
    assert info["weight"].tolist() == [0.0, 1.0, 1.0]
    assert new.rows["selected"].tolist() == [0, 0, 1, 1]
    assert new.rows["chance"].tolist() == pytest.approx([0, 2 / 3, 2 / 3, 2 / 3])


def test_what_is_not_heard_or_cannot_be_measured_is_not_counted() -> None:
    method = PENS(top=1)
    box = inbox([0.0, 1.0, 1e200], heard=[False, True, True])
    new, info = guarded_mix(method, ONE, client(method, ONE, 3.0), box, own(), moment())
    assert theta(new) == 2.0
    assert info["heard"].tolist() == [False, True, False]
    assert new.rows["selected"].tolist() == new.rows["chance"].tolist() == [0, 0, 1, 0]


def asked(method: PENS, state: State, t: int, seed: int = 0, slots: tuple[int, ...] = (1, 2, 3)) -> Tensor:
    reachable = Reachable(torch.tensor(slots), torch.tensor([slot > 0 for slot in slots]))
    return method.ask(ONE, state, reachable, context("ask", seed, t, 0, last=100, every=5))


def test_stage_1_asks_at_random_and_stage_2_those_selected_more_often_than_by_chance() -> None:
    method = PENS(sampled=2, top=1, switch=50)
    state = counted(client(method, ONE, 0.0), [0, 3, 1, 2], [0, 1.5, 1.5, 2 - 1e-9])  # slot 3: rounding
    some = [asked(method, state, t) for t in range(0, 50, 5)]
    assert all(int(one.sum()) == 2 for one in some)
    assert torch.stack(some).any(dim=0).all()
    assert all(asked(method, state, t).tolist() == [True, False, False] for t in range(50, 100, 5))
    # two are liked: one at random of them; none is in reach: one of all
    state = counted(state, [0, 3, 1, 3], [0, 1.5, 1.5, 2])
    found = {tuple(asked(method, state, t).tolist()) for t in range(50, 150, 5)}
    assert found == {(True, False, False), (False, False, True)}
    assert asked(method, state, 50, slots=(2, 0, 0)).tolist() == [True, False, False]


def test_whom_it_asks_does_not_depend_on_their_order() -> None:
    method = PENS(sampled=1)
    state = client(method, ONE, 0.0)
    for seed in range(10):
        first, second, third = asked(method, state, 5, seed).tolist()
        assert first + second + third == 1
        assert asked(method, state, 5, seed, (3, 0, 1, 2)).tolist() == [third, False, first, second]


def test_everybody_asked_and_taken_is_fedavg() -> None:
    mine, fedavg = (lived(m, world()) for m in (PENS(top=5, sampled=5), FedAvg(adoption="ignore")))
    same(mine[0][:4], fedavg[0][:4])
    for (state, _), (other, _) in zip(mine[1:], fedavg[1:], strict=True):
        same(state[:4], other[:4])


def test_a_stage_that_never_comes_is_told() -> None:
    assert PENS(switch=10).unused_options(10) is None
    assert "switch = 11" in str(PENS(switch=11).unused_options(10))
