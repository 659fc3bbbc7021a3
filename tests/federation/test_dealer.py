from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.core.data import Federation, Split
from coterie.core.errors import ConfigError, DataError, UnknownNameError
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.plugins.datasets.digits import Digits

DIGITS = Dealer(None)
Y = Digits().load(None).train.y


def experiment(uniform: int = 40, **data: Any) -> Experiment:
    return Experiment().replace(data=data, evaluate__uniform=uniform)


def deal(uniform: int = 40, seed: int = 0, **data: Any) -> Federation:
    return DIGITS.federation(experiment(uniform, **data), seed)


def each(split: Split) -> list[torch.Tensor]:
    """The rows of every client."""
    return list(torch.split(split.index, split.count.tolist()))


def labels(split: Split) -> list[torch.Tensor]:
    return list(torch.split(split.label, split.count.tolist()))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for a module `mine` of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield tmp_path / "mine.py"
    sys.modules.pop("mine", None)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    partition=st.sampled_from(["iid", "dirichlet", "pathological", "shard"]),
    clients=st.integers(2, 12),
    way=st.sampled_from(["overlap", "disjoint", "all"]),
    validation=st.sampled_from([0.0, 0.2, 0.5]),
    seed=st.integers(0, 1000),
)
def test_what_always_holds(partition: str, clients: int, way: str, validation: float, seed: int) -> None:
    skew = {"name": partition, **({"alpha": 0.5} if partition == "dirichlet" else {})}
    world = experiment(
        clients=clients,
        partition=skew,
        validation=validation,
        test=20,
        sizes="all" if way == "all" else [5, 30],
        overlap=way == "overlap",
        min_partition_size=1,
    )
    f = DIGITS.federation(world, seed)
    assert f.pool is deal().pool
    for split in (f.train, f.validation, f.personal, f.uniform):
        assert len(split.count) == clients
        assert int(split.count.sum()) == len(split.index) == len(split.label)
        assert torch.equal(split.label, Y[split.index])  # no shift, so true names
    held = [torch.cat(pair) for pair in zip(each(f.train), each(f.validation), strict=True)]
    test = set(f.personal.index.tolist()) | set(f.uniform.index.tolist())
    for rows, personal in zip(held, each(f.personal), strict=True):
        assert len(set(rows.tolist())) == len(rows)
        assert len(set(personal.tolist())) == len(personal) <= 20
        assert len(personal) >= 1
        assert not test & set(rows.tolist())
    assert f.train.count.min() >= 1
    if way == "all":
        assert len(set(torch.cat(held).tolist())) == len(torch.cat(held))
    else:
        assert 5 <= f.train.count.min() <= f.train.count.max() <= 30
        assert f.validation.count.tolist() == [math.ceil(validation * n) for n in f.train.count.tolist()]
        if way == "disjoint":
            assert len(set(torch.cat(held).tolist())) == len(torch.cat(held))
    assert f.uniform.label.bincount().tolist() == [4 * clients] * 10
    assert len({tuple(rows.tolist()) for rows in each(f.uniform)}) == 1


def test_same_settings_same_objects() -> None:
    dealer = Dealer(None)
    one = dealer.federation(experiment(), 0)
    assert dealer.federation(experiment().replace(train__lr=0.5, methods=["Local"]), 0) is one
    other = dealer.federation(experiment(), 1)
    assert other is not one
    assert other.pool is one.pool
    assert not torch.equal(other.train.index[:10], one.train.index[:10])
    turned = [dealer.federation(experiment(shift=["rotate"]), seed).pool for seed in (0, 1)]
    assert turned[0] is turned[1]
    assert len(turned[0]) == 2 * len(one.pool)
    assert dealer.federation(experiment(shift=["concept"]), 0).pool is one.pool
    again = Dealer(None).federation(experiment(), 0)
    assert torch.equal(again.train.index, one.train.index)
    assert torch.equal(again.personal.index, one.personal.index)


def test_test_part_is_stratified() -> None:
    """30 % of every digit is kept from training, and another 30 % for another seed."""
    parts = []
    for seed in (0, 1):
        f = deal(seed=seed, clients=2, sizes="all")
        held = torch.cat([f.train.index, f.validation.index])
        assert Y[held].bincount().tolist() == [n - round(0.3 * n) for n in Y.bincount().tolist()]
        parts.append(set(held.tolist()))
    assert parts[0] != parts[1]


