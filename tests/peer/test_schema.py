from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from coterie.core.errors import ModelError
from coterie.core.precision import pack
from coterie.core.types import Message
from coterie.peer.transport.schema import Schema, TensorEntry

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int8)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
shapes = st.lists(st.integers(0, 4), max_size=3)
messages = st.dictionaries(
    names, st.builds(lambda s, d: torch.zeros(s, dtype=d), shapes, st.sampled_from(DTYPES)), max_size=6
)


def model(**changes: torch.Tensor) -> Message:
    return {"w": torch.zeros(2, 3), "b": torch.zeros(2), **changes}


def test_sizes_by_hand() -> None:
    schema = Schema.of({"w": torch.zeros(2, 3), "s": torch.zeros((), dtype=torch.float64)})
    assert schema.bytes == 2 * 3 * 4 + 8
    header = b'{"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},'
    header += b'"w":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}}'
    assert len(header) == 109
    assert schema.opening == (112).to_bytes(8, "little") + header + b"   "
    assert schema.length == 8 + 112 + 32


@given(messages)
@settings(deadline=None)
def test_the_opening_is_what_safetensors_writes(message: Message) -> None:
    schema, body = Schema.of(message), save(message)
    assert body.startswith(schema.opening)
    assert len(body) == schema.length


@given(messages)
@settings(deadline=None)
def test_text_and_back(message: Message) -> None:
    schema = Schema.of(message, ("sick", "well"))
    assert Schema.decode(schema.encode()) == schema
    assert schema.difference(Schema.decode(schema.encode())) is None


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (model(w=torch.zeros(3, 2)), "the tensor 'w': expected F32[2, 3], got F32[3, 2]"),
        (
            model(b=torch.zeros(2, dtype=torch.float64)),
            "the tensor 'b': expected F32[2], got F64[2]; all peers of a run must have the same "
            "exchange.precision and dtype",
        ),
        (
            pack(model(), "int8"),  # not the scales, which one has alone
            "the tensor 'b': expected F32[2], got I8[2]; all peers of a run must have the same "
            "exchange.precision and dtype",
        ),
        (model(extra=torch.zeros(1)), "the tensor 'extra': expected none, got F32[1]"),
        ({"w": torch.zeros(2, 3)}, "the tensor 'b': expected F32[2], got none"),
    ],
)
def test_a_difference_names_the_tensor_and_changes_the_hash(other: Message, text: str) -> None:
    ours = Schema.of(model())
    assert ours.difference(Schema.of(other)) == text
    assert ours.hash != Schema.of(other).hash
    with pytest.raises(ModelError, match="is not of this peer's model"):
        ours.check(other)


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        (("well", "sick"), "class 0: expected 'sick', got 'well'"),
        (("sick",), "class 1: expected 'well', got None"),
        (("sick", "well", "dead"), "class 2: expected None, got 'dead'"),
    ],
)
def test_outputs_that_mean_other_things_are_another_schema(classes: tuple[str, ...], text: str) -> None:
    ours, theirs = Schema.of(model(), ("sick", "well")), Schema.of(model(), classes)
    assert ours.difference(Schema.decode(theirs.encode())) == text
    assert ours.hash != theirs.hash
    assert ours.opening == theirs.opening
    ours.check(model())


def test_order_of_a_message_does_not_matter() -> None:
    message = model()
    assert Schema.of(message) == Schema.of(dict(reversed(message.items())))


def test_whole_numbers_of_a_method_do_not_travel() -> None:
    with pytest.raises(ModelError, match=r"'n' cannot be sent: expected one of F64, F32, BF16, F16, I8, got"):
        Schema.of({"n": torch.zeros(1, dtype=torch.int64)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "7",
        '"abc"',
        "[[",
        "[" * 100_000,
        '{"tensors":[["w","F32"]],"classes":[]}',
        '{"tensors":[["w","I64",[1]]],"classes":[]}',
        '{"tensors":[[7,"F32",[1]]],"classes":[]}',
        '{"tensors":[["w","F32",[-1]]],"classes":[]}',
        '{"tensors":[["w","F32",[1.5]]],"classes":[]}',
        '{"tensors":[["w","F32",[true]]],"classes":[]}',
        '{"tensors":[["w","F32",[281474976710656]]],"classes":[]}',
        '{"tensors":[["w",["F32"],[1]]],"classes":[]}',
        '{"tensors":[["w","F32",[1]],["w","F32",[1]]],"classes":[]}',
        '{"w":1}',
        '{"tensors":[]}',
        '{"tensors":[],"classes":[7]}',
        '{"tensors":[],"classes":7}',
        "[NaN]",
        "1" * 5000,
    ],
)
def test_text_of_unknown_origin(text: str) -> None:
    with pytest.raises(ValueError, match="not a schema"):
        Schema.decode(text)


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr))
@settings(deadline=None)
def test_nothing_but_value_errors(text: str) -> None:
    try:
        schema = Schema.decode(text)
    except ValueError:
        return
    assert all(isinstance(entry, TensorEntry) for entry in schema.entries)
