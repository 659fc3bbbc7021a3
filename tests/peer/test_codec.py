from __future__ import annotations

import hashlib
import math
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from grpc_tools import protoc  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load

from coterie.core.errors import ModelError
from coterie.core.types import Message
from coterie.peer.errors import Reason, Refused
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.schema import Schema
from coterie.peer.transport.wire_pb2 import Answer, Ask, Header, Terms
from tests.peer.attacks import bodies, pieces, values

MESSAGE: Message = {"layer.weight": torch.arange(12.0).reshape(3, 4), "layer.bias": torch.ones(3)}
SCHEMA = Schema.of(MESSAGE)
TERMS = codec.SessionTerms("wards", "run-1", "kd-pdfl", SCHEMA.hash)
GOOD = b"".join(codec.chunks(SCHEMA, MESSAGE, 64))
CORPUS = sorted(Path(__file__).with_name("corpus").iterdir())
SOURCES = Path(codec.__file__).parents[3]

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
tensors = st.builds(
    lambda shape, dtype, seed: torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype),
    st.lists(st.integers(0, 5), max_size=3),
    st.sampled_from(DTYPES),
    st.integers(0, 99),
)
models = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), tensors, max_size=5)


def header(body: bytes = GOOD, **changes: Any) -> Header:
    fields: dict[str, Any] = {
        "terms": TERMS.encode(),
        "sender": "p0",
        "incarnation": 1,
        "event": 2,
        "length": SCHEMA.length,
        "digest": hashlib.sha256(body).digest(),
    }
    return Header(**{**fields, **changes})


def unpack(
    head: Header,
    body: Iterable[bytes],
    schema: Schema = SCHEMA,
    terms: codec.SessionTerms = TERMS,
    magnitude: float = codec.MAGNITUDE,
) -> ModelEnvelope:
    """A whole model at once."""
    model = codec.IncomingModel(schema, terms, "p1", "p0", head, magnitude)
    for chunk in body:
        model.add(chunk)
    return model.finish()


@given(models, st.integers(1, 300))
@settings(deadline=None)
def test_there_and_back(message: Message, size: int) -> None:
    schema = Schema.of(message)
    terms = TERMS._replace(schema=schema.hash)
    sent = codec.seal(schema, "p0", "run-1", Version(3, 4), message)
    body = list(codec.chunks(schema, message, size))
    assert all(len(chunk) == size for chunk in body[:-1])
    head = Header.FromString(codec.header(schema, terms, sent).SerializeToString())
    got = unpack(head, body, schema, terms)
    assert got._replace(message={}) == sent._replace(message={})
    assert set(got.message) == set(message)
    for name, tensor in message.items():
        assert got.message[name].dtype == tensor.dtype
        assert torch.equal(got.message[name], tensor)


def test_a_body_is_a_safetensors_file_with_the_digest_of_the_letter() -> None:
    assert {k: v.tolist() for k, v in load(GOOD).items()} == {k: v.tolist() for k, v in MESSAGE.items()}
    letter = codec.seal(SCHEMA, "p0", "run-1", Version(1, 1), MESSAGE)
    assert letter.digest == hashlib.sha256(GOOD).hexdigest()


def test_views_with_gradients_and_strides_travel_as_they_are() -> None:
    strided = {
        "layer.weight": torch.arange(12.0).reshape(4, 3).T.requires_grad_(),
        "layer.bias": torch.ones(3),
    }
    body = codec.chunks(SCHEMA, strided, 50)
    sent = codec.seal(SCHEMA, "p0", "run-1", Version(1, 1), strided)
    got = unpack(codec.header(SCHEMA, TERMS, sent), body)
    assert torch.equal(got.message["layer.weight"], torch.arange(12.0).reshape(4, 3).T)


def test_a_letter_of_another_model_is_not_sealed() -> None:
    with pytest.raises(ModelError, match=r"'layer.bias': expected F32\[3\], got F32\[4\]"):
        codec.seal(SCHEMA, "p0", "r", Version(1, 1), {**MESSAGE, "layer.bias": torch.ones(4)})


