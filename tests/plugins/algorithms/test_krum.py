"""Krum by hand: scores, ties, too few models, and models out of all bounds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.algorithm import guarded_mix
from coterie.plugins.algorithms.krum import Krum, pairwise_distances
from tests.plugins.algorithms.scalars import TASK, ctx, inbox, probe, state, theta


@pytest.mark.parametrize(
    ("others", "heard", "bad", "want", "weight"),
    [
        # n = 5, f = 1, two nearest: 0 → 1 + 9, 1 → 1 + 4, 3 → 4 + 9, 6 → 9 + 25, 100 → ...; 1 has least
        ([1.0, 3.0, 6.0, 100.0], [True] * 4, 0.3, 1.0, [1, 0, 0, 0]),
        # f = 0, three nearest: 0 → 1 + 9 + 36, 1 → 1 + 4 + 25, 3 → 4 + 9 + 9, 6 → 9 + 25 + 36
        ([1.0, 3.0, 6.0, 100.0], [True] * 4, 0.0, 3.0, [0, 1, 0, 0]),
        # n = 4, f = 1, one nearest: 2 and 3 are the closest pair, both with score 1: their mean
        ([2.0, 3.0, 9.0], [True] * 3, 0.3, 2.5, [0.5, 0.5, 0]),
        # the 3 was not heard: n = 3, f = 0; 0 and 2 are the closest pair
        ([2.0, 3.0, 9.0], [True, False, True], 0.3, 1.0, [0.5, 0]),
        # two models: too few to tell, so the own
        ([5.0], [True], 0.0, 0.0, [0]),
        # n = 3, f = 1: n - f - 2 = 0
        ([5.0, 6.0], [True, True], 0.4, 0.0, [0, 0]),
    ],
)
def test_the_nearest_of_all_is_kept(
    others: list[float], heard: list[bool], bad: float, want: float, weight: list[float]
) -> None:
    new, info = guarded_mix(Krum(bad=bad), TASK, state(0.0), inbox(others, heard), probe(), ctx())
    assert theta(new) == want
    told = [w for w, h in zip(info["weight"].tolist(), heard, strict=True) if h]
    assert told == weight


def test_a_model_out_of_all_bounds_has_no_say() -> None:
    # 1e200 squared is an infinity: so is the score of that model, and of all if they must count it
    new, _ = guarded_mix(Krum(), TASK, state(0.0), inbox([1.0, 1.5, 1e200]), probe(), ctx())
    assert theta(new) == 1.25
    new, _ = guarded_mix(Krum(bad=0.0), TASK, state(0.0), inbox([1e200, -1e200]), probe(), ctx())
    assert theta(new) == 0.0


def test_distances_are_over_all_tensors() -> None:
    models = {"a": torch.tensor([[0.0, 0.0], [3.0, 4.0]]), "b": torch.tensor([1.0, 2.0])}
    assert pairwise_distances(models).tolist() == [[0, 26], [26, 0]]


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=5), st.sampled_from([-1000.0, 1000.0]))
def test_one_far_away_is_never_chosen(honest: list[int], far: float) -> None:
    # n ≥ 4, f ≥ 1: n - f - 2 of the honest are always nearer to each other than to the far one
    new, _ = guarded_mix(
        Krum(bad=0.3), TASK, state(honest[0]), inbox([*map(float, honest[1:]), far]), probe(), ctx()
    )
    assert min(honest) <= theta(new) <= max(honest)
