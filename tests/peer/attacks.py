"""Bodies that are not the model they should be, by name, with the reason for which each must be refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterable
from typing import Any

import torch
from safetensors.torch import save

from coterie.core.types import Message
from coterie.peer.errors import Reason
from coterie.peer.transport.schema import Schema


class Bomb:
    """Ends the process if anybody ever unpickles it."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        import os

        return os._exit, (66,)


def bodies(message: Message) -> dict[str, tuple[bytes, Reason]]:
    """Against a peer whose model is of this message's schema."""
    schema, good = Schema.of(message), save(message)
    data = good[len(schema.opening) :]
    header = json.loads(schema.opening[8:])
    first, second = list(header)[:2]
    pickled, torched, zipped = pickle.dumps(Bomb()), io.BytesIO(), io.BytesIO()
    torch.save(message, torched)
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10**6))

    def changed(name: str, **fields: Any) -> bytes:
        return _body({**header, name: {**header[name], **fields}}, data)

    return {
        "empty": (b"", Reason.SIZE),
        "pickle": (pickled, Reason.FORMAT),
        "pickle of the right length": (pickled.ljust(len(good), b"\0"), Reason.FORMAT),
        "torch archive": (torched.getvalue(), Reason.FORMAT),
        "zip": (zipped.getvalue(), Reason.FORMAT),
        "text": (b"GET / HTTP/1.1\r\n\r\n", Reason.FORMAT),
        "zeros": (bytes(len(good)), Reason.FORMAT),
        "header bomb": ((2**62).to_bytes(8, "little") + bytes(100), Reason.FORMAT),
        "long header": (_body({**header, "x" * 10**6: header[first]}, data), Reason.FORMAT),
        "deep header": (_prefixed(b'{"a":' * 10**5) + data, Reason.FORMAT),
        "overlapping": (changed(second, data_offsets=header[first]["data_offsets"]), Reason.FORMAT),
        "beyond the end": (changed(second, data_offsets=[0, 2**60]), Reason.FORMAT),
        "missing": (_body({first: header[first]}, data), Reason.FORMAT),
        "extra": (_body({**header, "extra": header[first]}, data), Reason.FORMAT),
        "renamed": (_body({("y" if k == second else k): v for k, v in header.items()}, data), Reason.FORMAT),
        "other type": (changed(first, dtype="I32"), Reason.FORMAT),
        "other shape": (changed(first, shape=[1, *header[first]["shape"]]), Reason.FORMAT),
        "metadata": (_body({"__metadata__": {"a": "b"}, **header}, data), Reason.FORMAT),
        "truncated": (good[:-1], Reason.SIZE),
        "truncated header": (good[:20], Reason.SIZE),
        "trailing": (good + b"\0", Reason.SIZE),
        "one bit": (good[:-1] + bytes([good[-1] ^ 1]), Reason.DIGEST),
    }


def values(message: Message) -> dict[str, Message]:
    """Sound in form, not in content: one bad number in the last place of one tensor."""
    name = list(message)[-1]
    bad = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf, "huge": 1e30, "-huge": -1.1e9}
    return {k: {**message, name: _with(message[name], v)} for k, v in bad.items()}


def pieces(body: bytes, size: int = 64) -> Iterable[bytes]:
    """As a sender would cut it."""
    return (body[i : i + size] for i in range(0, len(body), size))


def _with(tensor: torch.Tensor, value: float) -> torch.Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[-1] = value
    return tensor


def _prefixed(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def _body(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return _prefixed(text + b" " * (-len(text) % 8)) + data
