from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.streams import Stream
from coterie.federation.label_bins import (
    Floats,
    Ints,
    LabelBins,
    label_bins,
    proportional_counts,
    ragged_arange,
    shuffled_within,
    take_disjoint,
    take_with_overlap,
)


def uniforms(rows: int, places: int, seed: int = 0) -> Floats:
    u: Floats = Stream(seed, "u").uniform(places + 1, client=torch.arange(rows)).numpy()
    return u


def test_proportional_counts_is_exact_where_it_can_be() -> None:
    weights, room = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]), np.full((2, 3), 100)
    counts = proportional_counts(np.array([8, 7]), weights, room, uniforms(2, 3))
    assert counts.tolist() == [[4, 2, 2], [0, 7, 0]]


def test_proportional_counts_fills_up_in_proportion() -> None:
    weights, room = np.array([[0.5, 0.375, 0.125, 0.0]]), np.array([[3, 100, 100, 100]])
    # 16 are 8, 6 and 2, but only 3 of the 8 are there; the other 5 go by 3 : 1, which is 3.75 and 1.25
    (counts,) = proportional_counts(np.array([16]), weights, room, uniforms(1, 4))
    assert counts[0] == 3
    assert (counts[1], counts[2]) in [(9, 4), (10, 3)]
    assert counts[3] == 0


def test_proportional_counts_falls_short_only_if_all_is_full() -> None:
    counts = proportional_counts(
        np.array([9, 0]), np.array([[0.9, 0.1, 0.0]] * 2), np.array([[2, 3, 50]] * 2), uniforms(2, 3)
    )
    assert counts.tolist() == [[2, 3, 0], [0, 0, 0]]


@settings(deadline=None, max_examples=60)
@given(
    total=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    places=st.integers(1, 6),
    seed=st.integers(0, 10**6),
)
def test_proportional_counts_properties(total: list[int], places: int, seed: int) -> None:
    rows, draw = len(total), Stream(seed, "case")
    weights = draw.uniform(rows * places).view(rows, places).numpy().round(1)
    room = draw.integers(rows * places, t=1, high=30).view(rows, places).numpy()
    counts = proportional_counts(np.array(total), weights, room, uniforms(rows, places, seed))
    assert (counts >= 0).all()
    assert (counts <= room).all()
    assert (counts[weights == 0] == 0).all()
    possible = np.where(weights > 0, room, 0).sum(1)
    assert counts.sum(1).tolist() == np.minimum(total, possible).tolist()


def test_proportional_counts_is_right_in_the_mean() -> None:
    weights = np.tile([0.5, 0.3, 0.2], (4000, 1))
    counts = proportional_counts(np.full(4000, 1), weights, np.full((4000, 3), 9), uniforms(4000, 3))
    np.testing.assert_allclose(counts.mean(0), [0.5, 0.3, 0.2], atol=0.03)


def test_ragged_arange() -> None:
    assert ragged_arange(np.array([[2, 0], [3, 1]])).tolist() == [0, 1, 0, 1, 2, 0]


# Rows 0 to 9 in two domains: 0 to 4 and 5 to 9; even rows have the label 0.
ROWS = np.arange(10)
BINS = label_bins(ROWS, ROWS // 5, ROWS % 2, (2, 2), Stream(0, "shelves"))


def test_label_bins() -> None:
    assert BINS.size.tolist() == [[3, 2], [2, 3]]
    assert BINS.start.tolist() == [[0, 3], [5, 7]]
    assert sorted(BINS.rows[:3]) == [0, 2, 4]
    assert sorted(BINS.rows[7:]) == [5, 7, 9]


def test_take_disjoint_gives_everything_once() -> None:
    counts, domain_of = np.array([[1, 2], [2, 0], [2, 3]]), np.array([0, 0, 1])
    rows = take_disjoint(BINS, domain_of, counts)
    assert sorted(rows) == list(range(10))
    assert [int(r) % 2 for r in rows] == [0, 1, 1, 0, 0, 0, 0, 1, 1, 1]
    assert [int(r) // 5 for r in rows] == [0] * 5 + [1] * 5


def test_take_with_overlap_gives_a_client_nothing_twice() -> None:
    counts, domain_of = np.array([[3, 1], [2, 2], [2, 3]]), np.array([0, 0, 1])
    rows = take_with_overlap(BINS, domain_of, counts, Stream(0, "pick"))
    for part, own in zip(np.split(rows, [4, 8]), (range(5), range(5), range(5, 10)), strict=True):
        assert len(set(part)) == len(part)
        assert set(part) <= set(own)
    assert [int(r) % 2 for r in rows] == [0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1]


def test_take_with_overlap_is_uniform_in_order() -> None:
    """Every one of the 6 ordered pairs of 3 rows is drawn as often."""
    clients = 6000
    rows = take_with_overlap(
        BINS, np.zeros(clients, np.int64), np.tile([2, 0], (clients, 1)), Stream(3, "pick")
    )
    pairs, count = np.unique(rows.reshape(-1, 2), axis=0, return_counts=True)
    assert len(pairs) == 6
    np.testing.assert_allclose(count, 1000, atol=120)


def one_by_one(bins: LabelBins, counts: Ints, stream: Stream) -> list[int]:
    """The same as a loop: a Fisher-Yates shuffle of each bin for each client, as far as it is needed."""
    u, picks = iter(stream.uniform(int(counts.sum())).tolist()), []
    for own in counts:
        for label, n in enumerate(own.tolist()):
            there = bins.rows[bins.start[0, label] :][: bins.size[0, label]].tolist()
            for k in range(n):
                j = k + int(next(u) * (len(there) - k))
                there[k], there[j] = there[j], there[k]
                picks.append(there[k])
    return picks


def test_take_with_overlap_is_the_loop_over_clients() -> None:
    """Few draws of a bin are made side by side, many one after the other; both are what the loop draws."""
    rows, draw = np.arange(140), Stream(0, "counts")
    bins = label_bins(rows, 0 * rows, np.repeat([0, 1, 2], [40, 99, 1]), (1, 3), Stream(0, "shelves"))
    counts = draw.integers(90, high=41).view(30, 3).numpy() % np.array([41, 41, 2])
    assert counts[:, :2].max() == 40
    taken = take_with_overlap(bins, np.zeros(30, np.int64), counts, Stream(5, "pick"))
    assert taken.tolist() == one_by_one(bins, counts, Stream(5, "pick"))


def test_shuffled_within_keeps_clients_together() -> None:
    client = np.repeat(np.arange(50), 40)
    order = shuffled_within(client, Stream(0, "shuffle"))
    assert sorted(order) == list(range(2000))
    assert (client[order] == client).all()
    assert order.tolist() == np.lexsort((Stream(0, "shuffle").uniform(2000).numpy(), client)).tolist()
