"""DPFL: both searches by hand, budgets, exchanges without a search, and the special cases."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_mix
from coterie.core.sampling import context
from coterie.core.types import Context, Inbox, Probe, Reachable, State
from coterie.plugins.algorithms.dpfl import DPFL
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client
from tests.trees import same

Search: TypeAlias = Literal["double_greedy", "greedy"]
SEARCHES: tuple[Search, ...] = ("double_greedy", "greedy")
EVERY = 5


def samples(*y: float, held: list[bool] | None = None) -> Probe:
    """Samples x = 1, so that a model's loss on y is ½(θ - y)²."""
    mine = probe([1.0] * len(y))._replace(y=numbers(y))
    return mine if held is None else mine._replace(held=torch.tensor(held))


def moment(seed: int = 0, t: int = EVERY) -> Context:
    return context("mix", seed, t, 0, last=100, every=EVERY)


def chosen(
    method: DPFL, box: Inbox, own: Probe, seed: int = 0, model: float = 0.0
) -> tuple[State, list[float]]:
    state = client(method, ONE, model)
    new, info = guarded_mix(method, ONE, state, box, own, moment(seed))
    return new, info["weight"].tolist()


def test_greedy_by_hand() -> None:
    # y = 1, own 0: ½; with 4: mean 2, ½; with 2: mean 1, 0, the best; with both: mean 2, ½, so 4 stays out
    new, weight = chosen(DPFL(search="greedy"), inbox([4.0, 2.0]), samples(1.0))
    assert weight == [0.0, 1.0]
    assert theta(new) == 1.0
    assert new.rows["member"].tolist() == [0, 0, 1, 0]


def test_double_greedy_by_hand() -> None:
    # y = 1, own 0, heard 2 and 6: F(i) = ½, F(all) = ½(8/3 - 1)².
    # 2 first: a = ½ - 0; without it the mean is 3, worse, so b = 0: joins. Then 6: a = 0, b > 0: leaves.
    # 6 first: with it the mean is 3, so a = 0, without it the mean is 1, so b > 0: leaves; then 2 joins.
    for seed in range(5):
        new, weight = chosen(DPFL(), inbox([2.0, 6.0]), samples(1.0), seed)
        assert weight == [1.0, 0.0]
        assert theta(new) == 1.0


def test_double_greedy_joins_in_proportion() -> None:
    # y = 1, own 0, heard 2 and 3: F(i) = ½, F(all) = 2/9.
    # 2 first: a = ½ - 0, b = 2/9 - ⅛, so it joins with probability 0.837, and then 3 leaves; else 3 joins.
    # 3 first: a = ½ - ⅛, b = 2/9 - 0, so it joins with probability 0.628, and then 2 leaves; else 2 joins.
    # So it is 2 alone with probability (0.837 + 1 - 0.628) / 2 = 0.605, else 3 alone.
    seeds = 200
    found = [chosen(DPFL(), inbox([2.0, 3.0]), samples(1.0), seed)[1] for seed in range(seeds)]
    assert all(sum(weight) == 1 for weight in found)
    assert sum(weight[0] for weight in found) / seeds == pytest.approx(0.605, abs=0.1)  # 3 σ


@pytest.mark.parametrize("search", SEARCHES)
def test_held_out_samples_decide_if_there_are_any(search: Search) -> None:
    method, box = DPFL(search=search), inbox([2.0, -2.0])
    for held, want in (([True, False], [1, 0]), ([False, True], [0, 1]), ([False, False], [1, 0])):
        assert chosen(method, box, samples(3.0, -1.0, held=held))[1] == want


@pytest.mark.parametrize("search", SEARCHES)
def test_who_is_not_heard_or_cannot_be_measured_is_not_chosen(search: Search) -> None:
    box = inbox([1.0, 1.0, 1e200], heard=[False, True, True], slot=[0, 2, 3])
    for seed in range(3):
        new, weight = chosen(DPFL(search=search), box, samples(1.0), seed)
        assert weight == [0, 1, 0]
        assert new.rows["member"].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_budget_is_kept(search: Search, budget: int) -> None:
    new, weight = chosen(DPFL(search=search, budget=budget), inbox([9.0, 9.0, 9.0]), samples(50.0))
    assert sum(weight) == budget - 1
    assert theta(new) == 9 * (budget - 1) / budget


def test_between_searches_the_set_is_asked_and_averaged() -> None:
    method = DPFL(period=2)
    state = client(method, ONE, 0.0)._replace(rows={"member": numbers([0, 1, 0, 0])})
    reachable = Reachable(torch.tensor([1, 2, 3, 0]), torch.tensor([True, True, True, False]))
    for t, want in (
        (5, [True] * 3),
        (10, [True, False, False]),
        (11, [True, False, False]),
        (15, [True] * 3),
    ):
        assert method.ask(ONE, state, reachable, moment(t=t)).tolist() == [*want, False]
    # -4 is a member and stays one, though it does harm; 1 would do good
    box = inbox([-4.0, 1.0])
    new, info = guarded_mix(method, ONE, state, box, samples(1.0), moment(t=10))
    assert info["weight"].tolist() == [1, 0]
    assert theta(new) == -2.0
    assert new.rows["member"].tolist() == [0, 1, 0, 0]
    new, _ = guarded_mix(method, ONE, state, box, samples(1.0), moment(t=15))
    assert theta(new) == 0.5
    assert new.rows["member"].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("adoption", ["ignore", "mix"])
def test_alone_it_is_local(search: Search, adoption: Adoption) -> None:
    mine = lived(DPFL(search=search, budget=1, adoption=adoption), world())
    for (state, _), (other, _) in zip(mine[1:], lived(Local(), world())[1:], strict=True):
        same(state[:3], other[:3])


@pytest.mark.parametrize("search", SEARCHES)
def test_if_everybody_does_good_it_is_fedavg(search: Search) -> None:
    box = inbox([7.0, 9.1, 8.3], heard=[True, True, False])
    for seed in range(3):
        new, _ = chosen(DPFL(search=search), box, samples(50.0), seed, model=0.3)
        want, _ = guarded_mix(FedAvg(), ONE, client(FedAvg(), ONE, 0.3), box, samples(50.0), moment())
        same(new.params, want.params)
