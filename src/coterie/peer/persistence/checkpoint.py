"""A peer's model on disk: one safetensors file, replaced atomically, in a folder held by one process.

    model.safetensors           the last saved state; version, iteration, slots, run, inputs, origin in its
                                metadata
    model.former.safetensors    the one saved before it, for when the last is damaged
    model.damaged.safetensors   one that was damaged, out of use
    journal.jsonl               what the peer did (`coterie.peer.persistence.journal`)
    .lock                       held by the process that runs the peer

A kill between any two writes leaves either the old state or the new one, whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from coterie.core.types import State
from coterie.peer.errors import DamagedError, PeerError
from coterie.peer.identity.key_files import folder_error
from coterie.peer.learning.client import Client, Snapshot
from coterie.peer.learning.inputs import Inputs
from coterie.peer.transport.base import Version
from coterie.peer.transport.schema import absurd
from coterie.storage import tensors as files
from coterie.storage.atomic import temporary_path

__all__ = ["FORMER", "JOURNAL", "MODEL", "Checkpoint", "Closed", "Origin", "StateFolder"]
__all__ += ["inputs", "origin", "read", "state_of", "tensors"]

log = logging.getLogger(__name__)

FORMAT = "coterie-peer-2"
MODEL, FORMER, JOURNAL = "model.safetensors", "model.former.safetensors", "journal.jsonl"


class Origin(NamedTuple):
    """What made a saved model, and how good it was: all that the model needs to be of use elsewhere."""

    federation: str
    settings: dict[str, Any]
    """The peer's settings, as plain data."""
    model: dict[str, Any]
    """Its architecture: `name`, and options."""
    sample: dict[str, Any]
    """The `shape` and the `type` of one sample, as the model takes it."""
    evaluated: dict[str, Any]
    """The last evaluation; empty: there was none yet."""
    tested: int
    """The peer's own test samples."""


class Checkpoint(NamedTuple):
    """State kept from one life of a peer to the next."""

    peer: str
    run: str
    slots: dict[str, int]
    """Entry of the row of each other peer."""
    now: Snapshot
    inputs: Inputs | None = None
    """None: saved by a version that did not keep them."""
    origin: Origin | None = None
    """None: likewise."""


class Closed(NamedTuple):
    """The closing phase, in which a state may have other tensors."""

    last: int
    """The last iteration before it."""
    state: State
    """A state as it is then."""
    close: Callable[[State], State]
    """Makes a state of the closing phase of one before it."""

    @classmethod
    def of(cls, client: Client) -> Closed:
        """Make what a client's state is like then."""
        return cls(client.schedule.last, client.closed(client.first()), client.closed)


class StateFolder:
    """Folder of one peer's state, held by this process."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.root, self._lock = folder, lock
        self.path, self.former = folder / MODEL, folder / FORMER
        self.journal = folder / JOURNAL

    @classmethod
    def open(cls, folder: Path) -> StateFolder:
        """Make the folder if need be, and lock it."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _refuse_strangers(folder)
            lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise PeerError(
                    f"the state folder {folder} is in use by another process: one peer, one process; "
                    "stop the other one, or give this peer a folder of its own with `state`"
                ) from None
        except OSError as error:
            raise PeerError(f"cannot use the state folder {folder}: {error.strerror}") from None
        return cls(folder, lock)

    def save(self, saved: Checkpoint) -> None:
        """Write a state beside, then replace: there is always one whole state."""
        facts = {
            "peer": saved.peer,
            "run": saved.run,
            "slots": saved.slots,
            "version": saved.now.version,
            "t": saved.now.t,
            **({"inputs": saved.inputs.plain()} if saved.inputs else {}),
            **({"origin": saved.origin._asdict()} if saved.origin else {}),
        }
        try:
            files.save(self.path, FORMAT, facts, tensors(saved.now.state), secret=True, former=self.former)
        except OSError as error:
            raise PeerError(
                f"cannot save the model in {self.path}: {getattr(error, 'strerror', None) or error}; the one "
                "saved before it, if any, is untouched, and learning goes on in memory; make room on the disk"
            ) from None

    def inputs(self) -> Inputs | None:
        """Read what the last sound model takes in and puts out; None: no model, or not kept."""
        for path in filter(Path.exists, (self.path, self.former)):
            with contextlib.suppress(DamagedError):  # `load` tells of it, and sets it aside
                return inputs(read(path)[0])
        return None

    def load(self, peer: str, run: str, like: State, then: Closed | None = None) -> Checkpoint | None:
        """Load the last sound state, which must be of this peer, run and model; None: there is none.

        `then`: what it must be like in the closing phase, if that is something else. A damaged one is set
        aside if the one before it is sound.
        """
        temporary_path(self.path).unlink(missing_ok=True)
        damaged: DamagedError | None = None
        for path in filter(Path.exists, (self.path, self.former)):
            try:
                saved = _fitting(path, peer, run, like, then)
            except DamagedError as error:
                damaged = damaged or error
                continue
            if damaged:
                self._set_aside(damaged, saved.now.t)
            return saved
        if damaged:
            raise PeerError(
                f"{damaged}; bring back a copy, or move model*.safetensors away from {self.root} to let "
                "this peer begin anew, under the same name"
            )
        return None

    def _set_aside(self, damaged: DamagedError, t: int) -> None:
        aside = self.root / "model.damaged.safetensors"
        try:
            self.path.replace(aside)
        except OSError as error:
            raise PeerError(f"{damaged}; it cannot be moved to {aside}: {error.strerror}") from None
        log.error(
            "model_damaged",
            extra={"why": f"{damaged}; it is now {aside.name}, and the one saved before it is used", "t": t},
        )

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)


