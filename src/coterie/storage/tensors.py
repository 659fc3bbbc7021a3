"""Named tensors and facts about them in one safetensors file, with their SHA-256, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from coterie.core.types import Tensors
from coterie.storage.atomic import replacing

__all__ = ["PIECE", "Pieces", "Saved", "load", "save"]

PIECE = 64 << 20
"""Bytes of a tensor that are copied, gathered and written together."""
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Types by their names in the format."""


class Pieces(NamedTuple):
    """A tensor that is saved piece by piece, so that it need never be there as a whole."""

    dtype: torch.dtype
    shape: torch.Size
    read: Callable[[], Iterable[Tensor]]
    """Gives its rows, some at a time, in order; called once, when those of all names before it were read."""

    @classmethod
    def of(cls, tensor: Tensor) -> Pieces:
        """Cut a tensor into pieces of at most some megabytes, which are copied to the host one by one."""
        return cls(tensor.dtype, tensor.shape, lambda: _cut(tensor.detach()))


def save(
    path: Path,
    form: str,
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor | Pieces],
    *,
    secret: bool = False,
    former: Path | None = None,
) -> None:
    """Replace the file as a whole (see `coterie.storage.atomic.replacing`); a `secret` is for its owner only.

    An OSError leaves the one before it untouched.
    """
    parts = {k: Pieces.of(v) if isinstance(v, Tensor) else v for k, v in tensors.items()}
    text, digest = json.dumps(facts), hashlib.sha256()
    meta = {"format": form, "facts": text, "sha256": digest.hexdigest()}  # as long as the one that it gets
    digest.update(_outline(form, text, parts))
    begin = len(_header(meta, parts))
    with (
        replacing(path, former) as draft,
        open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o666), "wb") as file,
    ):
        file.write(_header(meta, parts))
        places = _places(parts)
        for name in sorted(parts):  # the order of the digest, in which they need not lie
            file.seek(begin + places[name].start)
            for piece in parts[name].read():
                data = piece.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
                digest.update(data)
                file.write(data)
            if file.tell() != begin + places[name].stop:
                raise ValueError(f"the pieces of {name!r} are not as large as it should be")
        file.seek(0)
        file.write(_header({**meta, "sha256": digest.hexdigest()}, parts))


class Saved(NamedTuple):
    """Content of such a file."""

    form: str | None
    facts: dict[str, Any]
    tensors: Tensors


def load(path: Path, *forms: str) -> Saved:
    """Read the whole file; a damaged one is a ValueError. Of none of the forms, only the form is known.

    Tensors are mapped: what is not looked at takes no memory.
    """
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


def _cut(tensor: Tensor) -> Iterable[Tensor]:
    if not tensor.dim():
        return (tensor[None],)
    row = tensor[:1].numel() * tensor.element_size()
    return torch.split(tensor, max(1, PIECE // max(1, row)))


def _places(parts: Mapping[str, Pieces]) -> dict[str, range]:
    """Lay tensors end to end, those of long numbers first, so that numbers are where a machine reads them."""
    places, at = {}, 0
    for name in sorted(parts, key=lambda name: (-parts[name].dtype.itemsize, name)):
        places[name] = range(at, at + parts[name].shape.numel() * parts[name].dtype.itemsize)
        at = places[name].stop
    return places


def _header(meta: Mapping[str, str], parts: Mapping[str, Pieces]) -> bytes:
    """Make the opening of a safetensors file: its length, and what lies where, as JSON."""
    entries = {
        name: {
            "dtype": _TYPES[parts[name].dtype],
            "shape": list(parts[name].shape),
            "data_offsets": [place.start, place.stop],
        }
        for name, place in _places(parts).items()
    }
    text = json.dumps({"__metadata__": meta, **entries}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _outline(form: str, facts: str, tensors: Mapping[str, Tensor | Pieces]) -> bytes:
    """Write down what is hashed before the numbers: the facts, and names, types and shapes."""
    named = sorted(tensors.items())
    return json.dumps([form, facts, [(name, str(one.dtype), one.shape) for name, one in named]]).encode()


def _digest(form: str, facts: str, tensors: Tensors) -> str:
    """Hash all that is loaded, SHA-256, hex: the outline, and the bytes of one tensor after the other."""
    digest = hashlib.sha256(_outline(form, facts, tensors))
    for _, tensor in sorted(tensors.items()):
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
