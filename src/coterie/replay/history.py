"""The journals of a swarm: what each peer did, and which of its models others heard."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from coterie.core.data import Scaling
from coterie.core.errors import RunError
from coterie.experiment import settled
from coterie.peer.config import PeerConfig
from coterie.peer.errors import DamagedError
from coterie.peer.persistence import checkpoint, journal
from coterie.peer.transport.base import Version

__all__ = ["History", "find", "needed"]

JOURNAL, MODEL = "journal.jsonl", "model.safetensors"
_TOLD = {
    "start": {"incarnation", "peer", "settings"},
    "resumed": {"version", "t"},
    "local": {"t", "event"},
    "slot": {"peer", "slot", "event"},
    "mix": {"t", "heard", "event", "info"},
    "adopt": {"t", "peer", "version", "slot", "event", "info"},
}
"""Keys that a line must have, by its kind, for the kinds from which models are computed again."""


class History(NamedTuple):
    """One peer's life, all its incarnations."""

    folder: Path
    peer: str
    settings: PeerConfig
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> History:
        """Read a peer's life from its state folder."""
        rows = list(journal.read(folder / JOURNAL))
        if rows and rows[0]["kind"] == "past":
            damaged = f"was damaged in {rows[0].get('where')} and is now {rows[0].get('damaged')}"
            short = "was dropped to keep it short (`journal` in PEER.toml)"
            raise RunError(
                f"what came before the first line of {folder / JOURNAL} "
                f"{damaged if 'damaged' in rows[0] else short}: it cannot be computed again"
            )
        if not rows or rows[0]["kind"] != "start":
            raise RunError(f"{folder / JOURNAL} is damaged: it does not begin with the start of a peer")
        for number, row in enumerate(rows, 1):
            if missing := _TOLD.get(row["kind"], set()) - row.keys():
                raise RunError(f"{folder / JOURNAL} is damaged in line {number}: it lacks {min(missing)!r}")
        settings = PeerConfig.parse(settled(rows[0]["settings"], folder))  # copied, it lies beside its data
        return cls(folder, rows[0]["peer"], settings, rows)

    def scaling(self) -> Scaling | None:
        """Read the inputs' scaling, saved with the model; None: there is none, or it must be fitted again."""
        if not (self.folder / MODEL).exists():
            return None
        found = checkpoint.inputs(checkpoint.read(self.folder / MODEL)[0])
        return found.scaling if found else None

    def saved(self) -> tuple[Version, int, dict[str, Tensor]] | None:
        """Read the version, the iteration and the tensors of the model on disk, if there is one."""
        if not (self.folder / MODEL).exists():
            return None
        try:
            facts, tensors = checkpoint.read(self.folder / MODEL)
        except DamagedError as error:
            raise RunError(
                f"{error}; bring back a copy, or move it away to compute again what the journal tells, with "
                "nothing to compare it with"
            ) from None
        return Version(*facts["version"]), facts["t"], tensors

    def heard(self) -> Iterator[tuple[str, Version]]:
        """List every model that went into the peer's own."""
        for row in self.rows:
            if row["kind"] == "mix":
                yield from ((peer, Version(*version)) for peer, version, _ in row["heard"])
            elif row["kind"] == "adopt":
                yield row["peer"], Version(*row["version"])


def find(logs: Iterable[Path]) -> list[History]:
    """Read all peers whose state folders lie in or under these folders, in the order of their names."""
    found = sorted({file.parent for folder in logs for file in folder.rglob(JOURNAL)})
    if not found:
        raise RunError(
            f"no {JOURNAL} in or under {', '.join(map(str, logs))}; name the state folders of peers"
        )
    histories = [History.read(folder) for folder in found]
    if len({h.peer for h in histories}) < len(histories):
        raise RunError(
            f"two of the {len(found)} state folders are of one peer; name the folders of one swarm"
        )
    return histories


def needed(histories: Iterable[History]) -> Mapping[str, set[Version]]:
    """Tell which models of each peer must be kept: heard by others, saved, resumed from, or that asked."""
    found: dict[str, set[Version]] = defaultdict(set)
    for history in histories:
        for peer, version in history.heard():
            found[peer].add(version)
        for row in history.rows:
            own = [row["version"]] if row["kind"] == "resumed" else row.get("asked", ())
            found[history.peer].update(Version(*version) for version in own)
        if saved := history.saved():
            found[history.peer].add(saved[0])
    return found
