"""A peer's model on disk: one safetensors file, replaced atomically, in a folder held by one process.

    model.safetensors   the last saved state; version, iteration, slots and run in its metadata
    journal.jsonl       what the peer did (`coterie.peer.journal`)
    .lock               held by the process that runs the peer

A kill between any two writes leaves either the old state or the new one, whole.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from coterie import saved as files
from coterie.core.types import State
from coterie.peer.errors import PeerError
from coterie.peer.learner import Snapshot
from coterie.peer.transport import Version

__all__ = ["Saved", "Store", "read", "tensors"]

FORMAT = "coterie-peer-2"


class Saved(NamedTuple):
    """What is kept from one life of a peer to the next."""

    peer: str
    run: str
    slots: dict[str, int]
    """Which entry of the row belongs to whom."""
    now: Snapshot


class Store:
    """The folder of one peer's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "model.safetensors"
        self.journal = folder / "journal.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise PeerError(
                f"the state folder {folder} is in use by another process: one peer, one process; "
                "stop the other one, or give this peer a folder of its own with `state`"
            ) from None
        except OSError as error:
            raise PeerError(f"cannot use the state folder {folder}: {error.strerror}") from None

    def save(self, saved: Saved) -> None:
        """Write beside, then replace: there is always one whole state."""
        facts = {
            "peer": saved.peer,
            "run": saved.run,
            "slots": saved.slots,
            "version": saved.now.version,
            "t": saved.now.t,
        }
        try:
            files.save(self.path, FORMAT, facts, tensors(saved.now.state), secret=True)
        except (OSError, SafetensorError) as error:
            raise PeerError(
                f"cannot save the model in {self.path}: {getattr(error, 'strerror', None) or error}; the one "
                "saved before it, if any, is untouched, and learning goes on in memory; make room on the disk"
            ) from None

    def load(self, peer: str, run: str, like: State) -> Saved | None:
        """The last saved state, which must be of this peer, this run and this model; None: there is none."""
        files.beside(self.path).unlink(missing_ok=True)
        if not self.path.exists():
            return None
        facts, found = read(self.path)
        for what, expected in (("peer", peer), ("run", run)):
            if facts[what] != expected:
                raise PeerError(
                    f"{self.path} belongs to the {what} {facts[what]!r}, not to {expected!r}; give every "
                    "peer and every run a state folder of its own"
                )
        wanted = tensors(like)
        for name in [*wanted, *found]:
            expected, got = _described(wanted.get(name)), _described(found.get(name))
            if expected != got:
                raise PeerError(
                    f"{self.path} holds another model or method: the tensor {name!r} should be {expected}, "
                    f"but is {got}; go back to the former settings, or name an empty folder as `state`"
                )
        parts = {part: {k: found[f"{part}/{k}"] for k in getattr(like, part)} for part in State._fields}
        now = Snapshot(Version(*facts["version"]), int(facts["t"]), State(**parts))
        return Saved(peer, run, dict(facts["slots"]), now)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._lock)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and the tensors of a saved state."""
    try:
        form, facts, found = files.load(path)
    except ValueError as error:
        raise PeerError(
            f"{path} is damaged ({error}); remove it to let this peer begin anew, under the same name"
        ) from None
    if form != FORMAT:
        raise PeerError(f"{path} is not a saved peer of this version: expected {FORMAT!r}, got {form!r}")
    return facts, found


def tensors(state: State) -> dict[str, Tensor]:
    """All tensors of a state by name, such as `params/head.weight`."""
    return {f"{part}/{k}": v for part, values in state._asdict().items() for k, v in values.items()}


def _described(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")
