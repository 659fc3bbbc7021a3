"""Counts, order statistics and different numbers: by hand where that is possible, else by count."""

from __future__ import annotations

import math

import pytest
import torch

from coterie.core.sparse_links import binomial, distinct, smallest
from coterie.core.streams import Stream


def test_binomial_by_hand() -> None:
    two = binomial(2, 0.5)
    assert (two.first, two.most) == (0, 2)
    assert two.cumulative.tolist() == pytest.approx([0.25, 0.75, 1.0], abs=1e-15)
    assert two.draw(torch.tensor([0.1, 0.25, 0.26, 0.75, 0.76, 1.0]).double()).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("n", "p", "count"), [(0, 0.3, 0), (7, 0.0, 0), (7, 1.0, 7), (7, 1.2, 7)])
def test_binomial_without_chance(n: int, p: float, count: int) -> None:
    assert binomial(n, p).draw(torch.tensor([1e-9, 0.5, 1.0]).double()).tolist() == [count] * 3


@pytest.mark.parametrize(("n", "p"), [(20, 0.3), (500, 0.01), (500, 0.9)])
def test_binomial_probabilities(n: int, p: float) -> None:
    found = binomial(n, p)
    chances = found.cumulative.diff(prepend=torch.zeros(1, dtype=torch.float64)).tolist()
    exact = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(found.first, found.most + 1)]
    assert chances == pytest.approx(exact, rel=1e-9, abs=1e-15)
    assert sum(exact) == pytest.approx(1, abs=1e-12)  # what is left out is not missed


def test_few_of_very_many_are_as_poisson_says() -> None:
    found = binomial(10**6, 5e-6)
    assert float(found.cumulative[0]) == pytest.approx(math.exp(-5), rel=1e-4)
    assert found.most < 50


def test_the_smallest_by_hand() -> None:
    u = torch.tensor([[0.25, 0.5], [0.25, 0.5]], dtype=torch.float64)
    # Of one: 1 - 1/4. Of two: 1 - sqrt(1/4), and 1 - sqrt(1/4) / 2.
    assert smallest(u, torch.tensor([1, 2])).tolist() == [
        [pytest.approx(0.75), pytest.approx(0.875)],
        [pytest.approx(0.5), pytest.approx(0.75)],
    ]


def test_the_smallest_are_those_of_so_many() -> None:
    n, count = 40_000, 7
    drawn = smallest(Stream(1, "v").uniform(3, client=torch.arange(n)), torch.full((n,), count))
    sorted_ = Stream(2, "w").uniform(count, client=torch.arange(n)).sort(dim=1).values[:, :3]
    for j in range(3):
        mean, spread = (
            (j + 1) / (count + 1),
            math.sqrt((j + 1) * (count - j) / (count + 1) ** 2 / (count + 2)),
        )
        assert float(drawn[:, j].mean()) == pytest.approx(mean, abs=4 * spread / math.sqrt(n))
        parts = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
        gap = (drawn[:, j].quantile(parts) - sorted_[:, j].quantile(parts)).abs().max()
        assert float(gap) < 0.01  # of two samples of one distribution
    assert (drawn.diff(dim=1) > 0).all()
    both, other = (torch.corrcoef(v[:, :2].T)[0, 1] for v in (drawn, sorted_))
    assert float(both) == pytest.approx(float(other), abs=0.02)


def test_different_numbers() -> None:
    count = torch.tensor([3, 0, 5, 5])
    found = distinct(Stream(1, "d"), torch.zeros(4).long(), torch.arange(4), count, 5)
    assert found.shape == (4, 5)
    for row, k in zip(found, count.tolist(), strict=True):
        assert len(set(row[:k].tolist())) == k
        assert not row[k:].any()
        assert (row < 5).all()
    assert sorted(found[3].tolist()) == [0, 1, 2, 3, 4]
    alone = distinct(Stream(1, "d"), torch.zeros(1).long(), torch.tensor([0]), count[:1], 5)
    assert torch.equal(alone[0], found[0, :3])  # what one draws does not depend on the others


def test_different_numbers_are_any_numbers_in_any_order() -> None:
    n = 60_000
    found = distinct(Stream(5, "d"), torch.zeros(n).long(), torch.arange(n), torch.full((n,), 2), 4)
    pairs = (found[:, 0] * 4 + found[:, 1]).bincount(minlength=16).view(4, 4)
    assert not pairs.diagonal().any()
    off = pairs[~torch.eye(4, dtype=torch.bool)]
    assert off.tolist() == pytest.approx([n / 12] * 12, abs=4.5 * math.sqrt(n / 12))


def test_nobody_draws_nothing() -> None:
    nobody = torch.zeros(0, dtype=torch.int64)
    assert distinct(Stream(1, "d"), nobody, nobody, nobody, 5).shape == (0, 0)
