"""Messages in half precision and in 8 bits: by hand, within bounds, the same for one client and for many."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from coterie.core.algorithm import drop_unsound
from coterie.core.precision import Precision, pack, received, unpack
from coterie.core.streams import Stream
from coterie.core.types import Inbox, Message
from tests.trees import one_by_one, same

F32, F64 = torch.float32, torch.float64
ROUNDED: tuple[Precision, ...] = ("half", "int8")


def message(dtype: torch.dtype = F32, clients: int = 3) -> Message:
    """Messages of some clients, of tensors with all kinds of axes."""
    shapes = {"w": (4, 5), "b": (4,), "kernel": (2, 3, 3, 3), "count": (), "group": (1,), "none": (0,)}
    return {
        k: Stream(7, k).normal(clients * torch.zeros(s).numel()).view(clients, *s).to(dtype)
        for k, s in shapes.items()
    }


def test_half_precision_by_hand() -> None:
    # Of eleven binary digits, 1 + 2^-11 lies half-way between 1 and 1 + 2^-10: to the even one.
    sent = {"v": torch.tensor([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 2049.0, 1e-8, 65504.0])}
    packed = pack(sent, "half")
    assert packed["v"].dtype == torch.float16
    want = torch.tensor([1.0, 1.0, 1 + 2**-9, 2048.0, 0.0, 65504.0])
    same(unpack(packed, "half", F32), {"v": want})


def test_eight_bits_by_hand() -> None:
    # Scales 254 / 127 = 2 and 0: the first row in steps of two, halves to the even one; zeros stay zeros.
    sent = {"w": torch.tensor([[254.0, -3.0, 2.9], [0.0, 0.0, 0.0]]), "b": torch.tensor([-12.7, 0.16])}
    packed = pack(sent, "int8")
    assert packed.keys() == {"w", "scale of w", "b", "scale of b"}
    assert packed["w"].tolist() == [[127, -2, 1], [0, 0, 0]]
    assert packed["scale of w"].tolist() == [2.0, 0.0]
    assert packed["b"].tolist() == [-127, 2]  # one scale for the whole: 12.7 / 127 = 0.1
    assert packed["scale of b"].tolist() == pytest.approx(0.1)
    got = unpack(packed, "int8", F32)
    assert got["w"].tolist() == [[254.0, -4.0, 2.0], [0.0, 0.0, 0.0]]
    assert got["b"].tolist() == pytest.approx([-12.7, 0.2])


def test_of_what_is_as_it_is_nothing_is_copied() -> None:
    sent = message()
    assert pack(sent, "full") is sent
    assert unpack(sent, "full", F32) is sent
    assert received({}, "int8", F32) == received({}, "half", F32) == {}


@pytest.mark.parametrize("precision", ROUNDED)
def test_single_numbers_travel_as_they_are(precision: Precision) -> None:
    # A group, a count, a push-sum mass: methods compare and conserve them.
    sent = {"group": torch.tensor([3.0]), "mass": torch.tensor(1 / 3), "none": torch.zeros(2, 0)}
    same(pack(sent, precision), sent)
    same(received(sent, precision, F32), sent)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("precision", ROUNDED)
def test_one_client_and_many_to_the_bit(precision: Precision, dtype: torch.dtype) -> None:
    sent, arrives = message(dtype), partial(received, precision=precision, dtype=dtype)
    got = vmap(arrives)(sent)
    same(got, one_by_one(arrives)(sent))
    assert got.keys() == sent.keys()
    assert {m.dtype for m in got.values()} == {dtype}
    assert {k: m.shape for k, m in got.items()} == {k: m.shape for k, m in sent.items()}


def test_bytes_are_a_half_and_about_a_quarter() -> None:
    sent = {"w": torch.ones(10, 100), "b": torch.ones(10), "mass": torch.ones(())}

    def size(precision: Precision) -> int:
        return sum(m.nbytes for m in pack(sent, precision).values())

    assert size("full") == 4 * (1000 + 10 + 1)
    assert size("half") == 2 * (1000 + 10) + 4
    assert size("int8") == (1000 + 4 * 10) + (10 + 4) + 4  # with ten scales, and one


numbers = st.floats(-1e4, 1e4, width=32)
matrices = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=4)


@given(matrices, st.sampled_from([F32, F64]))
def test_no_number_moves_further_than_half_a_step(rows: list[list[float]], dtype: torch.dtype) -> None:
    sent = {"w": torch.tensor(rows, dtype=dtype)}
    step = sent["w"].abs().amax(dim=1, keepdim=True) / 127
    off = (received(sent, "int8", dtype)["w"] - sent["w"]).abs()
    assert (off <= step * 0.5001 + 1e-40).all()
    # Half precision: half of the last of eleven digits, and of 2^-24 among the smallest numbers.
    off = (received(sent, "half", dtype)["w"] - sent["w"]).abs()
    assert (off <= sent["w"].abs() * 2**-11 + 2**-25).all()


@given(st.lists(numbers, min_size=2, max_size=5))
def test_what_was_rounded_once_stays_in_place(values: list[float]) -> None:
    once = received({"v": torch.tensor(values)}, "half", F32)
    same(received(once, "half", F32), once)


@pytest.mark.parametrize(
    ("precision", "value"),
    [("half", 65520.0), ("half", torch.inf), ("half", torch.nan), ("int8", torch.inf), ("int8", torch.nan)],
)
def test_what_cannot_be_sent_is_dropped_as_unsound(precision: Precision, value: float) -> None:
    # 65520 lies half-way from the largest 16-bit number to the next, which is infinite.
    good, bad = (received({"w": torch.tensor([[1.0, v], [2.0, 3.0]])}, precision, F32) for v in (2.0, value))
    inbox = Inbox({"w": torch.stack([good["w"], bad["w"]])}, torch.tensor([True, True]), torch.tensor([0, 1]))
    assert drop_unsound(inbox).heard.tolist() == [True, False]


def test_numbers_too_small_for_a_scale_are_zero() -> None:
    sent = {"w": torch.tensor([1e-44, -1e-45])}
    assert received(sent, "int8", F32)["w"].tolist() == [0.0, 0.0]
    big = {"w": torch.tensor([3e38, -1e38])}
    assert received(big, "int8", F32)["w"].isfinite().all()
