"""All that a run carries, in one safetensors file, replaced atomically.

Random streams are counters, so there is no generator to save: tensors, the iteration, and how far
the append-only files of the run had been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from coterie.core.errors import CheckpointError, RunError
from coterie.core.types import Tensors
from coterie.storage import tensors as saved

__all__ = ["Checkpoint", "load", "save", "take_part"]

FORMAT = "coterie-checkpoint-3"


class Checkpoint(NamedTuple):
    """A moment of a run."""

    fingerprint: str
    """Fingerprint of the experiment."""
    data: str
    """Fingerprint of the clients' samples."""
    stack: int
    t: int
    """Iterations done."""
    mark: dict[str, int]
    """Sizes of the run's append-only files."""
    tensors: Tensors
    large: bool = False
    """True if a world has more clients than `core.graph.SMALL`; before what is drawn and remembered of so
    many was bounded, there was no such mark."""


def take_part(tensors: Mapping[str, Tensor | saved.Pieces]) -> None:
    """Give another process the pieces of tensors that it saves, in the order in which it asks for them."""
    for name in sorted(tensors):
        one = tensors[name]
        for _ in one.read() if isinstance(one, saved.Pieces) else ():
            pass


def save(
    path: Path, checkpoint: Checkpoint, tensors: Mapping[str, Tensor | saved.Pieces] | None = None
) -> None:
    """Put it in place of the one before; `tensors`: instead of its own, if there are pieces among them."""
    facts = {k: v for k, v in checkpoint._asdict().items() if k != "tensors" and (v or k != "large")}
    try:
        saved.save(path, FORMAT, facts, checkpoint.tensors if tensors is None else tensors)
    except OSError as error:
        raise RunError(
            f"cannot write the checkpoint {path}: {error}; the one before it, if any, is untouched; "
            "make room and continue with --resume"
        ) from None


def load(path: Path, fingerprint: str, data: str, large: bool | None = None) -> Checkpoint:
    """Read a checkpoint of this very experiment on these very samples; `large`: as it must be, if given."""
    try:
        form, facts, tensors = saved.load(path, FORMAT)
        if form != FORMAT:
            raise CheckpointError(
                f"{path} is not a coterie checkpoint of this version: expected {FORMAT!r}, got {form!r}; "
                "resume with the version of coterie that wrote it, or start anew in another folder with --out"
            )
        found = Checkpoint(tensors=tensors, **facts)
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged or cut short ({error}); delete it to start this part of the run again"
        ) from None
    if found.fingerprint != fingerprint:
        raise CheckpointError(
            f"{path} belongs to another experiment: expected {fingerprint}, got {found.fingerprint}; "
            "resume with the settings it was started with"
        )
    if found.data != data:
        raise CheckpointError(
            f"{path} was made with other data: the samples in the data folder have changed since; "
            "bring them back, or start again in another folder with --out"
        )
    if large is not None and found.large != large:
        raise CheckpointError(
            f"{path} is of so large a population that the version of coterie that wrote it draws exchanges "
            "in another way; resume with that version, or start anew in another folder with --out"
        )
    return found
