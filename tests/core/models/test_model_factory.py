"""Weights that a module brings: kept where the user says so, else a sentence says that they are not used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.errors import ModelError
from coterie.core.models.model_factory import build_task
from coterie.core.models.optim import Sgd
from coterie.core.registry import registered
from coterie.core.sampling import first_model
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_factory import classification
from coterie.engine.plan import prepare
from coterie.replay import replay
from tests.engine.recording import Watcher
from tests.engine.small import experiment, finished
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.lockstep import hosts_of
from tests.peer.node_factory import Peer, peer_config
from tests.plugins.models.pretrained import BODY, pretrained
from tests.threats.world import opened
from tests.trees import same
from tests.waiting import eventually

HERE = "tests.plugins.models.pretrained"
NAMES = ("a", "b", "c")
NOTICE = (
    "model Sequential brings weights of its own (1.weight, 1.bias, 2.weight and 2 more), which are thrown "
    'away; set train.init = "given" to begin from them'
)


def made(name: str, init: str, inputs: tuple[int, ...] = (6,), dtype: torch.dtype = torch.float64) -> Task:
    return build_task(name, {}, inputs, NAMES, classification(), dtype, Sgd(), init)


def weights(parts: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {**parts[0], **parts[1]}


@pytest.mark.parametrize("init", ["shared", "independent", "zeros"])
def test_weights_that_are_thrown_away_are_named(init: str) -> None:
    got = made(f"{HERE}:pretrained", init)
    assert set(got.brought) == set(BODY)
    assert got.notice == NOTICE


@pytest.mark.parametrize(
    ("name", "brought"), [("trained_head", 7), ("constant", 1), ("by_numpy", 0), ("spoiled", 5)]
)
def test_what_counts_as_brought(name: str, brought: int) -> None:
    assert len(made(f"{HERE}:{name}", "shared").brought) == brought


@pytest.mark.parametrize("name", registered("model"))
def test_the_models_here_bring_nothing(name: str) -> None:
    inputs = (6,) if "mlp" in name or name == "linear" else (1, 28, 28)
    options = {"norm": "batch"} if name in ("mlp", "cnn", "resnet") else {}
    got = build_task(name, options, inputs, NAMES, classification(), torch.float32, Sgd(), "shared")
    assert (got.brought, got.notice) == ((), None)


@pytest.mark.parametrize("name", ["tests.engine.nets:attentive", "tests.engine.nets:scaled"])
def test_parts_that_reset_their_own_parts_bring_nothing(name: str) -> None:
    assert made(name, "shared", (8,)).notice is None


def test_given_weights_are_kept_to_the_bit() -> None:
    got = made(f"{HERE}:pretrained", "given")
    want = {
        k: v.to(torch.float64) if v.is_floating_point() else v
        for k, v in pretrained((6,), 3).state_dict().items()
    }
    for seed, client in ((0, 0), (0, 3), (9, 1)):
        found = weights(first_model(got, "given", seed, client))
        same({k: found[k] for k in BODY}, {k: want[k] for k in BODY})
        same(found, weights(first_model(made(f"{HERE}:pretrained", "given"), "given", 5, 5)))  # its head, too
    assert got.notice is None


def test_given_weights_that_are_no_model_in_particular_are_refused() -> None:
    with pytest.raises(
        ModelError, match=r"by_numpy' has other weights each time .*'1\.weight'.* load them from a"
    ):
        made(f"{HERE}:by_numpy", "given")
    assert made(f"{HERE}:spoiled", "given").notice is None  # what is no number is told when it diverges


@pytest.mark.parametrize(("init", "notices"), [("shared", 1), ("given", 0)])
def test_a_run_says_so_once(init: str, notices: int) -> None:
    watcher = Watcher()
    prepare(
        experiment(model=f"{HERE}:pretrained", train__init=init, methods=["Local", "FedAvg"]), None, watcher
    )
    assert watcher.notices == [NOTICE] * notices


def test_all_clients_of_all_runtimes_begin_from_the_given_weights(tmp_path: Path) -> None:
    e = experiment(model=f"{HERE}:pretrained", train__init="given", seeds=[0, 1])
    plan = prepare(e)
    start = plan.stacks[0].initial().whole
    want = pretrained((6,), 3).state_dict()["1.weight"].double()
    assert all(torch.equal(one, want) for one in start.params["1.weight"])
    assert start.buffers["2.num_batches_tracked"].tolist() == [100] * 8
    for host in hosts_of(next(iter(e.worlds()))):
        assert torch.equal(host.local_client.now.state.params["1.weight"], want)
    assert len(finished(plan, tmp_path)) == 2  # and they can be trained


def test_kept_and_thrown_away_in_one_sweep() -> None:
    e = experiment(model=f"{HERE}:pretrained", grid={"train.init": ["given", "shared"]})
    plan = prepare(e)
    first = {
        m.world.experiment.train.init: s.initial().whole.params["1.weight"][m.clients]
        for s in plan.stacks
        for m in s.members
    }
    want = pretrained((6,), 3).state_dict()["1.weight"].double()
    assert torch.equal(first["given"][0], want)
    assert not torch.equal(first["shared"][0], want)
    assert plan.notices() == [NOTICE]


def test_replay_begins_from_the_given_weights(tmp_path: Path) -> None:
    async def main() -> None:
        network = InMemoryNetwork()
        changes: dict[str, Any] = {
            "model": {"name": f"{HERE}:pretrained"},
            "train": {"init": "given", "iterations": 20},
        }
        peers = [Peer(network, peer_config(i, tmp_path, dtype="float64", **changes)) for i in range(2)]
        async with peers[0].running() as one, peers[1].running() as two:
            await eventually(lambda: one.trainer.finished and two.trainer.finished)

    asyncio.run(main())
    found = replay([tmp_path])
    assert [one.peer for one in found] == ["p0", "p1"]
    assert all(one.agrees and one.t == 20 for one in found)


@pytest.mark.parametrize("init", ["shared", "given"])
def test_a_peer_says_so_in_its_log(tmp_path: Path, init: str) -> None:
    with opened(tmp_path, 1, model={"name": f"{HERE}:pretrained"}, train={"init": init}) as world:
        world.start()
        world.until(lambda: world.t("p0") >= 0)
        said = [line["why"] for line in world.said("p0", "weights_not_used")]
        assert said == ([NOTICE] if init == "shared" else [])
        world.leave()
