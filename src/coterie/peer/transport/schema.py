"""Schema of a model's message: names, types and shapes of tensors, their bytes, a hash.

To it belong the names of the classes: models whose outputs mean other things are never mixed. Where a method
answers questions, the schemas of question and reply belong to it, too. In a federation of several
architectures a peer has the schema of each, made with code of its own: a sender says by a hash which one its
model has, and whatever has another hash is refused before anything is allocated.

The opening of a safetensors body (the length of the header, the header) follows from the schema
alone, so a body that was received is compared with it byte by byte and its header is never parsed.

    8 bytes  length of the header, little-endian
    header   JSON, tensors by type, the widest first, then by name, padded with spaces to 8 bytes
    data     the tensors, one after the other, without gaps
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch

from coterie.core.errors import ModelError
from coterie.core.types import Message

__all__ = ["MAGNITUDE", "Part", "Schema", "TensorEntry", "absurd"]

MAGNITUDE = 1e9
"""Larger values than this, in a trained model, are a fault or an attack."""

Part: TypeAlias = Literal["model", "question", "reply"]
"""What a body is: a model, or what goes with a request and back where a method `answers`."""

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I8": torch.int8,
}
"""Types in the order in which they travel, the widest first: each tensor is aligned where it lies."""
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class TensorEntry(NamedTuple):
    """One tensor."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{_NAMES[self.dtype]}{list(self.shape)}"


