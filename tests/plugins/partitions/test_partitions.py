from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.data import Partition
from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import build, registered
from coterie.core.streams import Stream
from coterie.plugins.partitions.dirichlet import DirichletPartitioner
from coterie.plugins.partitions.iid import IidPartitioner
from coterie.plugins.partitions.pathological import PathologicalPartitioner
from coterie.plugins.partitions.shard import ShardPartitioner

Y = torch.tensor([0] * 10 + [1] * 20 + [2] * 30 + [3] * 40)


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(["iid", "dirichlet", "pathological", "shard"]),
    clients=st.integers(2, 30),
    seed=st.integers(0, 10**6),
)
def test_rows_sum_to_one(name: str, clients: int, seed: int) -> None:
    partition: Partition = build("partition", name, {}, "data.partition")
    p = partition.proportions(Y, 4, clients, Stream(seed, "p"))
    assert p.shape == (clients, 4)
    assert p.dtype == torch.float64
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.sum(1), torch.ones(clients, dtype=torch.float64))
    assert torch.equal(p, partition.proportions(Y, 4, clients, Stream(seed, "p")))


def test_names() -> None:
    assert set(registered("partition")) == {"iid", "dirichlet", "pathological", "shard"}
    assert build("partition", "DirichletPartitioner", {"alpha": 0.3}, "p") == DirichletPartitioner(0.3)


def test_iid() -> None:
    assert IidPartitioner().proportions(Y, 5, 2, Stream(0, "p")).tolist() == [[0.1, 0.2, 0.3, 0.4, 0]] * 2


@pytest.mark.parametrize("alpha", [0, -1, "x", float("nan"), float("inf")])
def test_alpha_is_positive(alpha: object) -> None:
    with pytest.raises(ConfigError, match=r"data\.partition\.alpha"):
        build("partition", "dirichlet", {"alpha": alpha}, "data.partition")


@pytest.mark.parametrize("alpha", [0.1, 0.5, 3.0])
def test_dirichlet_moments(alpha: float) -> None:
    """The mean of a share is 1 / L, its variance (L - 1) / (L² (α L + 1))."""
    p = DirichletPartitioner(alpha).proportions(Y, 5, 20_000, Stream(1, "p"))
    assert p.mean(0).tolist() == pytest.approx([0.2] * 5, abs=0.01)
    assert p.var(0).tolist() == pytest.approx([4 / (25 * (5 * alpha + 1))] * 5, rel=0.05)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1e-2, 1e6])
def test_dirichlet_extremes_are_finite(alpha: float) -> None:
    p = DirichletPartitioner(alpha).proportions(Y, 4, 500, Stream(0, "p"))
    assert bool(torch.isfinite(p).all())
    torch.testing.assert_close(p.sum(1), torch.ones(500, dtype=torch.float64))
    if alpha < 1e-2:  # one label for each client, any of them as often
        assert p.max(1).values.quantile(0.1) > 0.9
        assert np.bincount(p.argmax(1).numpy()).tolist() == pytest.approx([125] * 4, abs=40)
    if alpha == 1e6:
        torch.testing.assert_close(p, torch.full_like(p, 0.25), atol=0.01, rtol=0)


@settings(deadline=None, max_examples=30)
@given(clients=st.integers(2, 30), k=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_pathological_covers_evenly(clients: int, k: int, seed: int) -> None:
    p = PathologicalPartitioner(k).proportions(Y, 6, clients, Stream(seed, "p"))
    assert bool(((p == 1 / k).sum(1) == k).all())
    taken = (p > 0).sum(0)[:4]  # labels 4 and 5 do not occur
    assert int(taken.sum()) == clients * k
    assert int(taken.max() - taken.min()) <= 1


def test_pathological_too_many() -> None:
    with pytest.raises(DataError, match="num_classes_per_partition = 5, but only 4 labels"):
        PathologicalPartitioner(5).proportions(Y, 10, 3, Stream(0, "p"))


def test_shards() -> None:
    # 4 shards of 25: 10 + 15, 5 + 20, 10 + 15, 25
    p = ShardPartitioner(1).proportions(Y, 4, 4, Stream(0, "p"))
    rows = sorted((p * 25).round().long().tolist())
    assert rows == [[0, 0, 0, 25], [0, 0, 10, 15], [0, 5, 20, 0], [10, 15, 0, 0]]
    two = ShardPartitioner(2).proportions(Y, 4, 2, Stream(0, "p"))
    assert two.mean(0).tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_more_shards_than_samples() -> None:
    with pytest.raises(DataError, match=r"60 clients .* = 2 need 120 samples, but there are 100"):
        ShardPartitioner(2).proportions(Y, 4, 60, Stream(0, "p"))