@pytest.mark.parametrize(
    ("changes", "reason", "text"),
    [
        (
            {"terms": TERMS._replace(protocol=7).encode()},
            Reason.PROTOCOL,
            "another protocol: p1 has '3', p0 has '7'",
        ),
        ({"terms": TERMS._replace(federation="x").encode()}, Reason.FEDERATION, "p1 has 'wards', p0 has 'x'"),
        ({"terms": TERMS._replace(run="x").encode()}, Reason.RUN, "p1 has 'run-1', p0 has 'x'"),
        ({"terms": TERMS._replace(algorithm="x").encode()}, Reason.RUN, "p1 has 'kd-pdfl', p0 has 'x'"),
        ({"terms": TERMS._replace(schema="x").encode()}, Reason.SCHEMA, "another schema: p1 has"),
        ({"terms": Terms()}, Reason.PROTOCOL, "p0 has '0'"),
        ({"terms": TERMS._replace(run="a\n\x1b[31m").encode()}, Reason.RUN, r"p0 has 'a\\n\\x1b\[31m'"),
        ({"sender": "p9"}, Reason.IDENTITY, "p0 sent a model in the name of 'p9'"),
        ({"sender": ""}, Reason.IDENTITY, "in the name of ''"),
        ({"length": SCHEMA.length - 1}, Reason.SIZE, f"expected exactly {SCHEMA.length}"),
        ({"length": 2**64 - 1}, Reason.SIZE, "announced 18446744073709551615 bytes"),
        ({"digest": b"short"}, Reason.FORMAT, "a digest of 5 bytes"),
    ],
)
def test_a_header_that_is_not_ours(changes: dict[str, Any], reason: Reason, text: str) -> None:
    with pytest.raises(Refused, match=text) as caught:
        unpack(header(**changes), pieces(GOOD))
    assert caught.value.reason is reason


@pytest.mark.parametrize("size", [1, 7, 64, 10**9])
@pytest.mark.parametrize("name", bodies(MESSAGE))
def test_a_body_that_is_not_ours(name: str, size: int) -> None:
    body, reason = bodies(MESSAGE)[name]
    with pytest.raises(Refused) as caught:
        unpack(header(), pieces(body, size))
    # A whole body in one piece can be seen to be too long before its content is looked at.
    assert caught.value.reason in ({reason, Reason.SIZE} if size > len(GOOD) else {reason})


@pytest.mark.parametrize("name", values(MESSAGE))
def test_values_that_no_model_has(name: str) -> None:
    message = values(MESSAGE)[name]
    letter = codec.seal(SCHEMA, "p0", "run-1", Version(1, 1), message)
    with pytest.raises(Refused, match=r"in 'layer\.bias'; expected finite ones of at most 1e\+09") as caught:
        unpack(codec.header(SCHEMA, TERMS, letter), codec.chunks(SCHEMA, message, 64))
    assert caught.value.reason is Reason.VALUES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2.5])
def test_the_limit_of_values_is_an_option(dtype: torch.dtype, bad: float) -> None:
    message = {"w": torch.tensor([1.0, -2.0, bad, 0.0], dtype=dtype)}
    schema = Schema.of(message)
    terms = TERMS._replace(schema=schema.hash)
    letter = codec.seal(schema, "p0", "run-1", Version(1, 1), message)
    head, body = codec.header(schema, terms, letter), list(codec.chunks(schema, message, 64))
    with pytest.raises(Refused):
        unpack(head, body, schema, terms, magnitude=2.0)
    if math.isfinite(bad):
        assert unpack(head, body, schema, terms, magnitude=2.5).message["w"][2] == 2.5


def test_an_empty_piece_is_no_progress() -> None:
    with pytest.raises(Refused, match="a piece of 0 bytes after 64"):
        unpack(header(), [GOOD[:64], b"", GOOD[64:]])


def test_an_endless_stream_ends_at_our_own_size() -> None:
    taken = 0

    def endless() -> Iterable[bytes]:
        nonlocal taken
        yield GOOD
        while True:
            taken += 1
            yield bytes(2**20)

    with pytest.raises(Refused, match=f"after {SCHEMA.length} of {SCHEMA.length} bytes"):
        unpack(header(), endless())
    assert taken == 1


def test_room_for_a_model_is_not_used_before_it_comes() -> None:
    schema = Schema.of({"w": torch.zeros(1).expand(10**9)})  # 4 GB if it were all there
    terms = TERMS._replace(schema=schema.hash)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parcel = codec.IncomingModel(
        schema, terms, "p1", "p0", header(terms=terms.encode(), length=schema.length, digest=bytes(32))
    )
    parcel.add(schema.opening + bytes(2**20))
    with pytest.raises(Refused, match="stopped after"):
        parcel.finish()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_a_schema_in_full_names_the_tensor() -> None:
    other = Schema.of({**MESSAGE, "layer.bias": torch.ones(4)})
    with pytest.raises(Refused, match=r"p1 says: the tensor 'layer.bias': expected F32\[3\], got F32\[4\]"):
        codec.same_schema(SCHEMA, other.encode(), "p1", "p0")
    with pytest.raises(Refused, match="the schema of p0 cannot be read") as caught:
        codec.same_schema(SCHEMA, "[[", "p1", "p0")
    assert caught.value.reason is Reason.FORMAT
    codec.same_schema(SCHEMA, SCHEMA.encode(), "p1", "p0")


