from __future__ import annotations

import math

import pytest

from coterie.studies.paired import Paired, holm, paired, shown


def test_by_hand() -> None:
    # differences 1, 2, 3: mean 2, standard deviation 1, t = 2 √3 with 2 degrees of freedom
    found = paired([2, 4, 6], [1, 2, 3])
    t = 2 * math.sqrt(3)
    p = 1 - t / math.sqrt(2 + t * t)  # two-sided, closed form for 2 degrees of freedom
    assert found == pytest.approx((3, 2.0, 1.0, 2.0, p, 0.25))


def test_which_is_better_shows_in_the_sign() -> None:
    better, worse = paired([0.9, 0.8, 0.9], [0.7, 0.7, 0.6]), paired([0.7, 0.7, 0.6], [0.9, 0.8, 0.9])
    assert better.difference == -worse.difference == pytest.approx(0.2)
    assert better.effect is not None
    assert worse.effect == -better.effect
    assert better.p_t == pytest.approx(worse.p_t)


def test_one_seed_is_not_tested() -> None:
    assert paired([0.5], [0.25]) == Paired(1, 0.25, None, None, None, None)


@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_differences_that_do_not_vary_are_not_tested(noise: float) -> None:
    found = paired([0.6, 0.7 + noise, 0.8], [0.5, 0.6, 0.7])
    assert found.difference == pytest.approx(0.1)
    assert (found.effect, found.p_t, found.p_wilcoxon) == (None, None, None)


def test_holm_by_hand() -> None:
    # sorted 0.01, 0.02, 0.04 times 3, 2, 1, none less than the one before
    assert holm([0.04, None, 0.01, 0.02]) == pytest.approx([0.04, None, 0.03, 0.04])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("p", "text"), [(None, "–"), (0.0, "< 0.001"), (0.00099, "< 0.001"), (0.001, "0.001"), (0.25, "0.250")]
)
def test_how_p_is_printed(p: float | None, text: str) -> None:
    assert shown(p) == text
