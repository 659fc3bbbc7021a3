"""Named tensors and facts about them in one safetensors file, with their SHA-256, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from coterie.core.types import Tensors

__all__ = ["Saved", "beside", "load", "save"]


def save(
    path: Path,
    form: str,
    facts: Mapping[str, Any],
    tensors: Tensors,
    *,
    secret: bool = False,
    former: Path | None = None,
) -> None:
    """Write beside, then replace: there is always one whole file. A `secret` is for its owner only.

    `former`: the name under which the file that was there is kept; a kill may leave it under that name alone.
    An OSError or a SafetensorError leaves the one before it untouched.
    """
    draft = beside(path)
    if draft.is_symlink():  # it would be written through
        draft.unlink()
    try:
        whole = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
        told = json.dumps(facts)
        save_file(whole, draft, {"format": form, "facts": told, "sha256": _digest(form, told, whole)})
        if secret:
            draft.chmod(0o600)
        _synced(draft)
        if former is not None and path.exists():
            path.replace(former)
        draft.replace(path)
        _synced(path.parent)
    except (OSError, SafetensorError):
        draft.unlink(missing_ok=True)
        raise


def beside(path: Path) -> Path:
    """What a kill in the middle may leave behind."""
    return path.with_name(path.name + ".tmp")


class Saved(NamedTuple):
    """What was in such a file."""

    form: str | None
    facts: dict[str, Any]
    tensors: Tensors


def load(path: Path, form: str) -> Saved:
    """All of it; a damaged file is a ValueError. Of a file of another form, only the form is known."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            if meta.get("format") != form:
                return Saved(meta.get("format"), {}, {})
            tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(str(error)) from None
    told = meta.get("facts", "")
    if meta.get("sha256") != _digest(form, told, tensors):
        raise ValueError("its content does not have the SHA-256 that was saved with it")
    return Saved(form, json.loads(told), tensors)


def _digest(form: str, facts: str, tensors: Tensors) -> str:
    """SHA-256, hex, of all that is loaded: the facts; the tensors' names, types, shapes and bytes."""
    named = sorted(tensors.items())
    outline = [form, facts, [(name, str(tensor.dtype), tensor.shape) for name, tensor in named]]
    digest = hashlib.sha256(json.dumps(outline).encode())
    for _, tensor in named:
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _synced(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
