"""Streams: the published answers of Philox4x32-10, independence, ranges, shapes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.func import vmap

from coterie.core.streams import Stream, philox

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_random123(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (torch.tensor(c) for c in counter)
    k0, k1 = (torch.tensor(k) for k in key)
    assert tuple(philox((c0, c1, c2, c3), (k0, k1)).tolist()) == words


@given(st.integers(0, 2**62), st.integers(0, 2**40), st.integers(0, 2**31), st.integers(0, 9))
def test_a_stack_of_draws_is_the_single_draws(seed: int, t: int, client: int, n: int) -> None:
    stream = Stream(seed, "any")
    clients, ts = torch.tensor([client, client + 1, 3]), torch.tensor([[t], [t + 1]])
    together = stream.words(n, ts, clients)
    assert together.shape == (2, 3, n)
    for i in range(2):
        for j in range(3):
            assert together[i, j].tolist() == stream.words(n, int(ts[i, 0]), int(clients[j])).tolist()


def test_a_stack_of_seeds_is_the_single_seeds() -> None:
    seeds = torch.tensor([0, 7, 2**40])
    together = Stream(seeds, "any").uniform(5, t=3, client=torch.tensor([1, 2, 3]))
    for i, seed in enumerate(seeds.tolist()):
        assert together[i].tolist() == Stream(seed, "any").uniform(5, t=3, client=i + 1).tolist()


def test_a_short_draw_is_the_beginning_of_a_long_one() -> None:
    stream = Stream(5, "any")
    assert stream.words(11)[:6].tolist() == stream.words(6).tolist()


def test_draws_differ_in_seed_purpose_iteration_and_client() -> None:
    draws = [
        tuple(Stream(seed, purpose).words(4, t, client).tolist())
        for seed in (0, 1, 2**32, -1)
        for purpose in ("batch", "channel")
        for t in (0, 1, 2**32)
        for client in (0, 1, 2)
    ]
    assert len(set(draws)) == len(draws) == 4 * 2 * 3 * 3


def test_two_clients_are_not_correlated() -> None:
    u, v = Stream(0, "any").uniform(20_000, client=torch.tensor([0, 1]))
    # Standard error of a correlation of n pairs: 1/sqrt(n) = 0.007.
    assert abs(float(torch.corrcoef(torch.stack([u, v]))[0, 1])) < 0.03


def test_uniform_numbers_lie_strictly_between_zero_and_one() -> None:
    u = Stream(3, "any").uniform(100_000)
    assert u.dtype == torch.float64
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.002


def test_the_extreme_words_give_neither_zero_nor_one() -> None:
    class Extreme(Stream):
        def words(self, n: int, t: object = 0, client: object = 0) -> torch.Tensor:
            return torch.tensor([0, ONES])

    low, high = Extreme(0, "any").uniform(2).tolist()
    assert 0 < low < high < 1


@given(st.integers(1, 1000), st.integers(0, 50))
def test_integers_stay_in_range(high: int, t: int) -> None:
    draws = Stream(1, "any").integers(64, t, high=high)
    assert draws.dtype == torch.int64
    assert draws.min() >= 0
    assert draws.max() < high


def test_integers_are_uniform() -> None:
    counts = Stream(4, "any").integers(20_000, high=10).bincount(minlength=10)
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_integers_with_a_bound_for_each_client() -> None:
    high = torch.tensor([[1], [3], [100]])
    draws = Stream(0, "any").integers(500, client=torch.arange(3), high=high)
    assert draws.amax(dim=-1).tolist() == [0, 2, 99]
    assert draws.amin(dim=-1).tolist() == [0, 0, 0]


def test_normal_numbers_have_the_moments_of_a_normal() -> None:
    z = Stream(2, "any").normal(50_000)
    # Standard errors with n = 50,000: mean 0.0045, variance 0.0063, third 0.017, fourth 0.044.
    assert abs(z.mean()) < 0.015
    assert abs(z.var() - 1) < 0.02
    assert abs((z**3).mean()) < 0.06
    assert abs((z**4).mean() - 3) < 0.15


@given(st.integers(0, 40), st.integers(0, 1000))
def test_a_permutation_holds_everything_once(n: int, t: int) -> None:
    orders = Stream(9, "any").permutation(n, t, torch.arange(3))
    assert orders.sort(dim=-1).values.tolist() == [list(range(n))] * 3


def test_all_permutations_come_equally_often() -> None:
    orders = Stream(9, "any").permutation(3, torch.arange(6000))
    codes = (orders * torch.tensor([9, 3, 1])).sum(dim=-1)
    counts = torch.tensor([int((codes == code).sum()) for code in set(codes.tolist())])
    assert len(counts) == math.factorial(3)
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_vmap_over_seeds_iterations_and_clients() -> None:
    seeds, ts, clients = torch.tensor([0, 5, 2**40]), torch.tensor([1, 2, 3]), torch.tensor([7, 7, 8])
    for draw in ("words", "uniform", "normal", "permutation"):
        mapped = vmap(lambda s, t, c, draw=draw: getattr(Stream(s, "any"), draw)(6, t, c))(seeds, ts, clients)
        for i in range(3):
            single = getattr(Stream(int(seeds[i]), "any"), draw)(6, int(ts[i]), int(clients[i]))
            assert mapped[i].tolist() == single.tolist()


def test_numbers_at_some_places_of_a_longer_draw() -> None:
    t, client = torch.tensor([3, 4]), torch.tensor([7, 2**33])
    longer = Stream(5, "demo").uniform(1000, t, client)
    position = torch.tensor([[0, 999, 17, 17], [3, 4, 5, 6]])
    assert torch.equal(Stream(5, "demo").uniform_at(position, t, client), longer.gather(1, position))


def test_numbers_of_more_bits_lie_where_those_of_fewer_do() -> None:
    fine = Stream(5, "demo").uniform_64(50, client=torch.arange(40))
    words = Stream(5, "demo").words(100, client=torch.arange(40))[:, ::2]
    assert ((fine * 2**32).floor() - words).abs().max() <= 1
    assert ((fine > 0) & (fine <= 1)).all()