def test_a_schema_of_far_more_tensors_is_not_read() -> None:
    many = Schema.of({f"layer{i}": torch.ones(1) for i in range(1000)}).encode()
    with pytest.raises(Refused, match=r"the schema of p0 has \d+ characters, and p1 reads 16384") as caught:
        codec.same_schema(SCHEMA, many, "p1", "p0")
    assert caught.value.reason is Reason.SCHEMA


def take(data: bytes) -> ModelEnvelope | None:
    """What a server and a client do with bytes: parse, hold against the terms, take the body."""
    letter, refusals = None, []
    for read in (codec.read_ask, codec.read_answer):
        try:
            message = read(data)
            if isinstance(message, Ask):
                codec.check_terms(TERMS, message.terms, "p1", "p0")
                if message.schema:
                    codec.same_schema(SCHEMA, message.schema, "p1", "p0")
            parcel = codec.IncomingModel(SCHEMA, TERMS, "p1", "p0", message.header)
            parcel.add(message.chunk)
            letter = parcel.finish()
        except Refused as error:
            refusals.append(error)
    assert all(error.reason in Reason and str(error).isprintable() for error in refusals)
    return letter


VALID = [
    Ask(terms=TERMS.encode(), nonce=bytes(32), header=header(), chunk=GOOD).SerializeToString(),
    Answer(header=header(), chunk=GOOD).SerializeToString(),
]


@pytest.mark.parametrize("data", VALID)
def test_the_fuzzed_function_takes_what_is_valid(data: bytes) -> None:
    assert take(data) is not None


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus(path: Path) -> None:
    data = path.read_bytes()
    assert take(data) is None
    for size in (1, 64, 10**9):
        with pytest.raises(Refused):
            unpack(header(), pieces(data, size))


def test_there_is_a_corpus() -> None:
    assert len(CORPUS) >= 30


@given(st.binary(max_size=400))
@example(b"")
@settings(deadline=None, max_examples=200)
def test_random_bytes(data: bytes) -> None:
    assert take(data) is None
    with pytest.raises(Refused):
        unpack(header(data), [data])


@given(
    st.sampled_from(VALID),
    st.lists(
        st.tuples(st.integers(0, 10**4), st.binary(max_size=6), st.integers(0, 6)), min_size=1, max_size=4
    ),
)
@settings(deadline=None, max_examples=300)
def test_mutated_packets(data: bytes, edits: list[tuple[int, bytes, int]]) -> None:
    for where, new, removed in edits:
        at = where % len(data)
        data = data[:at] + new + data[at + removed :]
    letter = take(data)
    if letter is not None:  # the change was elsewhere: in the version, the nonce, or undone
        assert letter.sender == "p0"
        assert letter.digest == hashlib.sha256(GOOD).hexdigest()
        assert torch.equal(letter.message["layer.weight"], MESSAGE["layer.weight"])


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=5))
@settings(deadline=None, max_examples=200)
def test_mutated_bodies_with_an_honest_digest(edits: list[tuple[int, int]]) -> None:
    body = bytearray(GOOD)
    for at, value in edits:
        body[at] = value
    refused = None
    try:
        letter = unpack(header(bytes(body)), pieces(bytes(body)))
    except Refused as error:
        refused = error.reason
    if not body.startswith(SCHEMA.opening):
        assert refused is Reason.FORMAT
        return
    if refused is not None:
        assert refused is Reason.VALUES
        return
    assert all(t.isfinite().all() and t.abs().max() <= codec.MAGNITUDE for t in letter.message.values())


@given(st.text(max_size=400))
@settings(deadline=None)
def test_what_others_say_is_shown_on_one_short_line(text: str) -> None:
    assert codec.quote(text).isprintable()
    assert len(codec.quote(text)) <= 10 * 201 + 2


def test_the_generated_code_is_of_the_proto(tmp_path: Path) -> None:
    arguments = ["", f"-I{SOURCES}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main([*arguments, "coterie/peer/transport/wire.proto"]) == 0
    for name in ("wire_pb2.py", "wire_pb2.pyi"):
        made, kept = tmp_path / "coterie/peer/transport" / name, Path(codec.__file__).with_name(name)
        assert made.read_text() == kept.read_text(), f"{name} is old; make it again from wire.proto"
