"""Every client's batches, probes and test samples are its own, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.data import Federation, Split
from coterie.engine.batches import StackedData
from coterie.engine.plan import prepare
from tests.engine.small import experiment

CPU, F64 = torch.device("cpu"), torch.float64


def federation(counts: list[int], pool: Tensor | None = None) -> Federation:
    """Clients whose samples are the rows of the pool in turn, the input being the row's number."""
    total = sum(counts)
    rows = torch.arange(total)
    split = Split(rows, rows % 3, torch.tensor(counts))
    none = Split(rows[:0], rows[:0], torch.zeros(len(counts), dtype=torch.int64))
    pool = torch.arange(100.0)[:, None] if pool is None else pool
    return Federation(pool, split, none, split, split, torch.zeros(len(counts)), ("a", "b", "c"))


def feed(counts: list[int], seed: int = 0, probe: int | Literal["all"] = "all") -> StackedData:
    return StackedData.of([federation(counts)], [seed], probe, CPU, F64)


@given(st.lists(st.integers(1, 12), min_size=2, max_size=6), st.integers(1, 9), st.integers(0, 2**62))
def test_draws_stay_within_the_clients_own_samples(counts: list[int], batch: int, seed: int) -> None:
    f = feed(counts, seed)
    draws = f.batch_positions(torch.arange(1, 21), slice(0, len(counts)), batch)
    assert draws.shape == (20, len(counts), batch)
    first = torch.tensor(counts).cumsum(0) - torch.tensor(counts)
    assert bool((draws >= first[:, None]).all())
    assert bool((draws < (first + torch.tensor(counts))[:, None]).all())
    x, y = f.samples(f.train, draws)
    assert torch.equal(x[..., 0], draws.double())  # here, the input is the row's number
    assert torch.equal(y, draws % 3)


def test_draws_are_uniform_and_with_replacement() -> None:
    f = feed([1, 5])
    draws = f.batch_positions(torch.arange(1, 1001), slice(0, 2), 8)
    assert bool((draws[:, 0] == 0).all())  # a client with one sample has it eight times over
    times = torch.bincount(draws[:, 1].flatten() - 1, minlength=5)
    assert times.sum() == 8000
    assert (times - 1600).abs().max() < 150  # the standard deviation is 36
    distinct = [len(set(row)) for row in draws[:, 1].tolist()]
    assert max(distinct) == 5  # eight draws of five: some twice
    assert min(distinct) < 5


def test_clients_seeds_and_iterations_draw_on_their_own() -> None:
    f = StackedData.of([federation([50, 50]), federation([50, 50])], [1, 2], "all", CPU, F64)
    draws = f.batch_positions(torch.arange(1, 401), slice(0, 4), 2) % 50
    flat = draws.permute(1, 0, 2).flatten(1).double()
    assert (torch.corrcoef(flat) - torch.eye(4)).abs().max() < 0.15
    assert not torch.equal(draws[0], draws[1])
    alone = StackedData.of([federation([50, 50])], [2], "all", CPU, F64)
    assert torch.equal(alone.batch_positions(torch.arange(1, 401), slice(0, 2), 2) % 50, draws[:, 2:])


def test_one_iteration_or_one_client_at_a_time_draws_the_same() -> None:
    f = feed([3, 7, 5])
    ts = torch.tensor([4, 9, 10])
    draws, keys = f.batch_positions(ts, slice(0, 3), 4), f.keys(ts, slice(0, 3))
    for i in range(3):
        for k, t in enumerate(ts):
            assert torch.equal(f.batch_positions(t[None], slice(i, i + 1), 4)[0, 0], draws[k, i])
            assert f.keys(t[None], slice(i, i + 1))[0, 0] == keys[k, i]
    assert len(set(keys.flatten().tolist())) == 9


def test_probes_of_all_samples_are_padded_and_masked() -> None:
    f = feed([2, 4, 1])
    probe = f.probe(torch.tensor([2, 1]), t=5)
    assert probe.mask.tolist() == [[True, False, False, False], [True] * 4]
    assert probe.size.tolist() == [1, 4]
    assert probe.x[0, 0, 0] == 6
    assert probe.x[1, :, 0].tolist() == [2, 3, 4, 5]
    assert torch.equal(probe.y[probe.mask], probe.x[..., 0][probe.mask].long() % 3)


