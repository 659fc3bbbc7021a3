"""Which client has which architecture: by shares, by numbers and groups, by a function of the user's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from coterie.core.errors import ConfigError
from coterie.experiment import Experiment
from coterie.federation import Dealer, architecture_names, architectures

DEALER = Dealer(None)


def dealt(model: Any, clients: int = 10, seed: int = 0, **data: Any) -> list[int]:
    e = Experiment().replace(model=model, data__clients=clients, seeds=[seed], **data)
    world = e.worlds()[0]
    return architectures(world, DEALER.of(world)).tolist()


def share(model: Any, **options: Any) -> list[int]:
    found = dealt(model, **options)
    return [found.count(place) for place in range(max(found) + 1)]


def test_one_model_is_for_all() -> None:
    assert dealt("mlp", clients=3) == [0, 0, 0]


@pytest.mark.parametrize(
    ("shares", "clients", "counts"),
    [
        ([None, None], 10, [5, 5]),
        ([None, None, None], 20, [7, 6, 7]),
        ([0.3, 0.7], 10, [3, 7]),
        ([0.25, 0.25, 0.5], 6, [2, 1, 3]),
    ],
)
def test_shares(shares: list[float | None], clients: int, counts: list[int]) -> None:
    model = [{"name": "mlp", "hidden": [k + 1]} for k in range(len(shares))]
    given = [one | ({} if s is None else {"share": s}) for one, s in zip(model, shares, strict=True)]
    assert share(given, clients=clients) == counts


def test_who_gets_which_is_drawn_by_the_seed_alone() -> None:
    two = ["mlp", "cnn"]
    assert dealt(two) == dealt(two, train__lr=0.5, data__sizes=[20, 30])
    assert len({tuple(dealt(two, seed=seed)) for seed in range(5)}) > 1


def test_numbers_and_groups_come_first_and_shares_deal_the_rest() -> None:
    found = dealt([{"name": "mlp", "clients": [0, 3]}, "cnn", {"name": "linear", "clients": [5]}], clients=6)
    assert found == [0, 1, 1, 0, 1, 2]
    e = Experiment().replace(
        model=[{"name": "mlp", "groups": [1]}, "cnn"], data__shift=[{"name": "rotate", "groups": 2}]
    )
    world = e.worlds()[0]
    federation = DEALER.of(world)
    assert architectures(world, federation).tolist() == (1 - federation.group).tolist()


def by_number(client: int, group: int, samples: int) -> int:
    assert group == 0
    assert samples >= 15
    return int(client > 1)


def wrong(client: int, group: int, samples: int) -> int:
    return 2


def test_a_function_of_the_users_own() -> None:
    mine = {"among": ["mlp", "cnn"], "deal": "tests.federation.test_architectures:by_number"}
    assert dealt(mine, clients=4) == [0, 0, 1, 1]
    with pytest.raises(ConfigError, match="the place of a model in the list, got 2 for client 0"):
        dealt({**mine, "deal": "tests.federation.test_architectures:wrong"})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ([], "model: the list is empty"),
        (
            [{"name": "mlp", "share": 0.5}, {"name": "cnn", "share": 0.6}],
            r"shares must sum to one, .* = 1\.1",
        ),
        ([{"name": "mlp", "share": 0.5}, "cnn"], "'cnn' has no share, but others have"),
        ([{"name": "mlp", "share": 0.5, "clients": [1]}], "'mlp' has a share and clients of its own"),
        ([{"name": "mlp", "groups": [0], "clients": [1]}], "'mlp' has both groups and clients"),
        ({"among": [{"name": "mlp", "share": 1.0}], "deal": "a:b"}, "says who has it, and so does deal"),
        ([{"name": "mlp", "clients": [0, 1]}], "nobody deals a model to client 2"),
        ([{"name": "mlp", "clients": [10]}, "cnn"], "'mlp' goes to client 10, but there are 10"),
        ([{"name": "mlp", "groups": [2]}, "cnn"], "'mlp' goes to group 2, but the clients' groups are 0"),
        ([{"name": "mlp", "clients": [1]}, {"name": "cnn", "clients": [1]}], "client 1 has a model already"),
        (
            [{"name": "mlp", "share": 0.01}, {"name": "cnn", "share": 0.99}],
            "'mlp' goes to none of 10 clients",
        ),
        ({"among": ["mlp"], "deal": "mine"}, "deal must name a function of your own"),
        ([{"name": "mlp", "wide": 3}], "'model.wide' of model 'mlp'; known: dropout, hidden, norm"),
    ],
)
def test_mistakes(model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dealt(model)


def test_names_tell_architectures_apart() -> None:
    e = Experiment().replace(model=[{"name": "mlp", "hidden": [3]}, "mlp", "cnn"])
    assert architecture_names(e.architectures) == ["mlp hidden=[3]", "mlp", "cnn"]


def test_a_grid_over_models_and_mixtures() -> None:
    mixed = [{"name": "mlp", "share": 0.2}, {"name": "cnn", "share": 0.8}]
    e = Experiment().replace(methods=["Local"], seeds=1, grid={"model": ["mlp", mixed]})
    assert [w.name for w in e.worlds()] == ["Local [model=mlp]", "Local [model=mlp 0.2 + cnn 0.8]"]
    assert Experiment.parse(e.plain()).worlds()[1].experiment.model == e.replace(model=mixed, grid={}).model


def test_some_clients_of_a_split() -> None:
    world = Experiment().replace(data__clients=5).worlds()[0]
    whole = DEALER.of(world)
    some = whole.of(torch.tensor([3, 1]))
    for name in ("train", "validation", "personal", "uniform"):
        split, part = getattr(whole, name), getattr(some, name)
        rows, kept = (torch.split(s.index, s.count.tolist()) for s in (split, part))
        assert [r.tolist() for r in kept] == [rows[3].tolist(), rows[1].tolist()]
    assert some.pool is whole.pool
