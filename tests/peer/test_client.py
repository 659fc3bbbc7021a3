"""One bare client: what it draws, what it forgets, what it refuses to start with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from coterie.core.errors import ConfigError, ModelError
from coterie.core.types import State
from coterie.engine.batches import StackedData
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.peer.learning.architectures import Architectures
from coterie.peer.learning.client import Client, ClientData, LocalClient, ReceivedMessage, dry_run
from coterie.peer.transport.base import Version
from coterie.replay.twin import Twin
from tests.engine.small import hard
from tests.peer.node_factory import peer_config
from tests.trees import same

E = hard(methods=["KD-PDFL"])


def client(number: int = 2, probe: int | None = None, experiment: Experiment = E) -> Client:
    (world,) = experiment.worlds()
    federation = Dealer(None).federation(world.experiment, 0)
    among = Architectures.dealt(world, federation, number)
    made = Client.of(world, ClientData.of(federation, number, torch.float64), among, number, number)
    return dataclasses.replace(made, probe_size=probe)


@pytest.mark.parametrize("probe", [None, 5])
def test_it_draws_what_the_simulator_draws(probe: int | None) -> None:
    one = client(2, probe)
    federation = Dealer(None).federation(E, 0)
    feed = StackedData.of([federation], [0], probe or "all", torch.device("cpu"), torch.float64)
    local_client = LocalClient(one)
    for t in (1, 63, 64, 65, 200):
        rows, key = local_client._draws(t)
        ts, at = torch.tensor([t]), slice(2, 3)
        x, y = feed.samples(feed.train, feed.batch_positions(ts, at, one.batch)[0, 0])
        same((one.own.train.x[rows], one.own.train.y[rows]), (x, y))
        assert key == feed.keys(ts, at)[0, 0]
    mine, theirs = one.draw_probe(7), feed.probe(torch.tensor([2]), 7)
    real = theirs.mask[0]
    same((mine.x, mine.y, mine.size), (theirs.x[0][real], theirs.y[0][real], theirs.size[0]))


def test_versions_count_changes_and_go_on_after_a_restart() -> None:
    local_client = LocalClient(client(), incarnation=3)
    assert local_client.now.version == Version(3, 0)
    local_client.local()
    local_client.mix([ReceivedMessage(1, local_client.offer())])
    local_client.idle()
    local_client.adopt(ReceivedMessage(1, local_client.offer()))
    assert (local_client.now.version, local_client.now.t) == (Version(3, 3), 2)
    before = local_client.now
    again = LocalClient(client(), incarnation=4, at=before)
    assert again.now == before._replace(version=Version(4, 3))
    assert local_client.local() == again.local()
    same(again.now.state, local_client.now.state)
    assert before.version == Version(3, 3)  # a snapshot never changes


def test_an_entry_of_the_row_can_be_given_away() -> None:
    local_client = LocalClient(client())
    first = local_client.now.state.rows["w"]
    local_client.local()
    local_client.mix([ReceivedMessage(j, local_client.offer()) for j in (0, 1, 3)])
    learned = local_client.now.state.rows["w"]
    assert (learned[[0, 1, 3]] != first[[0, 1, 3]]).all()
    local_client.reset_slot(1)
    now = local_client.now.state.rows["w"]
    assert now[1] == first[1]
    assert torch.equal(now[[0, 2, 3, 4, 5]], learned[[0, 2, 3, 4, 5]])
    assert local_client.now.version.event == 3


def test_only_rows_are_forgotten_whatever_the_shapes_of_the_rest() -> None:
    """With as many hidden units as slots, a second model in memory looks like one entry per neighbour."""
    e = hard(methods={"mine": {"name": "tests.engine.nets:SecondModel"}}, model__hidden=[6])
    one = client(experiment=e)
    local_client = LocalClient(one)
    local_client.local()
    local_client.mix([ReceivedMessage(j, local_client.offer()) for j in (0, 1, 3)])
    before = local_client.now.state
    assert {len(v) for v in before.memory.values()} > {len(before.rows["w"])} == {6}
    (world,) = e.worlds()
    twin = Twin(one, Dealer(None).federation(world.experiment, 0), 2)
    twin.state = State(*({k: v[None] for k, v in part.items()} for part in before))
    local_client.reset_slot(1)
    twin.reset_slot(1)
    after = local_client.now.state
    same(after._replace(rows={}), before._replace(rows={}))
    assert after.rows["w"][1] == one.first().rows["w"][1] != before.rows["w"][1]
    same(State(*({k: v[0] for k, v in part.items()} for part in twin.state)), after)


def test_no_reply_changes_nothing() -> None:
    local_client = LocalClient(client())
    before = local_client.now.state
    local_client.mix([])
    same(local_client.now.state, before)


def test_accuracy_is_a_share_and_none_without_samples(tmp_path: Path) -> None:
    one = peer_config(1, tmp_path, data={"validation": 0.0})
    peer = one.client_of("p1", one.federation(None))
    found = peer.measure(peer.first(), 0)
    assert found.keys() == {"personal", "global", "validation"}
    assert found["validation"] is None
    assert isinstance(found["personal"], float)
    assert 0 <= found["personal"] <= 1
    assert (found["personal"] * len(peer.own.personal.y)) % 1 == pytest.approx(0, abs=1e-9)


class TooNarrow(torch.nn.Module):
    """One output, whatever the classes."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.head = torch.nn.Linear(features, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(x)
        return out


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda inputs, classes: TooNarrow(inputs[0]), r"puts out \(2, 1\) for 2 samples, .* need \(2, 3\)"),
        (
            lambda inputs, classes: TooNarrow(inputs[0] + 1),
            r"cannot be trained by KDPDFL on samples of shape \[6\]",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_told_before_the_start(
    tmp_path: Path, model: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.peer.test_client.own_model", model)
    one = peer_config(0, tmp_path, model={"name": "tests.peer.test_client:made"})
    with pytest.raises(ModelError, match=message):
        dry_run(one.client_of("p0", one.federation(None)))


own_model = None


def made(inputs: tuple[int, ...], classes: int, hidden: object = None) -> torch.nn.Module:
    assert callable(own_model)
    built: torch.nn.Module = own_model(inputs, classes)
    return built


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("init", "method Method: init: optim: 'velocity' is new"),
        ("no loss", "method Method: local must report the 'loss', got nothing"),
        ("offer", "method Method: offer must give a dict of tensors, got list"),
        ("missing", "method Method: mix: params: '1.weight' is missing"),
        ("one message", "method Method: mix of Method failed on 2 messages: RuntimeError: shape '["),
        ("scalar", "mix must report 'weight' of shape [2], one number for each message, got []"),
    ],
)
def test_a_method_that_does_not_keep_the_contract_is_told_before_the_start(
    tmp_path: Path, how: str, words: str
) -> None:
    one = peer_config(0, tmp_path, method={"name": "tests.engine.wrong:Method", "how": how})
    with pytest.raises(ConfigError) as raised:
        dry_run(one.client_of("p0", one.federation(None)))
    assert words in str(raised.value)


def test_a_model_that_fits_is_tried_without_a_trace(tmp_path: Path) -> None:
    one = peer_config(0, tmp_path)
    peer = one.client_of("p0", one.federation(None))
    before = peer.first()
    dry_run(peer)
    same(peer.first(), before)
