"""All that a run carries, in one safetensors file, replaced atomically.

Random streams are counters, so there is no generator to save: tensors, the iteration, and how far
the append-only files of the run had been written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from coterie.core.errors import CheckpointError, RunError
from coterie.core.types import Tensors

__all__ = ["Checkpoint", "load", "save"]

FORMAT = "coterie-checkpoint-1"


class Checkpoint(NamedTuple):
    """A moment of a run."""

    fingerprint: str
    """Of the experiment."""
    data: str
    """Of the clients' samples."""
    stack: int
    t: int
    """Iterations done."""
    mark: dict[str, int]
    """Sizes of the run's append-only files."""
    tensors: Tensors


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write beside, then replace: there is always one whole checkpoint."""
    facts = {k: v for k, v in checkpoint._asdict().items() if k != "tensors"}
    beside = path.with_name(path.name + ".tmp")
    try:
        tensors = {k: v.contiguous() for k, v in checkpoint.tensors.items()}
        save_file(tensors, beside, {"format": FORMAT, "facts": json.dumps(facts)})
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except (OSError, SafetensorError) as error:
        beside.unlink(missing_ok=True)
        raise RunError(
            f"cannot write the checkpoint {path}: {error}; the one before it, if any, is untouched; "
            "make room and continue with --resume"
        ) from None


def load(path: Path, fingerprint: str, data: str) -> Checkpoint:
    """Read a checkpoint of this very experiment on these very samples."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            if meta.get("format") != FORMAT:
                raise CheckpointError(
                    f"{path} is not a coterie checkpoint of this version: expected {FORMAT!r}, "
                    f"got {meta.get('format')!r}"
                )
            facts: dict[str, Any] = json.loads(meta["facts"])
            if facts["fingerprint"] != fingerprint:
                raise CheckpointError(
                    f"{path} belongs to another experiment: expected {fingerprint}, got "
                    f"{facts['fingerprint']}; resume with the settings it was started with"
                )
            if facts["data"] != data:
                raise CheckpointError(
                    f"{path} was made with other data: the samples in the data folder have changed since; "
                    "bring them back, or start again in another folder with --out"
                )
            return Checkpoint(tensors={k: file.get_tensor(k) for k in file.keys()}, **facts)  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged or cut short ({error}); delete it to start this part of the run again"
        ) from None
