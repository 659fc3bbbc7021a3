"""Ranks over columns, by hand."""

from __future__ import annotations

import math

import pytest

from coterie.studies.leaderboard.ranking import cliques, critical_difference, ranking, ranks


def test_the_highest_score_is_the_first_and_equal_ones_share_their_ranks() -> None:
    # 0.9 is first; the two 0.8 share the ranks 2 and 3; 0.1 is fourth
    assert ranks([0.8, 0.9, 0.1, 0.8]) == [2.5, 1.0, 4.0, 2.5]


def test_scores_that_differ_in_the_last_bits_are_equal() -> None:
    assert ranks([0.8, 0.8 + 1e-9]) == [1.5, 1.5]


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_is_the_one_of_the_tables(methods: int, q: float) -> None:
    # Demšar 2006, Table 5(a): q for 5 %; CD = q sqrt(k (k + 1) / (6 N)), here for N = 14 columns
    want = q * math.sqrt(methods * (methods + 1) / (6 * 14))
    assert critical_difference(methods, 14) == pytest.approx(want, abs=2e-3)


def test_cliques_are_the_largest_sets_that_lie_closer_than_the_difference() -> None:
    # a to b 0.5 and a to c 1.0, which is not below 1; b to c 0.5; d is alone
    assert cliques({"a": 1.0, "b": 1.5, "c": 2.0, "d": 4.0}, 1.0) == [["a", "b"], ["b", "c"]]
    assert cliques({"a": 1.0, "b": 1.5, "c": 2.0, "d": 4.0}, 1.1) == [["a", "b", "c"]]


def test_only_methods_of_all_columns_are_ranked() -> None:
    scores = {
        "first": {"a": 0.9, "b": 0.8, "c": 0.7},
        "second": {"a": 0.6, "b": 0.7, "c": 0.5, "new": 1.0},
        "third": {"a": 0.9, "b": 0.8, "c": 0.1},
    }
    found = ranking(scores)
    assert found is not None
    assert found.mean_rank == pytest.approx({"a": 4 / 3, "b": 5 / 3, "c": 3.0})  # a: 1, 2, 1; b: 2, 1, 2
    assert list(found.mean_rank) == ["a", "b", "c"]
    # Friedman: 12 N / (k (k + 1)) (sum of R^2) - 3 N (k + 1) = 3 (16 / 9 + 25 / 9 + 9) - 36 = 14 / 3;
    # with k - 1 = 2 degrees of freedom p = exp(-7 / 3)
    assert found.friedman_p == pytest.approx(math.exp(-7 / 3))


def test_one_method_or_none_has_no_ranking() -> None:
    assert ranking({"first": {"a": 0.9}}) is None
    assert ranking({}) is None


def test_one_column_has_ranks_and_nothing_to_test() -> None:
    found = ranking({"first": {"a": 0.1, "b": 0.9}})
    assert found is not None
    assert found.mean_rank == {"b": 1.0, "a": 2.0}
    assert (found.friedman_p, found.critical_difference, found.cliques) == (None, None, [])
