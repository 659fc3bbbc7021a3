"""Gossip: means and Metropolis weights by hand, sums that are kept; uniform, it is FedAvg."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.types import Inbox, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.gossip import DEGREE, Gossip
from tests.conformance import lived, world
from tests.plugins.algorithms import scalars
from tests.plugins.algorithms.scalars import numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same

METROPOLIS = Gossip(weights="metropolis")


def inbox(models: list[float], degrees: list[float], heard: list[bool] | None = None) -> Inbox:
    """Models with the degrees of their senders."""
    box = scalars.inbox(models, heard or ())
    return box._replace(messages={**box.messages, DEGREE: numbers(degrees)[:, None]})


def of_degree(model: float, degree: float) -> State:
    return client(METROPOLIS, ONE, model)._replace(memory={DEGREE: numbers([degree])})


def test_the_mean_by_hand() -> None:
    # (1 + 3 + 5)/3
    method = Gossip()
    new, _ = guarded_mix(method, ONE, client(method, ONE, 1.0), scalars.inbox([3.0, 5.0]), probe(), moment())
    assert theta(new) == pytest.approx(3.0, abs=1e-15)


def test_a_pair_meets_in_the_middle_and_keeps_its_sum() -> None:
    # (1, 3): the star takes the mean, the neighbour the star's model
    method = Gossip(adoption="replace")
    star, neighbour = (client(method, ONE, model) for model in (1.0, 3.0))
    star, _ = guarded_mix(method, ONE, star, scalars.inbox([theta(neighbour)]), probe(), moment())
    neighbour, _ = guarded_adopt(method, ONE, neighbour, scalars.inbox([theta(star)]), probe(), moment())
    assert (theta(star), theta(neighbour)) == (2.0, 2.0)


def test_metropolis_weights_by_hand() -> None:
    # two are heard: 1/(1 + max(2, 1)) = 1/3, 1/(1 + max(2, 4)) = 1/5, own 1 - 8/15; 7/15·1 + 1/3·3 + 1/5·6
    box = inbox([3.0, 0.0, 6.0], [1.0, 9.0, 4.0], [True, False, True])
    new, info = guarded_mix(METROPOLIS, ONE, of_degree(1.0, 7.0), box, probe(), moment())
    assert theta(new) == pytest.approx(7 / 15 + 1 + 6 / 5, abs=1e-15)
    assert info["weight"].tolist() == pytest.approx([1 / 3, 0, 1 / 5], abs=1e-15)
    assert new.memory[DEGREE].tolist() == [2.0]
    assert METROPOLIS.offer(ONE, new, probe(), moment())[DEGREE].tolist() == [2.0]


@given(st.lists(st.floats(-100, 100), min_size=4, max_size=4))
def test_metropolis_weights_keep_the_sum_of_all_models(models: list[float]) -> None:
    """On a graph of four with degrees 1, 2, 3, 2, where all are stars at once."""
    links = {0: [2], 1: [2, 3], 2: [0, 1, 3], 3: [1, 2]}
    clients = [of_degree(model, len(links[i])) for i, model in enumerate(models)]
    after = []
    for i, own in enumerate(clients):
        box = inbox([models[j] for j in links[i]], [float(len(links[j])) for j in links[i]])
        after.append(theta(guarded_mix(METROPOLIS, ONE, own, box, probe(), moment())[0]))
    assert sum(after) == pytest.approx(sum(models), abs=1e-10)
    assert min(models) - 1e-10 <= min(after) <= max(after) <= max(models) + 1e-10


@pytest.mark.parametrize("lie", [-1e9, 1e9])
def test_a_degree_that_is_a_lie_gains_no_weight(lie: float) -> None:
    _, info = guarded_mix(METROPOLIS, ONE, of_degree(1.0, 0.0), inbox([3.0], [lie]), probe(), moment())
    assert 0 <= float(info["weight"]) <= 0.5


def test_a_broadcast_does_not_change_the_degree() -> None:
    method = Gossip(weights="metropolis", adoption="mix")
    told, _ = guarded_adopt(method, ONE, of_degree(1.0, 5.0), inbox([3.0], [1.0]), probe(), moment())
    assert (theta(told), told.memory[DEGREE].tolist()) == (2.0, [5.0])


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_uniform_it_is_fedavg(adoption: Adoption) -> None:
    same(lived(Gossip(adoption=adoption), world()), lived(FedAvg(adoption=adoption), world()))


def test_equal_degrees_are_uniform_weights() -> None:
    # everybody hears three, and all know it: 1/(1 + 3)
    new, _ = guarded_mix(
        METROPOLIS, ONE, of_degree(4.0, 3.0), inbox([1.0, 2.0, 3.0], [3.0] * 3), probe(), moment()
    )
    plain, _ = guarded_mix(
        FedAvg(), ONE, client(FedAvg(), ONE, 4.0), scalars.inbox([1.0, 2.0, 3.0]), probe(), moment()
    )
    assert torch.equal(new.params["0.weight"], plain.params["0.weight"])
