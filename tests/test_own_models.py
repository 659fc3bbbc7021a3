"""Models and data of the user's own: whole numbers that stay whole, classes as models, and what is told."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.engine.plan import prepare
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.peer.config import PeerConfig
from coterie.peer.learning.client import dry_run
from coterie.replay import replay
from tests.engine.small import experiment
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.node_factory import Peer, peer_config
from tests.waiting import eventually

NETS = "tests.engine.nets"
TOKENS: dict[str, Any] = {"data__set": f"{NETS}:sentences", "model": {"name": f"{NETS}:Tokens"}}


@pytest.mark.parametrize("kind", ["int64", "int32", "uint8"])
def test_whole_numbers_stay_whole_for_a_model_that_takes_them(kind: str) -> None:
    given = {"name": f"{NETS}:sentences", "kind": kind}
    (stack,) = prepare(experiment(**{**TOKENS, "data__set": given})).stacks
    assert stack.data.pool.dtype == torch.int64
    assert stack.data.probe(torch.tensor([0, 1]), 1).size.dtype == torch.float64


def test_whole_numbers_become_floating_point_for_the_others() -> None:
    models = {"grid": {"model": [{"name": f"{NETS}:Tokens"}, "mlp", "linear"]}}
    e = experiment(data__set=f"{NETS}:sentences", data__shift=["concept"], **models)
    dealer = Dealer(None)
    pools = [dealer.federation(world.experiment, 0).pool for world in e.worlds()]
    assert [pool.dtype for pool in pools] == [torch.int64, torch.float32, torch.float32]
    assert pools[1] is pools[2]
    assert torch.equal(pools[0], pools[1])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": {"name": f"{NETS}:Tokens", "vocabulary": 11}}, "whole numbers from 0 to 11: IndexError"),
        ({"data__shift": ["rescale"]}, "rescale shift: the model takes the inputs as whole numbers"),
    ],
)
def test_what_cannot_be_done_with_tokens_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(CoterieError, match=told):
        prepare(experiment(**{**TOKENS, **changes}))
    prepare(experiment(data__set=f"{NETS}:sentences", data__shift=["rescale"]))  # a model that takes numbers


def test_peers_take_tokens_and_replay_agrees(tmp_path: Path) -> None:
    def one(number: int) -> Peer:
        values = peer_config(number, tmp_path, dtype="float64").plain()
        values["model"], values["data"]["set"] = f"{NETS}:Tokens", f"{NETS}:sentences"
        return Peer(network, PeerConfig.parse(values))

    async def main() -> None:
        peers = [one(i) for i in range(2)]
        dry_run(peers[0].node.client)
        async with peers[0].running() as first, peers[1].running() as second:
            await eventually(lambda: first.trainer.finished and second.trainer.finished)

    network = InMemoryNetwork()
    asyncio.run(main())
    found = replay([tmp_path])
    assert all(each.agrees for each in found)
    assert sum(each.mixes for each in found) > 4


SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, inputs, classes, width=4):
        super().__init__()
        self.body, self.head = nn.Linear(*inputs, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


class Boom(Net):
    def forward(self, x):
        return {}["boom"]


class Narrow(Net):
    def forward(self, x):
        return self.body(self.head(x))


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()


class Plain:
    pass


made = Net([2], 3)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_models", raising=False)
    (tmp_path / "mine_models.py").write_text(SOURCE)
    return tmp_path / "mine_models.py"


def test_a_class_is_a_model(mine: Path) -> None:
    (stack,) = prepare(experiment(model={"name": "mine_models:Net", "width": 7})).stacks
    assert stack.task.init_params(0)[0]["body.weight"].shape == (7, 6)
    with pytest.raises(ConfigError, match=r"unknown option 'model.widht' .*Did you mean 'width'"):
        experiment(model={"name": "mine_models:Net", "widht": 7})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Wide", r"must take the shape of a sample and the number of classes first.* got \(width\)"),
        ("Plain", "or a function, or an nn.Module class, got the class Plain"),
        ("made", "or a function, or an nn.Module class, got a Net"),
    ],
)
def test_what_is_no_model_is_told(mine: Path, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        prepare(experiment(model=f"mine_models:{name}"))


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("Boom", '{}["boom"]', "model Boom cannot be run .*: KeyError: 'boom'"),
        (
            "Narrow",
            "self.body(self.head(x))",
            r"layer 'head' \(Linear\) cannot be run .*: RuntimeError: mat1",
        ),
    ],
)
def test_what_a_model_raises_is_told_with_its_line(mine: Path, name: str, line: str, told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        prepare(experiment(model={"name": f"mine_models:{name}"}))
    number = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if line in text)
    assert f"({mine}, line {number})" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("model", r"model.*: expected a name, a class, a function or"),
        ("data", r"data\.set: y must be numbers or words"),
    ],
)
def test_objects_that_do_not_fit_are_told(key: str, told: str) -> None:
    given: Any = (torch.zeros(3, 2), torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(CoterieError, match=told) as caught:
        Experiment(**{key: {"set": given} if key == "data" else given})
    assert "\n" not in str(caught.value)
