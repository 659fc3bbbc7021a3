"""There is always one whole state on disk, of this peer and this model, held by one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from coterie.core.types import State
from coterie.peer.errors import PeerError
from coterie.peer.learning.client import Snapshot
from coterie.peer.persistence.checkpoint import FORMAT, Checkpoint, Closed, StateFolder, tensors
from coterie.peer.transport.base import Version
from coterie.storage.atomic import temporary_path
from tests.disk import full_after
from tests.trees import same


def state(value: float = 1.0, width: int = 3) -> State:
    params = {"w": torch.full((2, width), value), "b": torch.arange(2.0)}
    return State(params, {"steps": torch.tensor(7)}, {}, {}, {"w": torch.ones(4)})


def saved(value: float = 1.0, event: int = 5) -> Checkpoint:
    return Checkpoint("p0", "main", {"p1": 3}, Snapshot(Version(2, event), 4, state(value)))


def test_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    store = StateFolder.open(tmp_path / "state")
    assert store.load("p0", "main", state()) is None
    store.save(saved(0.1))
    found = store.load("p0", "main", state())
    assert found is not None
    assert store.path.stat().st_mode & 0o077 == 0
    assert found[:3] == ("p0", "main", {"p1": 3})
    assert (found.now.version, found.now.t) == (Version(2, 5), 4)
    same(found.now.state, state(0.1))
    assert sorted(tensors(state())) == ["buffers/steps", "params/b", "params/w", "rows/w"]
    store.close()


def test_what_a_kill_left_beside_it_is_never_read(tmp_path: Path) -> None:
    """A kill between any two writes: before the rename the old state holds, after it the new one."""
    store = StateFolder.open(tmp_path)
    store.save(saved(1.0, event=5))
    whole = store.path.read_bytes()
    store.save(saved(2.0, event=6))
    new = store.path.read_bytes()
    for cut in (0, 1, 8, 100, len(new) - 1, len(new)):
        store.path.write_bytes(whole)
        temporary_path(store.path).write_bytes(new[:cut])
        found = store.load("p0", "main", state())
        assert found is not None
        assert found.now.version == Version(2, 5)
        assert not temporary_path(store.path).exists()
    store.close()


def test_a_full_disk_leaves_the_state_before(tmp_path: Path) -> None:
    store = StateFolder.open(tmp_path)
    store.save(saved(1.0))
    with full_after(64), pytest.raises(PeerError, match="learning goes on in memory; make room on the disk"):
        store.save(saved(2.0))
    found = store.load("p0", "main", state())
    assert found is not None
    assert float(found.now.state.params["w"][0, 0]) == 1.0
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "model.safetensors"]
    store.close()


def test_one_folder_one_process(tmp_path: Path) -> None:
    store = StateFolder.open(tmp_path)
    with pytest.raises(PeerError, match="is in use by another process"):
        StateFolder.open(tmp_path)
    store.close()
    StateFolder.open(tmp_path).close()


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PeerError, match="cannot use the state folder"):
        StateFolder.open(tmp_path / "file" / "state")


@pytest.mark.parametrize(
    ("peer", "run", "like", "message"),
    [
        ("p1", "main", state(), "belongs to the peer 'p0', not to 'p1'"),
        ("p0", "trial", state(), "belongs to the run 'main', not to 'trial'"),
        ("p0", "main", state(width=4), r"'params/w' should be float32 \[2, 4\], but is float32 \[2, 3\]"),
        ("p0", "main", state()._replace(rows={}), r"'rows/w' should be absent, but is float32 \[4\]"),
    ],
)
def test_another_peer_run_or_model_is_named(
    tmp_path: Path, peer: str, run: str, like: State, message: str
) -> None:
    store = StateFolder.open(tmp_path)
    store.save(saved())
    with pytest.raises(PeerError, match=message):
        store.load(peer, run, like)
    store.close()


def load(folder: Path) -> Checkpoint | None:
    store = StateFolder.open(folder)
    try:
        return store.load("p0", "main", state())
    finally:
        store.close()


def test_damage_is_told(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    remedy = rf"is damaged .*; bring back a copy, or move model\*\.safetensors away from {tmp_path} to let"
    file.write_bytes(b"\x80\x04pickle or anything")
    with pytest.raises(PeerError, match=remedy):
        load(tmp_path)
    save_file({"a": torch.ones(1)}, file)
    with pytest.raises(PeerError, match=r"is not a saved peer of this version.*; run the version of coterie"):
        load(tmp_path)
    save_file({"a": torch.ones(1)}, file, {"format": FORMAT, "facts": json.dumps([])[:1]})
    with pytest.raises(PeerError, match=remedy):
        load(tmp_path)


def keep(folder: Path, *events: int, last: Checkpoint | None = None) -> Path:
    """A folder in which states were saved, one after the other."""
    store = StateFolder.open(folder)
    for event in events:
        store.save(saved(float(event), event))
    if last:
        store.save(last)
    store.close()
    return store.path


def flip(file: Path, at: int) -> None:
    """One bit of the file turned over."""
    whole = bytearray(file.read_bytes())
    whole[at] ^= 4
    file.write_bytes(whole)


@pytest.mark.parametrize("part", ["values", "slots", "params/w"])
def test_a_flipped_bit_costs_no_more_than_one_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    file = keep(tmp_path, 5, 6)
    flip(file, -1 if part == "values" else file.read_bytes().index(part.encode()) + 2)
    found = load(tmp_path)
    assert found is not None
    assert found.now.version == Version(2, 5)
    (line,) = caplog.records
    assert f"{file} is damaged" in vars(line)["why"]
    assert "it is now model.damaged.safetensors, and the one saved before it is used" in vars(line)["why"]
    caplog.clear()
    again = load(tmp_path)  # killed before it saved anything
    assert again is not None
    assert again.now.version == Version(2, 5)
    assert not caplog.records
    keep(tmp_path, 7)
    assert sorted(p.name for p in tmp_path.glob("model*")) == [
        "model.damaged.safetensors",
        "model.former.safetensors",
        "model.safetensors",
    ]


def test_with_nothing_sound_left_the_remedy_is_told(tmp_path: Path) -> None:
    file = keep(tmp_path, 5, 6)
    for one in tmp_path.glob("model*"):
        flip(one, -1)
    with pytest.raises(
        PeerError, match=rf"{file} is damaged \(its content does not .*; bring back a copy, or move"
    ):
        load(tmp_path)
    for one in tmp_path.glob("model*.safetensors"):
        one.unlink()
    assert load(tmp_path) is None


def test_killed_between_the_two_renames(tmp_path: Path) -> None:
    file = keep(tmp_path, 5, 6)
    file.unlink()
    found = load(tmp_path)
    assert found is not None
    assert found.now.version == Version(2, 5)


def test_a_file_of_another_peer_is_no_damage(tmp_path: Path) -> None:
    keep(tmp_path, 5, last=saved()._replace(peer="p1"))
    with pytest.raises(PeerError, match="belongs to the peer 'p1'"):
        load(tmp_path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -1e30])
@pytest.mark.parametrize("part", ["params", "buffers"])
def test_weights_that_would_be_refused_from_others(tmp_path: Path, part: str, value: float) -> None:
    like = state()._replace(buffers={"steps": torch.tensor(7), "mean": torch.zeros(3)})
    sick = like._replace(**{part: {k: v.clone() for k, v in getattr(like, part).items()}})
    name = {"params": "b", "buffers": "mean"}[part]
    getattr(sick, part)[name][1] = value
    store = StateFolder.open(tmp_path)
    store.save(saved()._replace(now=Snapshot(Version(2, 5), 4, sick)))
    with pytest.raises(
        PeerError, match=rf"model\.safetensors is damaged \(values from .* in '{name}'; expected"
    ):
        store.load("p0", "main", like)
    store.save(saved()._replace(now=Snapshot(Version(2, 6), 5, like)))
    store.save(saved()._replace(now=Snapshot(Version(2, 7), 6, sick)))
    found = store.load("p0", "main", like)
    assert found is not None
    assert found.now.version == Version(2, 6)
    store.close()


def test_in_the_closing_phase_a_state_may_have_other_memory(tmp_path: Path) -> None:
    """Until version 0.2 that memory was there from the beginning: then it is left out.

    By the settings of then, a later iteration may not have been of the closing phase: then it is made now.
    """
    store, last = StateFolder.open(tmp_path), 4
    closed = state()._replace(memory={"mean": torch.ones(2)})
    then = Closed(last, closed, lambda open_: open_._replace(memory=closed.memory))
    for t, kept in ((last, state()), (last + 1, closed)):
        store.save(saved()._replace(now=Snapshot(Version(2, 5), t, kept)))
        found = store.load("p0", "main", state(), then)
        assert found is not None
        same(found.now.state, kept)
    store.save(saved()._replace(now=Snapshot(Version(2, 5), last, closed)))
    found = store.load("p0", "main", state(), then)
    assert found is not None
    same(found.now.state, state())
    store.save(saved()._replace(now=Snapshot(Version(2, 5), last + 1, state())))
    found = store.load("p0", "main", state(), then)
    assert found is not None
    same(found.now.state, closed)
    other = closed._replace(memory={"mean": torch.ones(3)})
    store.save(saved()._replace(now=Snapshot(Version(2, 5), last + 1, other)))
    with pytest.raises(PeerError, match="'memory/mean' should be"):
        store.load("p0", "main", state(), then)
    store.close()
