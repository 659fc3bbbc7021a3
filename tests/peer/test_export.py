"""A trained model out of a real peer: the one its method says is for use, whole, also while it learns."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from coterie import __version__
from coterie.core.errors import CoterieError
from coterie.peer.config import PeerConfig
from coterie.peer.export import trained_model
from coterie.peer.learning.client import Client
from coterie.peer.persistence import checkpoint
from coterie.storage import model_file
from coterie.storage import tensors as files
from tests.disk import full_after
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.node_factory import Peer, peer_config
from tests.peer.test_own_data import SCALED, own
from tests.waiting import eventually


def lived(folder: Path, **changes: Any) -> Client:
    """One peer's life to its last iteration, alone; what it was."""

    async def main() -> Client:
        async with Peer(InMemoryNetwork(), peer_config(0, folder, **changes)).running() as node:
            await eventually(lambda: node.trainer.finished)
            return node.client

    return asyncio.run(main())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "APFL"},  # whose model for use is neither of the two that it carries
        {"model": "tests.engine.nets:batch_norm", "dtype": "float64"},
        {"model": "tests.engine.nets:dropout", "method": "Ditto"},
        {
            "model": "tests.engine.nets:Tokens",
            "data": {"set": "tests.engine.nets:sentences"},
        },
    ],
    ids=lambda changes: " ".join(map(str, changes.values())) or "KD-PDFL",
)
def test_the_file_scores_as_the_peer_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    client = lived(tmp_path, **changes)
    state = tmp_path / "p0"
    card, tensors = trained_model(state)
    out = tmp_path / "use" / "model.safetensors"
    model_file.save(out, card, tensors)
    x, y = client.own.personal.x, client.own.personal.y
    facts, found = checkpoint.read(state / checkpoint.MODEL)
    saved = checkpoint.state_of(found)
    params, buffers = client.algorithm.model(saved)
    want = client.task.logits(saved._replace(params=params, buffers=buffers), x)
    model = model_file.load_model(out, own=card.architecture)
    with torch.no_grad():
        torch.testing.assert_close(model(x), want, rtol=0, atol=1e-6)
        accuracy = float((model(x).argmax(dim=1) == y).double().mean())
    assert card.score == pytest.approx(accuracy)
    assert (card.tested, card.iteration, card.seed, card.coterie) == (10, 60, 0, __version__)
    assert (card.client, card.run, card.federation) == ("p0", "main", "wards")
    assert card.version == tuple(facts["version"])


def test_the_guides_three_lines_of_plain_pytorch(tmp_path: Path) -> None:
    lived(tmp_path)
    model_file.save(tmp_path / "model.safetensors", *trained_model(tmp_path / "p0"))
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))


def test_inputs_and_classes_are_those_of_the_peers_own_data(tmp_path: Path) -> None:
    source = {**SCALED, "classes": ["x", "y"]}
    plain = own(40, tmp_path, train={"iterations": 20, "personalize": 0}, state=tmp_path / "state").plain()
    settings = PeerConfig.parse({**plain, "data": {**plain["data"], "set": source}})

    async def main() -> None:
        async with Peer(InMemoryNetwork(), settings, name="alpha").running() as node:
            await eventually(lambda: node.trainer.finished)

    asyncio.run(main())
    card, _ = trained_model(tmp_path / "state")
    assert (card.columns, card.classes, card.transform) == (("a", "b"), ("x", "y"), "standard")
    assert (card.architecture, card.inputs, card.input_type) == ("mlp", (2,), "float32")
    assert card.scaling is not None
    assert card.scaling.mean.shape == (2,)
    assert card.client == "alpha"


def test_it_is_whole_while_the_peer_saves_without_pause(tmp_path: Path) -> None:
    """Each export is of one saved state: every number in it is the iteration that its card names."""
    lived(tmp_path, method="FedAvg")
    folder = checkpoint.StateFolder.open(tmp_path / "p0")
    saved = folder.load("p0", "main", checkpoint.state_of(checkpoint.read(folder.path)[1]))
    assert saved is not None
    stop = threading.Event()

    def save(t: int) -> None:
        params = {k: torch.full_like(v, float(t)) for k, v in saved.now.state.params.items()}
        now = saved.now._replace(t=t, state=saved.now.state._replace(params=params))
        folder.save(saved._replace(now=now))

    def save_on() -> None:
        t = 0
        while not stop.is_set():
            save(t := t + 1)

    save(0)
    save(0)
    thread = threading.Thread(target=save_on)
    thread.start()
    try:
        seen = set()
        for _ in range(300):
            card, tensors = trained_model(tmp_path / "p0")
            assert {v for tensor in tensors.values() for v in tensor.flatten().tolist()} == {card.iteration}
            seen.add(card.iteration)
    finally:
        stop.set()
        thread.join()
        folder.close()
    assert len(seen) > 10


def forget_origin(path: Path) -> None:
    facts, found = checkpoint.read(path)
    files.save(path, checkpoint.FORMAT, {k: v for k, v in facts.items() if k != "origin"}, found)


def flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 4
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda p: p.unlink(), "has not saved a model yet; it does every `save` seconds"),
        (flip, r"is damaged .*; the one saved before it may be whole: coterie peer export .*former"),
        (lambda p: save_file({"w": torch.ones(1)}, p), "not a saved peer of this version"),
        (forget_origin, "saved by an earlier version of coterie.*; start the peer with this version"),
    ],
    ids=["none yet", "damaged", "another file", "an earlier version"],
)
def test_what_cannot_be_exported_is_told_with_the_remedy(tmp_path: Path, spoil: Any, says: str) -> None:
    lived(tmp_path)
    path = tmp_path / "p0" / checkpoint.MODEL
    (tmp_path / "p0" / checkpoint.FORMER).unlink(missing_ok=True)
    spoil(path)
    with pytest.raises(CoterieError, match=says):
        trained_model(tmp_path / "p0")


def test_a_method_that_predicts_with_more_than_a_model_is_told(tmp_path: Path) -> None:
    lived(tmp_path, method="kNN-Per")
    with pytest.raises(CoterieError, match="kNN-Per predicts with more than a model"):
        trained_model(tmp_path / "p0")


@pytest.mark.parametrize(
    ("where", "says"),
    [("nowhere", "there is no such file or folder"), (".", "is not the state folder of a peer")],
)
def test_what_is_no_state_folder(tmp_path: Path, where: str, says: str) -> None:
    with pytest.raises(CoterieError, match=says):
        trained_model(tmp_path / where)


def test_the_former_model_is_named_and_taken(tmp_path: Path) -> None:
    lived(tmp_path, save=0.01)
    state = tmp_path / "p0"
    former, _ = trained_model(state / checkpoint.FORMER)
    last, _ = trained_model(state)
    assert former.iteration <= last.iteration == 60
    (state / checkpoint.MODEL).unlink()  # as between the two renames of a replacement
    assert trained_model(state)[0] == former


def test_a_model_that_cannot_be_used_or_written_leaves_what_was_there(tmp_path: Path) -> None:
    lived(tmp_path)
    card, tensors = trained_model(tmp_path / "p0")
    out = tmp_path / "model.safetensors"
    model_file.save(out, card, tensors)
    before = out.read_bytes()
    with pytest.raises(CoterieError, match="not finite"):
        model_file.save(out, card, {k: v * math.nan for k, v in tensors.items()})
    with full_after(64), pytest.raises(CoterieError):
        model_file.save(out, card, tensors)
    assert out.read_bytes() == before