@dataclass(frozen=True)
class Schema:
    """Tensors of a message, in the order in which they travel.

    >>> schema = Schema.of({"w": torch.zeros(2, 3), "b": torch.zeros(2)})
    >>> [str(entry) for entry in schema.entries], schema.bytes
    (['F32[2]', 'F32[2, 3]'], 32)
    """

    entries: tuple[TensorEntry, ...]
    classes: tuple[str, ...] = ()
    """Names of the outputs, in order."""
    question: Schema | None = None
    """Schema of what goes with a request; None: nothing does."""
    reply: Schema | None = None
    """Schema of what a request is answered with; None: this one."""
    architecture: str = ""
    """Name and options of the sender's architecture; empty: all clients of the federation have the same."""
    number: int = 0
    """Place of the architecture in the federation's list, from 0."""
    heard: frozenset[str] = frozenset({"model", "question", "reply"})
    """Parts of an exchange in which the own method uses messages of this architecture."""
    others: tuple[Schema, ...] = ()
    """Schemas of the federation's other architectures."""
    feedback: bool = False
    """True if what is pushed is feedback: a message of its receiver's architecture, not of its sender's."""

    @classmethod
    def of(cls, message: Message, classes: tuple[str, ...] = ()) -> Schema:
        """Take the schema of a message as it is sent: of floating-point tensors, or packed in 8 bits."""
        for name, tensor in message.items():
            if tensor.dtype not in _NAMES:
                raise ModelError(
                    f"the tensor {name!r} cannot be sent: expected one of {', '.join(_DTYPES)}, "
                    f"got {tensor.dtype}"
                )
        entries = (TensorEntry(name, t.dtype, tuple(t.shape)) for name, t in message.items())
        return cls(tuple(sorted(entries, key=_place)), classes)

    @cached_property
    def opening(self) -> bytes:
        """First bytes of every body: the header's length and the header."""
        header = {
            entry.name: {
                "dtype": _NAMES[entry.dtype],
                "shape": list(entry.shape),
                "data_offsets": [offset, offset + entry.bytes],
            }
            for entry, offset in self.places()
        }
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    @cached_property
    def bytes(self) -> int:
        """Size of the data in bytes."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def length(self) -> int:
        """Size of the body, opening and data, in bytes."""
        return len(self.opening) + self.bytes

    @cached_property
    def longest(self) -> int:
        """Size of all bodies of the longest call in bytes, whatever architecture it is about."""
        own = max(self.length, sum(part.length for _, part in self._parts()))
        return max([own, *(other.longest for other in self.others if other.heard)])

    @cached_property
    def hash(self) -> str:
        """SHA-256, hex, of the opening and the classes; of the parts' hashes and the architecture if there
        are any.
        """
        parts = "".join(part.hash for _, part in self._parts()) + self.architecture
        return hashlib.sha256(self.opening + json.dumps(self.classes).encode() + parts.encode()).hexdigest()

    def taken(self, part: Part) -> Mapping[str, Schema]:
        """Find the schemas of senders whose messages of that part the own method uses, by their hashes."""
        return self._taken[part]

    @cached_property
    def _taken(self) -> Mapping[str, Mapping[str, Schema]]:
        every = (self, *self.others)
        return {
            part: {schema.hash: schema for schema in every if schema is self or part in schema.heard}
            for part in get_args(Part)
        }

    def of_architecture(self, number: int) -> Schema:
        """Find the schema of the architecture at that place of the federation's list."""
        return next(schema for schema in (self, *self.others) if schema.number == number)

    def part(self, name: Part) -> Schema:
        """Return the schema of what a body is; where a method does not answer, all are the model's."""
        return {"model": self, "question": self.question or self, "reply": self.reply or self}[name]

    @cached_property
    def longest_text(self) -> int:
        """Characters of the longest schema of the federation, encoded."""
        return max(len(schema.encode()) for schema in (self, *self.others))

    def places(self) -> Iterator[tuple[TensorEntry, int]]:
        """Yield each entry and where its bytes begin in the data."""
        offset = 0
        for entry in self.entries:
            yield entry, offset
            offset += entry.bytes

    def difference(self, other: Schema) -> str | None:
        """Name the first tensor or class that differs, with what is expected here and what the other has."""
        if self.architecture != other.architecture:
            return f"the architecture: expected {self.architecture!r}, got {other.architecture!r}"
        if difference := self._own_difference(other):
            return difference
        ours, theirs = dict(self._parts()), dict(other._parts())
        for name in ("question", "reply"):
            if difference := ours.get(name, _NOTHING)._own_difference(theirs.get(name, _NOTHING)):
                return f"in the {name}, {difference}"
        return None

    def _own_difference(self, other: Schema) -> str | None:
        ours = {entry.name: entry for entry in self.entries}
        theirs = {entry.name: entry for entry in other.entries}
        for name in sorted(ours | theirs, key=lambda name: not (name in ours and name in theirs)):
            expected, got = ours.get(name), theirs.get(name)
            if expected != got:
                text = f"the tensor {name!r}: expected {expected or 'none'}, got {got or 'none'}"
                return f"{text}{_REMEDY}" if expected and got and expected.shape == got.shape else text
        for number, (our, their) in enumerate(zip_longest(self.classes, other.classes)):
            if our != their:
                return f"class {number}: expected {our!r}, got {their!r}"
        return None

    def check(self, message: Message) -> None:
        """Raise unless the message is of this schema."""
        if difference := self._own_difference(Schema.of(message, self.classes)):
            raise ModelError(f"the message is not of this peer's model: {difference}")

    def encode(self) -> str:
        """Encode as text, for a peer whose schema has another hash."""
        more: dict[str, Any] = {name: part._tensors() for name, part in self._parts()}
        if self.architecture:
            more["architecture"] = self.architecture
        return json.dumps({"tensors": self._tensors(), "classes": self.classes, **more})

    @classmethod
    def decode(cls, text: str) -> Schema:
        """Decode text of unknown origin; raise ValueError and nothing else."""
        try:
            told = json.loads(text)
            own, classes = _decoded(told["tensors"]), tuple(told["classes"])
            architecture = told.get("architecture", "")
            question, reply = (cls(_decoded(told[k])) if k in told else None for k in ("question", "reply"))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"not a schema: {type(error).__name__}") from None
        found = cls(own, classes, question, reply, architecture)
        for entries in (own, *(part.entries for _, part in found._parts())):
            if len({entry.name for entry in entries}) != len(entries):
                raise ValueError("not a schema: a name occurs twice")
        if not all(isinstance(name, str) for name in (*classes, architecture)):
            raise ValueError("not a schema: a class or an architecture without a name")
        return found

    def _parts(self) -> Iterator[tuple[str, Schema]]:
        """Yield the schemas of question and reply by name, if the method answers."""
        if self.question is not None and self.reply is not None:
            yield from (("question", self.question), ("reply", self.reply))

    def _tensors(self) -> list[Any]:
        return [[e.name, _NAMES[e.dtype], list(e.shape)] for e in self.entries]


_NOTHING = Schema(())
_REMEDY = "; all peers of a run must have the same exchange.precision and dtype"


def absurd(message: Message, magnitude: float = MAGNITUDE) -> str | None:
    """Name the first tensor with values that no trained model has, with its range and what was expected."""
    for name, tensor in message.items():
        low, high = (bound.item() for bound in torch.aminmax(tensor)) if tensor.numel() else (0.0, 0.0)
        if not (-magnitude <= low and high <= magnitude):  # a NaN fails both
            return f"values from {low} to {high} in {name!r}; expected finite ones of at most {magnitude:g}"
    return None


def _place(entry: TensorEntry) -> tuple[int, str]:
    return list(_NAMES).index(entry.dtype), entry.name


def _decoded(items: Any) -> tuple[TensorEntry, ...]:
    return tuple(sorted((_entry(item) for item in items), key=_place))


def _entry(item: Any) -> TensorEntry:
    name, dtype, shape = item
    if not isinstance(name, str) or not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        raise ValueError
    return TensorEntry(name, _DTYPES[dtype], tuple(shape))
