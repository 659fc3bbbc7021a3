"""Models as bytes: a protobuf header, then a safetensors body in chunks.

Whatever comes in is held against the own terms and the own schemas before anything is allocated: the
header's terms, which say by a hash what architecture it is of, sender and length; the body's opening byte by
byte; then SHA-256, then the values. Nothing is parsed but the protobuf, nothing is unpickled, and the only
error is `Refused`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from google.protobuf.message import DecodeError

from coterie.core.types import Message
from coterie.peer.errors import Reason, Refused
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.schema import MAGNITUDE, Part, Schema, absurd
from coterie.peer.transport.wire_pb2 import Answer, Ask, Header
from coterie.peer.transport.wire_pb2 import Terms as TermsProto

__all__ = ["MAGNITUDE", "IncomingModel", "SessionTerms", "check_federation", "check_terms", "chunks"]
__all__ += ["header", "quote", "read_answer", "read_ask", "same_schema", "seal", "unusable"]

PROTOCOL = 3
_DIGEST = hashlib.sha256().digest_size


class SessionTerms(NamedTuple):
    """Terms that two peers must share before a model moves."""

    federation: str
    run: str
    algorithm: str
    schema: str
    """Hash of the schema; where there are several architectures, of the one that speaks."""
    protocol: int = PROTOCOL

    def encode(self) -> TermsProto:
        """Encode for a header or an ask."""
        return TermsProto(**self._asdict())

    @classmethod
    def decode(cls, terms: TermsProto) -> SessionTerms:
        """Decode what `encode` gave."""
        return cls(terms.federation, terms.run, terms.algorithm, terms.schema, terms.protocol)


_REASONS = {
    "protocol": Reason.PROTOCOL,
    "federation": Reason.FEDERATION,
    "run": Reason.RUN,
    "algorithm": Reason.RUN,
    "schema": Reason.SCHEMA,
}


def quote(text: str) -> str:
    """Quote text of unknown origin for a log line: short, control characters escaped."""
    return repr(text if len(text) <= 200 else text[:200] + "…")


def check_terms(
    ours: SessionTerms,
    theirs: TermsProto,
    us: str,
    them: str,
    schema: Schema | None = None,
    part: Part = "model",
) -> None:
    """Refuse other terms than ours, with both sides named.

    `schema`: the own one, if that `part` may be of another architecture that the method has use for.
    """
    other = SessionTerms.decode(theirs)
    for what, reason in _REASONS.items():
        our, their = getattr(ours, what), getattr(other, what)
        if our == their or (what == "schema" and schema is not None and their in schema.taken(part)):
            continue
        if what == "schema" and schema is not None and schema.architecture:
            raise unusable(schema, their, us, them, part)
        raise Refused(reason, f"another {what}: {us} has {quote(str(our))}, {them} has {quote(str(their))}")


def check_federation(ours: SessionTerms, theirs: TermsProto, us: str, them: str, schema: Schema) -> None:
    """Refuse other terms than ours before a greeting or gossip, which peers of all architectures share."""
    check_terms(ours._replace(schema=theirs.schema) if schema.architecture else ours, theirs, us, them)


def unusable(ours: Schema, theirs: str, us: str, them: str, part: Part) -> Refused:
    """Make the refusal of a sender whose schema has the hash `theirs`, which is not among those taken."""
    used = " or ".join(quote(schema.architecture) for schema in ours.taken(part).values())
    known = next((other.architecture for other in ours.others if other.hash == theirs), None)
    return Refused(
        Reason.ARCHITECTURE,
        f"{them} has the architecture {quote(known)}, but the method of {us} uses only models of {used}"
        if known
        else f"{them} has an architecture that {us} does not know; it uses models of {used}; all peers of a "
        "run must have the same list `model`",
    )


def same_schema(ours: Schema, theirs: str, us: str, them: str) -> None:
    """Refuse another schema, with the tensor named; one of far more tensors is not read at all.

    One of another architecture is none of our business until a model is to be moved.
    """
    most = max(2**14, 2 * ours.longest_text)
    if len(theirs) > most:
        raise Refused(
            Reason.SCHEMA,
            f"{us} and {them} have different models; the schema of {them} has {len(theirs)} characters, and "
            f"{us} reads {most} at most",
        )
    try:
        other = Schema.decode(theirs)
    except ValueError as error:
        raise Refused(Reason.FORMAT, f"the schema of {them} cannot be read: {error}") from None
    if ours.architecture and other.architecture and ours.architecture != other.architecture:
        return
    if difference := ours.difference(other):
        raise Refused(Reason.SCHEMA, f"{us} and {them} have different models; {us} says: {difference}")


def read_ask(data: bytes) -> Ask:
    """Parse one message of the calling side."""
    try:
        return Ask.FromString(data)
    except DecodeError:
        raise Refused(Reason.FORMAT, f"{len(data)} bytes that are not an Ask of this protocol") from None


def read_answer(data: bytes) -> Answer:
    """Parse one message of the answering side."""
    try:
        return Answer.FromString(data)
    except DecodeError:
        raise Refused(Reason.FORMAT, f"{len(data)} bytes that are not an Answer of this protocol") from None


def seal(schema: Schema, sender: str, run: str, version: Version, message: Message) -> ModelEnvelope:
    """Seal a model of one's own with the digest of its body."""
    schema.check(message)
    digest = hashlib.sha256()
    for part in _parts(schema, message):
        digest.update(part)
    return ModelEnvelope(sender, run, version, digest.hexdigest(), message, architecture=schema.number)