def test_groups_stand_side_by_side_and_cross() -> None:
    f = deal(clients=8, shift=["concept", {"name": "rotate", "groups": 2}])
    assert f.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    n = len(f.pool) // 2
    assert torch.equal(f.pool[n:], f.pool[:n].rot90(2, (2, 3)))
    for split in (f.train, f.validation, f.personal, f.uniform):
        for i, (rows, names) in enumerate(zip(each(split), labels(split), strict=True)):
            turned = i // 2 % 2 == 1
            assert bool(((rows >= n) == turned).all())
            assert bool(((Y[rows % n] == names) == (i < 4)).all())  # in group 1 every label has another name
    uniform = [r % n for r in each(f.uniform)]
    assert all(torch.equal(r, uniform[0]) for r in uniform)


def test_a_concept_is_one_permutation() -> None:
    f = deal(clients=4, shift=["concept"])
    for i in (2, 3):
        parts = (f.train, f.validation, f.personal, f.uniform)
        rows = torch.cat([each(split)[i] for split in parts])
        names = torch.cat([labels(split)[i] for split in parts])
        called = dict(zip(Y[rows].tolist(), names.tolist(), strict=True))
        assert sorted(called) == sorted(called.values()) == list(range(10))
        assert names.tolist() == [called[label] for label in Y[rows].tolist()]