def _refuse_strangers(folder: Path) -> None:
    """Refuse a folder in which others, or links, decide which files a peer writes."""
    if wrong := folder_error(folder):
        raise PeerError(f"the state folder {wrong}")
    for path in folder.iterdir():
        if path.is_symlink():
            raise PeerError(f"{path} is a link, and a peer writes to no file outside its folder; remove it")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the facts and the tensors of a saved state."""
    try:
        form, facts, found = files.load(path, FORMAT)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error})") from None
    if form != FORMAT:
        raise PeerError(
            f"{path} is not a saved peer of this version: expected {FORMAT!r}, got {form!r}; run the version "
            "of coterie that wrote it, or name an empty folder as `state` to begin anew"
        )
    return facts, found


def _fitting(path: Path, peer: str, run: str, like: State, then: Closed | None) -> Checkpoint:
    """Read a saved state of this peer, run and model, with values that others would take."""
    facts, found = read(path)
    for what, expected in (("peer", peer), ("run", run)):
        if facts[what] != expected:
            raise PeerError(
                f"{path} belongs to the {what} {facts[what]!r}, not to {expected!r}; give every "
                "peer and every run a state folder of its own"
            )
    closed = then if then and facts["t"] > then.last else None
    later = tensors(then.state).keys() if then else set()
    # By the settings of then, that iteration may have come before the closing phase.
    more = later - tensors(like).keys()
    late = bool(more) and not more & found.keys()
    wanted = tensors(closed.state if closed and not late else like)
    # Until version 0.2 what the closing phase needs was there from the beginning.
    found = {k: v for k, v in found.items() if k in wanted or k not in later}
    for name in [*wanted, *found]:
        expected, got = _described(wanted.get(name)), _described(found.get(name))
        if expected != got:
            raise PeerError(
                f"{path} holds another model or method: the tensor {name!r} should be {expected}, "
                f"but is {got}; go back to the former settings, or name an empty folder as `state`"
            )
    state = closed.close(state_of(found)) if closed and late else state_of(found)
    weights = {k: v for k, v in {**state.params, **state.buffers}.items() if v.is_floating_point()}
    if flaw := absurd(weights):
        raise DamagedError(f"{path} is damaged ({flaw})")
    now = Snapshot(Version(*facts["version"]), int(facts["t"]), state)
    return Checkpoint(peer, run, dict(facts["slots"]), now, inputs(facts), origin(facts))


def inputs(facts: Mapping[str, Any]) -> Inputs | None:
    """Read what a saved model takes in and puts out, if that was kept with it."""
    return Inputs.parse(facts["inputs"]) if "inputs" in facts else None


def origin(facts: Mapping[str, Any]) -> Origin | None:
    """Read what made a saved model, if that was kept with it."""
    return Origin(**facts["origin"]) if "origin" in facts else None


def state_of(found: Mapping[str, Tensor]) -> State:
    """Put tensors, named as `tensors` does, into their parts of a state."""
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in State._fields}
    for name, tensor in found.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    return State(**parts)


def tensors(state: State) -> dict[str, Tensor]:
    """Name all tensors of a state, such as `params/head.weight`."""
    return {f"{part}/{k}": v for part, values in state._asdict().items() for k, v in values.items()}


def _described(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}".removeprefix("torch.")
