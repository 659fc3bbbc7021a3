from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import RunError
from coterie.runs.graph import CollaborationGraph, auc, graph, graph_auc
from coterie.runs.metrics import WeightUpdate

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


def test_the_graph_starts_at_one_over_m_and_keeps_the_newest() -> None:
    first = WeightUpdate(0, 0, np.array([1, 2]), np.array([0.7, 0.1]))
    second = WeightUpdate(4, 0, np.array([2]), np.array([0.6]))
    found = graph([first, second], 3)
    third = 1 / 3
    assert found.weight.tolist() == [[0, 0.7, 0.6], [third, 0, third], [third, third, 0]]
    assert found.met.tolist() == [[False, True, True], [False] * 3, [False] * 3]
    assert graph([first, second], 3, t=3).weight[0].tolist() == [0, 0.7, 0.1]


def test_a_client_that_knows_no_weight_changes_nothing() -> None:
    nothing = WeightUpdate(0, 0, np.zeros(0, dtype=np.int64), np.zeros(0))
    assert graph([nothing], 2).weight.tolist() == graph([], 2).weight.tolist() == [[0, 0.5], [0.5, 0]]
    with pytest.raises(RunError, match="more clients than the 2 there are"):
        graph([nothing, WeightUpdate(0, 2, np.array([0]), np.array([0.5]))], 2)


def test_only_pairs_that_met_count() -> None:
    group = np.array([0, 0, 1])
    weight = np.array([[0.0, 0.9, 0.1], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    met = np.array([[False, True, True], [False] * 3, [False] * 3])
    assert graph_auc(CollaborationGraph(weight, met), group) == 1.0
    # all pairs: in (0,1)=.9, (1,0)=0; out .1, 1, 1, 1: 1 of 8 pairs in order
    assert graph_auc(CollaborationGraph(weight, np.ones((3, 3), dtype=bool)), group) == 1 / 8
    assert graph_auc(CollaborationGraph(weight, np.zeros((3, 3), dtype=bool)), group) is None
