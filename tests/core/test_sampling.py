"""Contexts, first rows and held-out samples by hand."""

from __future__ import annotations

import pytest
import torch

from coterie.core.sampling import context, first_row, held_out, training_order
from coterie.core.types import Probe


def test_a_context_tells_the_time() -> None:
    ctx = context("local", 1, torch.arange(8, 13), 3, last=10, every=5)
    assert ctx.t.tolist() == [8, 9, 10, 11, 12]
    assert ctx.since.tolist() == [3, 4, 0, 1, 2]
    assert ctx.closing.tolist() == [False, False, False, True, True]
    assert len(set(ctx.key.tolist())) == 5


def test_streams_of_a_context_differ_by_purpose_and_are_the_same_again() -> None:
    one, other = (context("mix", 1, t, 3, last=10, every=5) for t in (4, 5))
    draws = [c.stream(p).uniform(3).tolist() for c in (one, other) for p in ("a", "b")]
    assert len({tuple(d) for d in draws}) == 4
    assert one.stream("a").uniform(3).tolist() == draws[0]


def test_the_first_row() -> None:
    assert first_row(1, 4, torch.float64).tolist() == [0.25, 0, 0.25, 0.25]
    assert first_row(torch.tensor([0, 2]), 4, torch.float32).tolist() == [
        [0, 0.25, 0.25, 0.25],
        [0.25, 0.25, 0, 0.25],
    ]


@pytest.mark.parametrize(
    ("count", "share", "held"), [(10, 0.2, 2), (10, 0.01, 1), (2, 0.2, 1), (1, 0.2, 0), (3, 0.99, 2)]
)
def test_how_many_are_held_out(count: int, share: float, held: int) -> None:
    assert int(held_out(torch.tensor(count), share)) == held


def test_the_order_of_one_client_does_not_depend_on_the_others() -> None:
    together = training_order(7, torch.tensor([4, 9]), torch.tensor([5, 3]))
    assert sorted(together[0].tolist()) == [0, 1, 2, 3, 4]
    assert sorted(together[1, :3].tolist()) == [0, 1, 2]
    alone = training_order(7, torch.tensor([9]), torch.tensor([3]))
    assert together[1, :3].tolist() == alone[0].tolist()


def test_the_mean_over_a_probe() -> None:
    mask, held = torch.tensor([True, True, True, False]), torch.tensor([False, True, True, True])
    probe = Probe(torch.zeros(4, 1), torch.zeros(4), mask, torch.tensor(3.0), held)
    values = torch.tensor([[1.0, 2.0, 6.0, 100.0], [0.0, 0.0, 3.0, 7.0]])
    assert probe.mean(values).tolist() == [3, 1]
    assert probe.mean(values, probe.held).tolist() == [4, 1.5]
    assert probe.mean(values, ~mask).isnan().all()  # nothing to average