def test_groups_of_tasks_keep_their_samples() -> None:
    f = deal(clients=8, set={"name": "synthetic", "groups": 4, "samples": 200, "classes": 3})
    assert f.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for split, start in ((f.train, 0), (f.validation, 0), (f.personal, 800), (f.uniform, 800)):
        for i, rows in enumerate(each(split)):
            assert bool(((rows - start) // 200 == i // 2).all())


def test_iid_counts_follow_the_labels() -> None:
    f = deal(clients=3, sizes=[100, 100], validation=0.0)
    for names in labels(f.train):
        assert names.bincount(minlength=10).tolist() == pytest.approx([10] * 10, abs=1.2)


def test_all_data_are_dealt_out(mine: Path) -> None:
    mine.write_text(
        "import torch\n"
        "from coterie.core.data import Dataset, Samples\n"
        "def data():\n"
        "    y = torch.arange(24) % 2\n"
        "    return Dataset(Samples(torch.zeros(24, 1), y), Samples(torch.ones(4, 1), y[:4]), ('a', 'b'))\n"
    )
    f = deal(uniform=20, set="mine:data", clients=2, sizes="all")
    # 12 each, of which 10 for training and 2, a fifth of that, for validation
    assert f.train.count.tolist() == [10, 10]
    assert f.validation.count.tolist() == [2, 2]
    assert sorted(torch.cat([f.train.index, f.validation.index]).tolist()) == list(range(24))
    assert f.personal.count.tolist() == [4, 4]  # there are no more
    assert f.uniform.label.bincount().tolist() == [20, 20]  # 10 of each label for each client, repeated
    assert set(f.uniform.index.tolist()) == {24, 25, 26, 27}


def test_a_function_with_a_pair_for_every_client(mine: Path) -> None:
    mine.write_text(
        "import numpy as np\n"
        "def data(clients):\n"
        "    return [(np.full((20, 2), i), np.arange(20) % (2 + i)) for i in range(clients)]\n"
    )
    world = experiment(set={"name": "mine:data", "clients": 3}, clients=3)
    f = Dealer(None).federation(world, 0)
    assert f.group.tolist() == [0, 0, 0]
    for split in (f.train, f.validation, f.personal):
        for i, rows in enumerate(each(split)):
            assert set(f.pool[rows].flatten().tolist()) == {i}
    # label counts 10 + 10, 7 + 7 + 6 and 5 x 4; 30 % of each, rounded, is for testing
    assert f.personal.count.tolist() == [6, 6, 8]
    assert (f.train.count + f.validation.count).tolist() == [14, 14, 12]
    with pytest.raises(DataError, match=r"dealt to 3 owners, numbered from 0 to 2, but data.clients = 5"):
        Dealer(None).federation(world.replace(data__clients=5), 0)
    with pytest.raises(ConfigError, match="already dealt"):
        Dealer(None).federation(world.replace(data__partition="dirichlet"), 0)
    with pytest.raises(ConfigError, match=r"missing a required argument: 'clients'"):
        Dealer(None).federation(world.replace(data__set="mine:data"), 0)
    with pytest.raises(UnknownNameError, match="client"):
        Dealer(None).federation(world.replace(data__set={"name": "mine:data", "client": 3}), 0)


def save(folder: Path, **columns: list[int]) -> dict[str, str]:
    """An archive with a data set of one feature, the number of the sample."""
    arrays = {k: np.array(v) for k, v in columns.items()}
    arrays["x"] = np.arange(len(columns["y"]))[:, None]
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    return {"name": "npz", "path": str(folder / "data.npz")}


HALVES = {"y": [0, 1] * 20}


@pytest.mark.parametrize(
    ("columns", "data", "message"),
    [
        (
            HALVES,
            {"sizes": [100, 100]},
            r"client 0 needs 100 .* 20 for validation, of 2 .* only 24 \+ 4 such",
        ),
        (
            HALVES,
            {"sizes": [10, 10], "overlap": False},
            r"4 clients need 40 .* 24 and 4, enough for about 2 such clients; set data.overlap = true",
        ),
        (
            {"y": [0] * 36 + [1] * 4},
            {
                "sizes": [5, 5],
                "overlap": False,
                "validation": 0.0,
                "partition": {"name": "pathological", "num_classes_per_partition": 1},
            },
            r"client 1 needs 5 .* only [0-9] \+ 0 such samples left by other",
        ),
        (HALVES, {"partition": {"name": "pathological", "num_classes_per_partition": 3}}, "= 3, but only 2"),
        (HALVES, {"shift": [{"name": "concept", "groups": 3}]}, "3 groups cannot all differ on 2 labels"),
        (HALVES, {"shift": ["rotate"]}, "rotate shift: expected images"),
        (HALVES | {"group": [0, 2] * 20}, {}, "group 1 of 3 has no training samples"),
        (HALVES | {"group": [0, 1] * 20}, {"shift": ["concept", "rescale"]}, "4 are too few for 8 groups"),
        (HALVES | {"owner": [0, 1, 2, 4] * 10}, {}, "numbered from 0 to 4"),
        (
            HALVES | {"owner": [0, 1, 2, 3] * 10, "group": [0] * 39 + [1]},
            {},
            "client 3 owns samples of several",
        ),
        (
            {"y": [0, 0, 1, 1, 0, 1, 0, 1], "owner": [0, 0, 1, 1, 2, 2, 3, 3]},
            {},
            r"client 0 gets 1 of .* = 2",
        ),
        ({"y": [0, 1]}, {}, "no test part can be drawn from 2 samples"),
        ({"y": [0, 0]}, {}, "at least 2 classes"),
        ({"y": [-1, 1]}, {}, "y must be from 0 to 1, got -1 to 1"),
    ],
)
def test_infeasible(
    tmp_path: Path, columns: dict[str, list[int]], data: dict[str, Any], message: str
) -> None:
    world = experiment(set=save(tmp_path, **columns), clients=4, **data)
    with pytest.raises((DataError, ConfigError), match=message):
        Dealer(None).federation(world, 0)


def test_too_many_clients_for_a_full_deal() -> None:
    message = r"gets [01] of 1258 samples .*\.min_partition_size = 2 in the last of 10 deals; use fewer"
    with pytest.raises(DataError, match=message):
        deal(clients=500, sizes="all")
    with pytest.raises(DataError, match=r"^900 clients .* for 1,049 samples, .* use at most 524 clients"):
        deal(clients=900, sizes="all")


def test_a_client_without_a_test_sample(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "d.npz",
        x=np.zeros((40, 1)),
        y=np.arange(40) % 2,
        x_test=np.zeros((3, 1)),
        y_test=[0, 0, 0],
    )
    data: dict[str, Any] = {"set": {"name": "npz", "path": "d.npz"}, "clients": 2, "sizes": [4, 4]}
    with pytest.raises(
        DataError, match=r"client [01] has no test sample: none of its 1 labels is among the 3"
    ):
        Dealer(tmp_path).federation(
            experiment(**data, partition={"name": "pathological", "num_classes_per_partition": 1}), 0
        )
    f = Dealer(tmp_path).federation(experiment(**data), 0)
    assert f.personal.count.tolist() == [3, 3]
    assert set(f.uniform.label.tolist()) == {0}  # the one label that can be tested


def test_a_user_s_partition_is_checked(mine: Path) -> None:
    mine.write_text(
        "from dataclasses import dataclass\n"
        "import torch\n"
        "@dataclass(frozen=True)\n"
        "class Flat:\n"
        "    entry: float = 0.1\n"
        "    def proportions(self, y, classes, clients, stream):\n"
        "        return torch.full((clients, classes), self.entry)\n"
        "def none(): pass\n"
    )
    assert deal(clients=3, partition="mine:Flat").train.count.min() >= 15
    with pytest.raises(ConfigError, match=r"shape \(3, 10\), no negative entry and rows that sum to one"):
        deal(clients=3, partition={"name": "mine:Flat", "entry": 0.2})
    with pytest.raises(ConfigError, match="must be a dataclass with a method 'proportions'"):
        deal(clients=3, partition="mine:none")
    with pytest.raises(ConfigError, match="must be a dataclass with a method 'load'"):
        deal(clients=3, set="mine:Flat")
    with pytest.raises(DataError, match=r"expected a Dataset, a pair .* got NoneType"):
        deal(clients=3, set="mine:none")


def counts(split: Split) -> npt.NDArray[np.int64]:
    """The labels of every client, `[M, 10]`."""
    return np.array([y.bincount(minlength=10).tolist() for y in labels(split)])


@pytest.mark.parametrize("sizes", [[20, 30], [15, 100], "all"])
@pytest.mark.parametrize("overlap", [True, False])
def test_validation_labels_say_nothing_of_training_labels(sizes: Any, overlap: bool) -> None:
    """IID clients have the same proportions, so what is left of the correlation is rounding alone."""
    clients = 20 if sizes == "all" or (overlap and sizes[1] < 100) else 12
    data = {"clients": clients, "sizes": sizes, "overlap": overlap, "validation": 0.25}
    deals = [deal(seed=seed, **data) for seed in range(30)]
    train, validation = (
        np.concatenate([counts(split) for split in splits])
        for splits in ([f.train for f in deals], [f.validation for f in deals])
    )
    p = Y.bincount().numpy() / len(Y)
    beyond = [(c - c.sum(axis=1, keepdims=True) * p).ravel() for c in (train, validation)]
    assert abs(np.corrcoef(*beyond)[0, 1]) < 0.08
    # A label that a client trains on more often than expected is as common in its validation as any other.
    often = beyond[0] > 0
    seen, expected = (
        validation.ravel()[often].sum(),
        (validation.sum(axis=1, keepdims=True) * p).ravel()[often],
    )
    assert seen == pytest.approx(expected.sum(), rel=0.1)


def test_nobody_trains_on_validation_samples() -> None:
    for sizes in ([20, 30], "all"):
        f = deal(clients=20, sizes=sizes)
        assert not set(f.train.index.tolist()) & set(f.validation.index.tolist())


def test_training_samples_without_validation_are_drawn_from_all() -> None:
    f = deal(clients=2, sizes="all", validation=0.0)
    assert len(f.train.index) == 1258
    assert f.validation.count.tolist() == [0, 0]


def test_owned_data_keep_the_same_share_of_each_label_for_validation(tmp_path: Path) -> None:
    """Each of 3 owners has 20 + 40 rows, less 30 % for testing 14 + 28; a sixth is for validation."""
    columns = {"y": [0, 1, 1] * 60, "owner": [i // 60 for i in range(180)]}
    world = experiment(set=save(tmp_path, **columns), clients=3)
    for seed in range(5):
        f = Dealer(None).federation(world, seed)
        assert f.owned
        assert f.train.count.tolist() == [35, 35, 35]
        for names in labels(f.validation):
            assert names.bincount().tolist() in ([2, 5], [3, 4])  # 7/3 and 14/3, rounded at random


def test_where_a_label_runs_out_clients_are_tested_on_what_they_got(tmp_path: Path) -> None:
    """Of label 0 there are 23 rows to train on, 5 for validation and 12 for testing."""
    world = experiment(set=save(tmp_path, y=[0] * 40 + [1] * 400), clients=2, sizes=[60, 60], test=30)
    f = Dealer(None).federation(world.replace(data__partition={"name": "dirichlet", "alpha": 0.01}), 3)
    assert 23 in [int((y == 0).sum()) for y in labels(f.train)]  # who wanted more got no more
    for train, validation, test in zip(*map(labels, (f.train, f.validation, f.personal)), strict=True):
        shares = [float((y == 0).float().mean()) for y in (train, validation, test)]
        assert shares[1:] == pytest.approx([shares[0]] * 2, abs=0.1)


def test_clients_draw_independently() -> None:
    """Two of 40 clients with 100 of some 1,258 samples have about 8 in common."""
    f = deal(clients=40, sizes=[100, 100], validation=0.0)
    rows = [set(r.tolist()) for r in each(f.train)]
    common = [len(a & b) for a, b in itertools.combinations(rows, 2)]
    assert np.mean(common) == pytest.approx(100 * 100 / 1258, rel=0.05)
    assert np.std(common) < 4


def scaled(folder: Path, rows: int = 60) -> Experiment:
    """A table of which one row in ten is far away from the others."""
    values = [1000.0 if i % 10 == 0 else float(i) for i in range(rows)]
    lines = "".join(f"{a},{i},{'xy'[i % 2]}\n" for i, a in enumerate(values))
    (folder / "far.csv").write_text(f"a,b,kind\n{lines}")
    source = {"name": "csv", "path": "far.csv", "label": "kind", "transform": "standard"}
    return experiment(set=source, clients=2, sizes=(5, 10), test=5)


def test_inputs_are_scaled_by_training_rows_only(tmp_path: Path) -> None:
    e, dealer = scaled(tmp_path), Dealer(tmp_path)
    raw = np.loadtxt(tmp_path / "far.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    means = []
    for seed in range(3):
        found = dealer.federation(e, seed)
        training = np.unique(found.train.index.numpy())
        others = torch.cat([found.validation.index, found.personal.index, found.uniform.index])
        assert not np.isin(others.numpy(), training).any()
        assert found.scaling is not None
        assert found.columns == ("a", "b")
        np.testing.assert_allclose(found.scaling.mean, raw[training].mean(axis=0))
        np.testing.assert_allclose(found.scaling.deviation, raw[training].std(axis=0))
        back = found.pool.double() * found.scaling.deviation + found.scaling.mean
        np.testing.assert_allclose(back, raw, atol=1e-3)
        means.append(tuple(found.scaling.mean.tolist()))
        assert dealer.federation(e, seed) is found
    assert len(set(means)) == 3  # each seed has a training part of its own
    assert not any(np.allclose(mean, raw.mean(axis=0)) for mean in means)


def test_a_scaling_from_before_is_used_as_it_is(tmp_path: Path) -> None:
    e = scaled(tmp_path)
    before = Dealer(tmp_path).federation(e, 0).scaling
    assert before is not None
    again = Dealer(tmp_path, before).federation(scaled(tmp_path, rows=80), 0)
    assert again.scaling is before
    x = torch.tensor([[1000.0, 60.0]], dtype=torch.float64)
    torch.testing.assert_close(again.pool[60:61], before(x))
    wide = Dealer(tmp_path, type(before)(before.mean[:1], before.deviation[:1]))
    with pytest.raises(
        DataError, match=r"trained on samples of shape \[1\], but those of the data are \[2\]"
    ):
        wide.federation(e, 0)


def test_a_partition_of_numbers_that_are_none(mine: Path) -> None:
    mine.write_text(
        "from dataclasses import dataclass\nimport torch\n"
        "@dataclass(frozen=True)\nclass Nan:\n"
        "    def proportions(self, y, classes, clients, stream):\n"
        "        p = torch.full((clients, classes), 1 / classes)\n"
        "        p[1, 3] = torch.nan\n        return p\n"
    )
    with pytest.raises(ConfigError, match=r"rows that sum to one; got a row \[0\.1, 0\.1, 0\.1, nan, 0\.1"):
        deal(clients=3, partition="mine:Nan")