def header(schema: Schema, terms: SessionTerms, envelope: ModelEnvelope) -> Header:
    """Make the header that goes before the body."""
    return Header(
        terms=terms.encode(),
        sender=envelope.sender,
        incarnation=envelope.version.incarnation,
        event=envelope.version.event,
        length=schema.length,
        digest=bytes.fromhex(envelope.digest),
    )


def chunks(schema: Schema, message: Message, size: int) -> Iterator[bytes]:
    """Yield the body in pieces of `size` bytes, each copied once; the last may be shorter."""
    held: list[memoryview] = []
    room = size
    for part in _parts(schema, message):
        while part:
            piece, part = part[:room], part[room:]
            held.append(piece)
            room -= len(piece)
            if not room:
                yield b"".join(held)
                held, room = [], size
    if held:
        yield b"".join(held)


def _parts(schema: Schema, message: Message) -> Iterator[memoryview]:
    yield memoryview(schema.opening)
    for entry in schema.entries:
        tensor = message[entry.name].detach().cpu().contiguous()
        yield tensor.reshape(-1).view(torch.uint8).numpy().data


class IncomingModel:
    """Model on its way in: room for exactly one of the own schemas, filled as chunks come.

    Feedback is of the own architecture, whatever the sender's.
    """

    def __init__(
        self,
        schema: Schema,
        terms: SessionTerms,
        us: str,
        sender: str,
        header: Header,
        magnitude: float = MAGNITUDE,
        part: Part = "model",
    ) -> None:
        check_terms(terms, header.terms, us, sender, schema, part)
        self._feedback = part == "model" and schema.feedback
        found = schema.taken(part).get(header.terms.schema, schema)  # else it is the own, as both terms say
        found = schema if self._feedback else found
        schema = found.part(part)
        if header.sender != sender:
            raise Refused(
                Reason.IDENTITY,
                f"{sender} sent a model in the name of {quote(header.sender)}; it is not taken",
            )
        if header.length != schema.length:
            raise Refused(
                Reason.SIZE, f"{sender} announced {header.length} bytes; expected exactly {schema.length}"
            )
        if len(header.digest) != _DIGEST:
            raise Refused(Reason.FORMAT, f"{sender} sent a digest of {len(header.digest)} bytes, not SHA-256")
        self._schema, self._header, self._magnitude = schema, header, magnitude
        self._architecture = found.number
        self._data = torch.empty(schema.bytes, dtype=torch.uint8)
        self._room = self._data.numpy().data
        self._hash = hashlib.sha256()
        self._got = 0

    @property
    def length(self) -> int:
        """Size of the body in bytes."""
        return self._schema.length

    @property
    def full(self) -> bool:
        """True once all of it is there."""
        return self._got == self._schema.length

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        opening, start, end = self._schema.opening, self._got, self._got + len(chunk)
        if not chunk or end > self._schema.length:
            raise Refused(
                Reason.SIZE,
                f"{self._header.sender} sent a piece of {len(chunk)} bytes after {start} of "
                f"{self._schema.length} bytes",
            )
        head = opening[start:end]
        if not chunk.startswith(head):
            raise Refused(
                Reason.FORMAT,
                f"{self._header.sender} sent a body that does not open with the safetensors header of our "
                "schema: names, types, shapes and offsets must be the same",
            )
        data = memoryview(chunk)[len(head) :]
        at = max(0, start - len(opening))
        self._room[at : at + len(data)] = data
        self._hash.update(chunk)
        self._got = end

    def finish(self) -> ModelEnvelope:
        """Return the model, once all of it is there and sound."""
        header, sender = self._header, self._header.sender
        if not self.full:
            raise Refused(
                Reason.SIZE, f"{sender} stopped after {self._got} of {self._schema.length} bytes; dropped"
            )
        if self._hash.digest() != header.digest:
            raise Refused(Reason.DIGEST, f"the body from {sender} does not have the SHA-256 it announced")
        message = {
            entry.name: self._data[at : at + entry.bytes].view(entry.dtype).view(entry.shape)
            for entry, at in self._schema.places()
        }
        if flaw := absurd(message, self._magnitude):
            raise Refused(Reason.VALUES, f"{sender} sent {flaw}")
        version = Version(header.incarnation, header.event)
        return ModelEnvelope(
            sender,
            header.terms.run,
            version,
            header.digest.hex(),
            message,
            architecture=self._architecture,
            feedback=self._feedback,
        )
