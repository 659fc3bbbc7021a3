from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import RunError
from coterie.runs.graph import Listening, auc, graph, graph_auc, listening
from coterie.runs.metrics import WeightUpdate
from coterie.runs.roster import Roster

numbers = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("inside", "outside", "expected"),
    [
        ([3, 4], [1, 2], 1.0),
        ([1, 2], [3, 4], 0.0),
        ([1, 1, 1], [1, 1], 0.5),
        ([1, 4], [2, 3], 0.5),
        ([2, 3], [2], 0.75),
        ([], [1], None),
        ([1], [], None),
    ],
)
def test_auc_by_hand(inside: list[float], outside: list[float], expected: float | None) -> None:
    assert auc(np.array(inside), np.array(outside)) == expected


@given(numbers, numbers)
@settings(deadline=None)
def test_auc_is_the_share_of_pairs_in_order(inside: list[float], outside: list[float]) -> None:
    pairs = [(a > b) + (a == b) / 2 for a in inside for b in outside]
    assert auc(np.array(inside), np.array(outside)) == pytest.approx(sum(pairs) / len(pairs))


def everybody(*group: int) -> Roster:
    return Roster.all(group)


def test_the_graph_starts_at_one_over_m_and_keeps_the_newest() -> None:
    first = WeightUpdate(0, 0, np.array([1, 2]), np.array([0.7, 0.1]))
    second = WeightUpdate(4, 0, np.array([2]), np.array([0.6]))
    found = graph([first, second], everybody(0, 0, 0))
    third = 1 / 3
    assert found.weight.tolist() == [[0, 0.7, 0.6], [third, 0, third], [third, third, 0]]
    assert found.met.tolist() == [[False, True, True], [False] * 3, [False] * 3]
    assert graph([first, second], everybody(0, 0, 0), t=3).weight[0].tolist() == [0, 0.7, 0.1]


def test_a_client_that_knows_no_weight_changes_nothing() -> None:
    nothing, two = WeightUpdate(0, 0, np.zeros(0, dtype=np.int64), np.zeros(0)), everybody(0, 0)
    assert graph([nothing], two).weight.tolist() == graph([], two).weight.tolist() == [[0, 0.5], [0.5, 0]]
    with pytest.raises(RunError, match="more clients than the 2 there are"):
        graph([nothing, WeightUpdate(0, 2, np.array([0]), np.array([0.5]))], two)


def test_only_pairs_that_met_count() -> None:
    roster = everybody(0, 0, 1)
    met = Listening(np.array([0, 0]), np.array([1, 2]), np.array([0.9, 0.1]))
    assert graph_auc(met, roster) == 1.0
    # all pairs: in (0,1)=.9, (1,0)=0; out .1, 1, 1, 1: 1 of 8 pairs in order
    every = Listening(
        np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 0, 2, 0, 1]), np.array([0.9, 0.1, 0.0, 1.0, 1.0, 1.0])
    )
    assert graph_auc(every, roster) == 1 / 8
    assert graph_auc(listening([], 3), roster) is None


def test_of_a_sample_the_graph_has_the_recorded_and_the_auc_all_they_heard() -> None:
    # Clients 0 to 4 are of group 0, 5 to 9 of group 1; 2 and 7 are recorded.
    roster = Roster(10, np.array([2, 7]), np.array([0, 1]), np.array([5, 10]))
    heard = listening(
        [
            WeightUpdate(0, 2, np.array([0, 7, 9]), np.array([0.6, 0.1, 0.2])),
            WeightUpdate(4, 7, np.array([2, 8]), np.array([0.3, 0.5])),
        ],
        10,
    )
    assert heard.dense(roster).weight.tolist() == [[0, 0.1], [0.3, 0]]
    assert roster.groups([0, 4, 5, 9]).tolist() == [0, 0, 1, 1]
    assert graph_auc(heard, roster) == 1.0  # inside .6 and .5, outside .1, .2 and .3
