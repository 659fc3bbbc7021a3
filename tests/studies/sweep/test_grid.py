"""GRID.toml into jobs: who shares one, how they are named, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError
from coterie.engine.plan import prepare
from coterie.studies.sweep import grid as grids
from coterie.studies.sweep.folder import Job
from coterie.studies.sweep.grid import jobs, read
from tests.studies.sweep.small import TEXT, grid

TWO_VALUES: list[tuple[str, list[Any], int]] = [
    ("train.lr", [0.1, 0.2], 1),
    ("train.personalize_lr", [0.1, 0.2], 1),
    ("train.init", ["shared", "zeros"], 1),
    ("data.clients", [4, 5], 1),
    ("data.partition.alpha", [0.1, 1.0], 1),
    ("exchange.loss", [0.0, 0.5], 1),
    ("exchange.precision", ["full", "int8"], 1),
    ("exchange.stars", [1, 2], 1),
    ("population.away", [0.0, 0.1], 1),
    ("methods.KD-PDFL.tau", [0.1, 1.0], 1),
    ("methods.KD-PDFL.train.lr", [0.1, 1.0], 1),
    ("methods.KD-PDFL.train.optimizer", ["sgd", "adam"], 2),
    ("model", ["mlp", "linear"], 2),
    ("model.hidden", [[3], [4]], 2),
    ("train.batch", [2, 4], 2),
    ("train.iterations", [10, 20], 2),
    ("train.optimizer", ["sgd", "adam"], 2),
    ("train.personalize", [0.1, 0.2], 2),
    ("exchange.every", [4, 5], 2),
    ("exchange.probe", [2, "all"], 2),
    ("evaluate.every", [5, 10], 2),
]  # fmt: skip


@pytest.mark.parametrize(("key", "values", "count"), TWO_VALUES, ids=[key for key, _, _ in TWO_VALUES])
def test_a_job_is_what_can_share_a_stack(tmp_path: Path, key: str, values: list[Any], count: int) -> None:
    """As the engine itself says: each job is one stack, and fewer jobs would not be."""
    changes = {"data__partition": {"name": "dirichlet", "alpha": 0.5}, "seeds": 1, "grid": {key: values}}
    small = grid(tmp_path, **changes)
    found = jobs(small)
    assert len(found) == count
    stacks = [len(prepare(job.experiment(small.base)).stacks) for job in found]
    if not key.startswith("methods.KD-PDFL.train.opt"):  # there, the other method has a stack of its own
        assert stacks == [1] * count
        whole = small.base.replace(grid={key: values})
        assert len(prepare(whole).stacks) == count


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("device", ["cpu", "cuda"]),
        ("dtype", ["float32", "float64"]),
        ("compile", ["on", "off"]),
        ("tf32", [True, False]),
        ("seeds", [[0], [1, 2]]),
        ("methods", [["Local"], ["FedAvg", "KD-PDFL"]]),
        ("data.set", ["digits", {"name": "synthetic", "classes": 4}]),
    ],
)
def test_any_key_will_do(tmp_path: Path, key: str, values: list[Any]) -> None:
    small = grid(tmp_path, grid={key: values})
    first, second = (job.experiment(small.base) for job in jobs(small))
    assert first.fingerprint() != second.fingerprint()


def test_jobs_are_numbered_in_the_grids_order(tmp_path: Path) -> None:
    small = grid(
        tmp_path, grid={"train.batch": [2, 4], "train.lr": [0.1, 0.2], "dtype": ["float64", "float32"]}
    )
    assert [(job.name, job.grid, job.setting, job.seeds) for job in jobs(small)] == [
        ("001", {"train.batch": [2], "train.lr": [0.1, 0.2]}, {"dtype": "float64"}, [0, 1]),
        ("002", {"train.batch": [2], "train.lr": [0.1, 0.2]}, {"dtype": "float32"}, [0, 1]),
        ("003", {"train.batch": [4], "train.lr": [0.1, 0.2]}, {"dtype": "float64"}, [0, 1]),
        ("004", {"train.batch": [4], "train.lr": [0.1, 0.2]}, {"dtype": "float32"}, [0, 1]),
    ]


@pytest.mark.parametrize(
    ("most", "sizes"),
    [(None, [24]), (24, [24]), (12, [8, 8, 8]), (8, [8, 8, 8]), (4, [4, 4] * 3), (1, [2] * 12)],
)
def test_at_most_so_many_worlds(tmp_path: Path, most: int | None, sizes: list[int]) -> None:
    """2 methods x 3 seeds x 4 settings: seeds come apart first, the methods stay together."""
    small = grid(tmp_path, seeds=3, grid={"train.lr": [0.1, 0.2, 0.3, 0.4]})
    found = jobs(small, most)
    assert [job.worlds(2) for job in found] == sizes
    worlds = [(w.name, w.seed) for job in found for w in job.experiment(small.base).worlds()]
    assert sorted(worlds) == sorted({(w.name, w.seed) for w in _whole(small).worlds()})


def _whole(small: grids.Grid) -> Any:
    return small.base.replace(grid=small.keys)


def test_halves() -> None:
    job = Job("007", {}, {"a": [1], "b": [1, 2, 3]}, [4, 5, 6], attempts=2, error="x")
    first, second = job.halves()
    assert (first.name, first.seeds, first.grid) == ("007a", [4, 5], job.grid)
    assert (second.name, second.seeds, second.attempts, second.error) == ("007b", [6], 0, "")
    inner = second.halves()
    assert [(part.name, part.grid["b"]) for part in inner] == [("007ba", [1, 2]), ("007bb", [3])]
    assert Job("1", {}, {"a": [1]}, [0]).halves() == []


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ({}, ["no grid to sweep over", "[grid]", "coterie run"]),
        (3, ["grid: expected a table", "got 3"]),
        ({"train.lr": []}, ["'train.lr' has no values"]),
        ({"train.lr": [0.1, 0.1]}, ["'train.lr' has a value twice", "[0.1, 0.1]"]),
        ({"train.lr": 0.1}, ["'train.lr' needs a list", "got 0.1"]),
        ({"train": {"lr": [0.1]}}, ["in quotes", '"train.lr"']),
        ({"train": [{"lr": 0.1}]}, ["grid: 'train' cannot be compared"]),
        ({"trian.lr": [1]}, ["unknown key in the grid: 'trian.lr'", "train"]),
        ({"train.lrr": [1]}, ["grid: ", "lrr"]),
        ({"train.batch": [0]}, ["grid: ", "train.batch", "got 0"]),
        ({"device": [3]}, ["grid: ", "device", "got 3"]),
        ({"dtype": ["float16"]}, ["grid: ", "dtype", "float32"]),
        ({"name": ["a", "b"]}, ["unknown key in the grid: 'name'"]),
        ({"model": ["mlp", {"name": "mlp"}]}, ["grid: 'model' has two values", "'mlp'"]),
        ({"model": ["mpl"]}, ["unknown model 'mpl'", "'mlp'"]),
        ({"methods.FedAvg.share": ["x"]}, ["'FedAvg'", "KD-PDFL"]),
        ({"train.iterations": [*range(1, 102)], "train.batch": [*range(1, 101)]}, ["10,100 jobs", "10,000"]),
    ],
)  # fmt: skip
def test_mistakes_say_what_where_and_what_else(tmp_path: Path, keys: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        jobs(grid(tmp_path, grid=keys))
    for part in parts:
        assert part in str(caught.value)


def test_a_method_with_a_value_of_its_own_is_not_swept_in_vain(tmp_path: Path) -> None:
    methods = {"Local": {"train": {"optimizer": "adam"}}}
    with pytest.raises(ConfigError, match=r"'train\.optimizer' has no say over 'Local'"):
        jobs(grid(tmp_path, methods=methods, grid={"train.optimizer": ["sgd", "adam"]}))


def test_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_text("[grid")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read(tmp_path / "odd.toml")
    with pytest.raises(ConfigError, match="quickstart has no grid"):
        read("quickstart")
    (tmp_path / "grid.toml").write_text(TEXT)
    assert read(tmp_path / "grid.toml").keys == {"model.hidden": [[5], [7]], "train.lr": [0.05, 0.2]}
