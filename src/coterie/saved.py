"""Named tensors and facts about them in one safetensors file, replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from coterie.core.types import Tensors

__all__ = ["Saved", "beside", "load", "save"]


def save(path: Path, form: str, facts: Mapping[str, Any], tensors: Tensors, *, secret: bool = False) -> None:
    """Write beside, then replace: there is always one whole file. A `secret` is for its owner only.

    An OSError or a SafetensorError leaves the one before it untouched.
    """
    draft = beside(path)
    if draft.is_symlink():  # it would be written through
        draft.unlink()
    try:
        whole = {k: v.contiguous() for k, v in tensors.items()}
        save_file(whole, draft, {"format": form, "facts": json.dumps(facts)})
        if secret:
            draft.chmod(0o600)
        _synced(draft)
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


def load(path: Path) -> Saved:
    """All of it; a damaged file is a ValueError. Of a file of another form, only the form is known."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            facts = json.loads(meta.get("facts", "{}"))
            return Saved(meta.get("format"), facts, {k: file.get_tensor(k) for k in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(str(error)) from None


def _synced(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
