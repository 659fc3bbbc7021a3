"""Named tensors and facts about them in one safetensors file, with their SHA-256, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from coterie.core.types import Tensors
from coterie.storage.atomic import replacing

__all__ = ["Saved", "load", "save"]


def save(
    path: Path,
    form: str,
    facts: Mapping[str, Any],
    tensors: Tensors,
    *,
    secret: bool = False,
    former: Path | None = None,
) -> None:
    """Replace the file as a whole (see `coterie.storage.atomic.replacing`); a `secret` is for its owner only.

    An OSError or a SafetensorError leaves the one before it untouched.
    """
    whole = _apart({k: v.detach().cpu().contiguous() for k, v in tensors.items()})
    text = json.dumps(facts)
    with replacing(path, former) as draft:
        save_file(whole, draft, {"format": form, "facts": text, "sha256": _digest(form, text, whole)})
        if secret:
            draft.chmod(0o600)


class Saved(NamedTuple):
    """Content of such a file."""

    form: str | None
    facts: dict[str, Any]
    tensors: Tensors


def load(path: Path, *forms: str) -> Saved:
    """Read the whole file; a damaged one is a ValueError. Of none of the forms, only the form is known."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            if (form := meta.get("format")) not in forms:
                return Saved(form, {}, {})
            tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(str(error)) from None
    told = meta.get("facts", "")
    if meta.get("sha256") != _digest(form, told, tensors):
        raise ValueError("its content does not have the SHA-256 that was saved with it")
    return Saved(form, json.loads(told), tensors)


def _apart(tensors: Tensors) -> Tensors:
    """Copy all but one of tensors in the same memory, which the format cannot name twice."""
    owner = {v.untyped_storage().data_ptr(): k for k, v in tensors.items()}
    return {k: v if k in owner.values() else v.clone() for k, v in tensors.items()}


def _digest(form: str, facts: str, tensors: Tensors) -> str:
    """Hash all that is loaded, SHA-256, hex: the facts; the tensors' names, types, shapes and bytes."""
    named = sorted(tensors.items())
    outline = [form, facts, [(name, str(tensor.dtype), tensor.shape) for name, tensor in named]]
    digest = hashlib.sha256(json.dumps(outline).encode())
    for _, tensor in named:
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
