"""There is always one whole state on disk, of this peer and this model, held by one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from coterie.core.types import State
from coterie.peer.errors import PeerError
from coterie.peer.learner import Snapshot
from coterie.peer.store import Saved, Store, read, tensors
from coterie.peer.transport import Version
from coterie.saved import beside
from tests.disk import full_after
from tests.trees import same


def state(value: float = 1.0, width: int = 3) -> State:
    params = {"w": torch.full((2, width), value), "b": torch.arange(2.0)}
    return State(params, {"steps": torch.tensor(7)}, {}, {}, {"w": torch.ones(4)})


def saved(value: float = 1.0, event: int = 5) -> Saved:
    return Saved("p0", "main", {"p1": 3}, Snapshot(Version(2, event), 4, state(value)))


def test_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    store = Store(tmp_path / "state")
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
    store = Store(tmp_path)
    store.save(saved(1.0, event=5))
    whole = store.path.read_bytes()
    store.save(saved(2.0, event=6))
    new = store.path.read_bytes()
    for cut in (0, 1, 8, 100, len(new) - 1, len(new)):
        store.path.write_bytes(whole)
        beside(store.path).write_bytes(new[:cut])
        found = store.load("p0", "main", state())
        assert found is not None
        assert found.now.version == Version(2, 5)
        assert not beside(store.path).exists()
    store.close()


def test_a_full_disk_leaves_the_state_before(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(saved(1.0))
    with full_after(64), pytest.raises(PeerError, match="learning goes on in memory; make room on the disk"):
        store.save(saved(2.0))
    found = store.load("p0", "main", state())
    assert found is not None
    assert float(found.now.state.params["w"][0, 0]) == 1.0
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "model.safetensors"]
    store.close()


def test_one_folder_one_process(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(PeerError, match="is in use by another process"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PeerError, match="cannot use the state folder"):
        Store(tmp_path / "file" / "state")


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
    store = Store(tmp_path)
    store.save(saved())
    with pytest.raises(PeerError, match=message):
        store.load(peer, run, like)
    store.close()


def test_damage_is_told(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x80\x04pickle or anything")
    with pytest.raises(PeerError, match=r"is damaged .*; remove it to let this peer begin anew"):
        read(file)
    save_file({"a": torch.ones(1)}, file)
    with pytest.raises(PeerError, match="is not a saved peer of this version"):
        read(file)
    save_file({"a": torch.ones(1)}, file, {"format": "coterie-peer-2", "facts": json.dumps([])[:1]})
    with pytest.raises(PeerError, match="is damaged"):
        read(file)
