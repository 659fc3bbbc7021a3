"""Distances: numbers by hand, and what every one of them must hold."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.registry import registered
from coterie.core.tasks.outputs import Distance

ALL: dict[str, Distance] = registered("distance")
LN2, LN3 = math.log(2), math.log(3)


@pytest.mark.parametrize(
    ("name", "p", "q", "want"),
    [
        # (1/4)² + (1/4)² = 1/8
        ("wasserstein2d", [0.5, 0.5], [0.25, 0.75], 0.125),
        # (3-1)² + (0-1)² + (-1+1)² = 5: logits are welcome
        ("wasserstein2d", [3.0, 0.0, -1.0], [1.0, 1.0, -1.0], 5.0),
        # cumulative differences 0.5, 0.5+0.25, 0.75-0.75 = 0: 0.5 + 0.75
        ("wasserstein1", [0.5, 0.25, 0.25], [0.0, 0.0, 1.0], 1.25),
        # everything moved by two labels, and by one
        ("wasserstein1", [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], 2.0),
        ("wasserstein1", [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 1.0),
        # (1/2 - 1/4) ln 2 + (1/2 - 3/4) ln(2/3) = ¼ ln 2 - ¼ ln 2 + ¼ ln 3
        ("symmetric_kl", [0.5, 0.5], [0.25, 0.75], LN3 / 4),
        # nothing in common: m = (½, ½), each KL is ln 2
        ("jensen_shannon", [1.0, 0.0], [0.0, 1.0], LN2),
        # m = (3/4, 1/4): ½ ln(4/3) + ½ [½ ln(2/3) + ½ ln 2] = ln 2 - ½ ln 3 + ½ ln 2 - ¼ ln 3
        ("jensen_shannon", [1.0, 0.0], [0.5, 0.5], 1.5 * LN2 - 0.75 * LN3),
        # 1 - (3·4 + 4·3) / (5·5)
        ("cosine", [3.0, 4.0], [4.0, 3.0], 1 - 24 / 25),
        ("cosine", [1.0, 0.0], [0.0, 2.0], 1.0),
        ("cosine", [1.0, 1.0], [-1.0, -1.0], 2.0),
    ],
)
def test_numbers_by_hand(name: str, p: list[float], q: list[float], want: float) -> None:
    got = ALL[name](torch.tensor([p]).double(), torch.tensor([q]).double())
    assert got.tolist() == [pytest.approx(want, abs=1e-12)]


@st.composite
def probabilities(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two stacks of distributions, some entries exactly zero."""
    n, labels = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    cells = st.lists(st.integers(0, 20), min_size=n * labels, max_size=n * labels)
    pair = []
    for _ in range(2):
        counts = torch.tensor(draw(cells)).double().view(n, labels)
        counts[:, 0] += (counts.sum(dim=1) == 0).double()
        pair.append(counts / counts.sum(dim=1, keepdim=True))
    return pair[0], pair[1]


@pytest.mark.parametrize("name", ALL)
@given(pair=probabilities())
def test_never_negative_zero_at_equality_symmetric_and_finite(name: str, pair: tuple[Tensor, Tensor]) -> None:
    p, q = pair
    there, back = ALL[name](p, q), ALL[name](q, p)
    assert there.shape == (len(p),)
    assert there.isfinite().all()
    assert (there >= 0).all()
    torch.testing.assert_close(there, back, rtol=1e-12, atol=1e-12)
    assert ALL[name](p, p).abs().max() < 1e-7


@given(pair=probabilities())
def test_bounds(pair: tuple[Tensor, Tensor]) -> None:
    p, q = pair
    assert (ALL["jensen_shannon"](p, q) <= LN2 + 1e-12).all()
    assert (ALL["wasserstein2d"](p, q) <= 2).all()
    assert (ALL["wasserstein1"](p, q) <= p.shape[1] - 1 + 1e-12).all()
    assert (ALL["cosine"](p, q) <= 1 + 1e-12).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_extreme_probabilities(name: str, dtype: torch.dtype) -> None:
    tiny = torch.finfo(dtype).tiny
    rows = torch.tensor(
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, tiny, tiny], [tiny / 8, 1.0, 0.0]], dtype=dtype
    )
    d = ALL[name](rows[:, None], rows[None])
    assert d.dtype == dtype
    assert d.isfinite().all()
    assert (d >= 0).all()
    assert d.diagonal().abs().max() < 1e-6


@pytest.mark.parametrize("name", ALL)
def test_k_models_against_one(name: str) -> None:
    own = torch.softmax(torch.arange(12.0).double().view(4, 3).sin(), dim=-1)
    theirs = torch.softmax(torch.arange(24.0).double().view(2, 4, 3).cos(), dim=-1)
    together = ALL[name](own, theirs)
    assert together.shape == (2, 4)
    for k in range(2):
        torch.testing.assert_close(together[k], ALL[name](own, theirs[k]))


def test_cosine_is_blind_to_scale_and_finite_at_zero() -> None:
    p, q = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([[3.0, -1.0]]).double()
    torch.testing.assert_close(ALL["cosine"](p, q), ALL["cosine"](10 * p, 0.1 * q))
    assert ALL["cosine"](p * 0, q).isfinite().all()
    assert ALL["cosine"](p * 0, p * 0) == 0
