from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.core.data import Dataset
from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset

X, Y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])


def load(folder: Path, lists: Any, *, test: bool = False, **options: Any) -> Dataset:
    """Six rows, whose x is their number, and if `test` two for testing, whose x is 10 and 11."""
    more = {"x_test": np.array([[10.0], [11.0]]), "y_test": np.array([0, 1])} if test else {}
    np.savez(folder / "data.npz", x=X, y=Y, **more)  # type: ignore[arg-type]
    (folder / "lists.json").write_text(lists if isinstance(lists, str) else json.dumps(lists))
    given = {"path": "lists.json", "set": {"name": "npz", "path": "data.npz"}} | options
    return validate_dataset(build("dataset", "indices", given, "data.set").load(folder), "indices")


def rows(data: Dataset) -> tuple[list[list[float]], list[list[float]]]:
    """The x of every client's rows for training, and for testing."""
    found: list[list[list[float]]] = []
    for part in (data.train, data.test):
        if part is None or part.owner is None:
            found.append([])
            continue
        found.append([part.x[part.owner == i].flatten().tolist() for i in range(int(part.owner.max()) + 1)])
    return found[0], found[1]


@pytest.mark.parametrize(
    "lists",
    [
        {"0": [5, 1], "1": [2], "2": [1, 0]},
        {"10": [1, 0], "2": [2], "1": [5, 1]},  # in the order of the numbers
        [[5, 1], [2], [1, 0]],
        {"train": [[5, 1], [2], [1, 0]]},
        [{"train": [5, 1]}, {"train": [2]}, {"train": [1, 0]}],
    ],
)
def test_rows_of_clients(tmp_path: Path, lists: Any) -> None:
    data = load(tmp_path, lists)
    assert rows(data) == ([[5, 1], [2], [1, 0]], [])
    assert data.train.y.tolist() == [1, 1, 0, 1, 0]


def test_the_test_part_of_the_data_set_is_kept(tmp_path: Path) -> None:
    data = load(tmp_path, [[0], [1]], test=True)
    assert data.test is not None
    assert data.test.owner is None
    assert data.test.x.flatten().tolist() == [10, 11]


@pytest.mark.parametrize(
    "lists",
    [
        {"train": {"ann": [0, 1], "bob": [2]}, "test": {"ann": [1], "bob": [0, 1]}},
        {"ann": {"train": [0, 1], "test": [1]}, "bob": {"train": [2], "test": [0, 1]}},
    ],
)
def test_test_rows_of_a_test_part(tmp_path: Path, lists: Any) -> None:
    assert rows(load(tmp_path, lists, test=True)) == ([[0, 1], [2]], [[11], [10, 11]])


def test_rows_counted_through_both_parts(tmp_path: Path) -> None:
    lists = [{"train": [7, 0], "test": [3]}, {"train": [1], "test": [6]}]
    data = load(tmp_path, lists, test=True, numbering="through")
    assert rows(data) == ([[11, 0], [1]], [[3], [10]])


def test_test_rows_of_a_data_set_without_a_test_part(tmp_path: Path) -> None:
    assert rows(load(tmp_path, {"train": [[0], [1]], "test": [[2, 3], [4]]})) == ([[0], [1]], [[2, 3], [4]])
    with pytest.raises(DataError, match="row 1 is for testing in client 0 and for training in client 1"):
        load(tmp_path, {"train": [[0], [1]], "test": [[1], [4]]})


def test_any_data_set_by_name(tmp_path: Path) -> None:
    data = load(tmp_path, [[0, 1], [2, 3]], set="digits")
    assert data.train.x.shape == (4, 1, 8, 8)
    assert data.train.y.tolist() == [0, 1, 2, 3]
    groups = load(tmp_path, [[0], [500]], set={"name": "synthetic", "groups": 2}).train.group
    assert groups is not None
    assert groups.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ("{", "cannot read .*lists.json"),
        ("7", "expected a list of row numbers for each client, .* got int"),
        ({}, "got dict with nothing in it"),
        ({"train": []}, "got list with nothing in it"),
        ([[0], 1], "client 1: expected a list of row numbers from 0 on"),
        ([[0], [1.0]], "client 1: expected a list of row numbers"),
        ([[0], [True]], "client 1: expected a list of row numbers"),
        ([[0], [-1]], "client 1: expected a list of row numbers"),
        ([[0], []], "client 1: there are no rows for training; leave such a client out"),
        ([[0], {"test": [1]}], "client 1: there are no rows for training"),
        ({"a": [0], "b": [6]}, "client b: there is no row 6; expected numbers from 0 to 5"),
        ([[0], [3, 2, 3]], "client 1: row 3 is listed more than once"),
        ([{"train": [0], "val": [1]}], "unknown part 'val'; known: test, train"),
        (
            {"train": {"0": [0]}, "test": {"1": [1]}},
            "the clients of 'train' and those of 'test' are not the same",
        ),
    ],
)
def test_bad_lists(tmp_path: Path, lists: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        load(tmp_path, lists)
    assert "lists.json" in str(error.value)


@pytest.mark.parametrize("inner", [{}, {"name": 7}, {"path": "data.npz"}])
def test_a_data_set_without_a_name(tmp_path: Path, inner: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"data\.set\.set: expected the name of a data set"):
        load(tmp_path, [[0]], set=inner)
    with pytest.raises(ConfigError, match="unknown dataset 'npzz'"):
        load(tmp_path, [[0]], set="npzz")
