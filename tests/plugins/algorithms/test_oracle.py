"""Oracle and Pooled by hand: what only an experiment knows."""

from __future__ import annotations

import pytest
import torch

from coterie.core.algorithm import Adoption
from coterie.core.errors import ConfigError
from coterie.core.types import Inbox, State
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.peer.config import PeerConfig
from coterie.plugins.algorithms.oracle import GROUP, Oracle
from tests.plugins.algorithms.scalars import numbers, probe
from tests.plugins.algorithms.squares import ONE, client, moment, values


def of_group(state: State, group: float) -> State:
    return state._replace(memory={GROUP: numbers([group])})


def inbox(models: list[float], groups: list[float]) -> Inbox:
    messages = {"0.weight": numbers(models).view(-1, 1, 1), GROUP: numbers(groups).view(-1, 1)}
    return Inbox(messages, torch.ones(len(models), dtype=torch.bool), torch.arange(len(models)))


def test_a_star_averages_with_its_own_group_alone() -> None:
    """(1 + 3) / 2 = 2: the 100 belongs to the other group."""
    method = Oracle()
    star = of_group(client(method, ONE, 1.0), 1.0)
    new, info = method.mix(ONE, star, inbox([3.0, 100.0], [1.0, 0.0]), probe(), moment())
    assert values(new.params) == [2.0]
    assert info["weight"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("adoption", "alike"), [("replace", 5.0), ("average", 3.0), ("mix", 3.0), ("ignore", 1.0)]
)
def test_a_neighbour_listens_to_its_own_group_alone(adoption: Adoption, alike: float) -> None:
    method = Oracle(adoption=adoption)
    neighbour = of_group(client(method, ONE, 1.0), 1.0)
    same, _ = method.adopt(ONE, neighbour, inbox([5.0], [1.0]), probe(), moment())
    other, _ = method.adopt(ONE, neighbour, inbox([5.0], [0.0]), probe(), moment())
    assert (values(same.params), values(other.params)) == ([alike], [1.0])


def test_everybody_has_the_samples_of_all_in_pooled_learning() -> None:
    e = Experiment.parse(
        {"methods": ["Local", "Pooled"], "data": {"clients": 4, "sizes": [5, 9]}, "seeds": [3]}
    )
    dealer = Dealer(None)
    alone, pooled = (dealer.of(world) for world in e.worlds())
    total = int(alone.train.count.sum())
    assert pooled.train.count.tolist() == [total] * 4
    for part in ("index", "label"):
        assert torch.equal(getattr(pooled.train, part), getattr(alone.train, part).repeat(4))
    assert pooled.personal is alone.personal
    assert dealer.of(e.worlds()[1]) is pooled


@pytest.mark.parametrize("method", ["Oracle", "Pooled"])
def test_a_peer_with_data_of_its_own_refuses(method: str) -> None:
    config = PeerConfig.parse({"address": "127.0.0.1:7440", "method": method})
    with pytest.raises(ConfigError, match=f"'{method}' needs what only an experiment knows"):
        config.federation(None)
