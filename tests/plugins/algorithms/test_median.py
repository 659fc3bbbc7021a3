"""The coordinate-wise median by hand, and against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.algorithm import guarded_mix
from coterie.plugins.algorithms.median import Median, middle
from tests.plugins.algorithms.scalars import TASK, ctx, inbox, probe, state, theta

numbers = st.floats(-100, 100)


@pytest.mark.parametrize(
    ("others", "heard", "want"),
    [
        ([5.0], [True], 3.0),  # two models: their mean
        ([5.0, 2.0], [True, True], 2.0),  # 1, 2, 5
        ([5.0, 2.0], [True, False], 3.0),  # 1, 5
        ([5.0, 2.0, 1e9], [True, True, True], 3.5),  # 1, 2, 5, 1e9
        ([-1e9, 2.0, 1e9, 3.0], [True] * 4, 2.0),  # one bad on either side of 1, 2, 3
    ],
)
def test_the_median_of_those_heard_and_the_own(others: list[float], heard: list[bool], want: float) -> None:
    new, info = guarded_mix(Median(), TASK, state(1.0), inbox(others, heard), probe(), ctx())
    assert theta(new) == want
    assert set(info) == {"heard"}


def test_every_coordinate_has_its_own_median() -> None:
    others = torch.tensor([[[2.0, 9.0]], [[3.0, -9.0]]])
    assert middle(torch.tensor([[7.0, 1.0]]), others, torch.tensor([True, True])).tolist() == [[3.0, 1.0]]


@given(numbers, st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=7))
def test_it_is_the_median(own: float, replies: list[tuple[float, bool]]) -> None:
    others: Tensor = torch.tensor([r for r, _ in replies], dtype=torch.float64)
    got = middle(torch.tensor(own, dtype=torch.float64), others, torch.tensor([h for _, h in replies]))
    want = np.median([own, *(r for r, h in replies if h)])
    assert float(got) == pytest.approx(float(want), abs=1e-12)


@given(st.lists(numbers, min_size=2, max_size=4), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=2))
def test_a_minority_cannot_take_it_out_of_the_range_of_the_honest(
    honest: list[float], bad: list[float]
) -> None:
    bad = bad[: len(honest) - 1]
    new, _ = guarded_mix(Median(), TASK, state(honest[0]), inbox([*honest[1:], *bad]), probe(), ctx())
    assert min(honest) - 1e-9 <= theta(new) <= max(honest) + 1e-9