def test_probes_of_a_given_size_are_drawn_from_the_clients_own() -> None:
    f = feed([2, 4, 1], probe=6)
    probe = f.probe(torch.tensor([0, 2, 1]), t=5)
    assert probe.x.shape == (3, 6, 1)
    assert bool(probe.mask.all())
    assert probe.size.tolist() == [2, 1, 4]  # |X_i|, whatever the probe's size
    for row, (low, high) in zip(probe.x[..., 0].tolist(), [(0, 1), (6, 6), (2, 5)], strict=True):
        assert all(low <= value <= high for value in row)
    later = f.probe(torch.tensor([0, 2, 1]), t=6)
    assert not torch.equal(later.x, probe.x)


def test_equal_pools_are_kept_once() -> None:
    pool, other = torch.arange(100.0)[:, None], 1000 + torch.arange(100.0)[:, None]
    f = StackedData.of(
        [federation([2, 3], pool), federation([4], other), federation([1, 1], pool)],
        [0, 0, 1],
        "all",
        CPU,
        F64,
    )
    assert len(f.pool) == 200
    x, _ = f.samples(f.train, torch.arange(11))
    assert x[:, 0].tolist() == [0, 1, 2, 3, 4, 1000, 1001, 1002, 1003, 0, 1]
    assert f.client.tolist() == [0, 1, 0, 0, 1]
    assert f.seed.tolist() == [0, 0, 0, 1, 1]


def test_worlds_of_an_experiment_share_their_pool() -> None:
    plan = prepare(experiment(methods=["Local", "FedAvg"], seeds=[0, 1], grid={"data.clients": [4, 6]}))
    assert len({id(f.pool) for f in plan.federations}) == 1
    (stack,) = plan.stacks
    assert torch.equal(stack.data.pool, plan.federations[0].pool.double())
    for member in stack.members:
        own = member.federation.train
        part = stack.data.train
        assert part.count[member.clients].tolist() == own.count.tolist()
        start = int(part.first[member.clients][0])
        assert torch.equal(part.label[start : start + len(own.label)], own.label)
        assert torch.equal(part.index[start : start + len(own.index)], own.index)


def test_held_out_samples_are_in_no_mini_batch_and_marked_in_the_probe() -> None:
    """Of 10, 2 and 1 samples a fifth: 2, at least one, and not the last."""
    counts = [10, 2, 1]
    plain = feed(counts)
    data = StackedData.of([federation(counts)], [0], "all", CPU, F64, holdouts=[0.2])
    assert data.held.tolist() == [2, 1, 0]
    drawn = data.batch_positions(torch.arange(1, 401), slice(0, 3), 4)
    probe = data.probe(torch.arange(3), 0)
    for i, count in enumerate(counts):
        own = plain.probe(torch.tensor([i]), 0).x[0, :count, 0].tolist()
        assert sorted(probe.x[i, :count, 0].tolist()) == own  # the same samples in another order
        held = set(probe.x[i, probe.held[i], 0].tolist())
        assert len(held) == int(data.held[i])
        x, _ = data.samples(data.train, drawn[:, i])
        assert set(x.flatten().tolist()) == set(own) - held
    few = dataclasses.replace(data, probe_size=6).probe(torch.arange(3), 5)
    for i in range(3):
        marked = set(few.x[i, few.held[i], 0].tolist())
        assert marked == set(few.x[i, :, 0].tolist()) & set(probe.x[i, probe.held[i], 0].tolist())


def test_a_context_has_the_learning_rate_of_each_world_and_phase() -> None:
    own = {"Own": {"name": "Local", "train": {"lr": 0.5}}, "Common": {"name": "Local"}}
    e = experiment(methods=own, train__lr=0.25, train__personalize=0.5, train__personalize_lr=0.125)
    (stack,) = prepare(e).stacks
    ends = torch.tensor([0, 4])  # the first clients of the two worlds
    assert stack.context("mix", 5, ends).lr.tolist() == [0.5, 0.25]
    assert stack.context("mix", 24, ends).lr.tolist() == [0.125, 0.125]
    ts = torch.tensor([[12], [13]])
    assert stack.context("local", ts, slice(3, 5)).lr.tolist() == [[0.5, 0.25], [0.125, 0.125]]
    assert stack.members[0].schedule.context("mix", 5, 0).lr.item() == 0.5
