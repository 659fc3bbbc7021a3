from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coterie.core.errors import DataError
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.npz import Npz

X, Y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, 0])


def save(folder: Path, **arrays: Any) -> Npz:
    np.savez(folder / "data.npz", **arrays)
    return Npz(str(folder / "data.npz"))


def test_the_least(tmp_path: Path) -> None:
    data = save(tmp_path, x=X, y=Y).load(None)
    assert data.train.x.tolist() == X.tolist()
    assert data.train.y.tolist() == [0, 1, 1, 0]
    assert data.test is None
    assert data.train.group is None
    assert data.train.owner is None
    assert data.classes == ()  # the task names them
    assert validate_dataset(data, "mine").classes == ("0", "1")


def test_everything(tmp_path: Path) -> None:
    data = save(
        tmp_path,
        x=X.astype(np.uint8),
        y=Y.astype(np.int8),
        group=Y,
        owner=np.array([0, 0, 1, 1]),
        x_test=X[:2],
        y_test=Y[:2],
        group_test=Y[:2],
        classes=np.array(["no", "yes"]),
    ).load(None)
    assert data.train.x.dtype == torch.uint8  # as what the model takes it, the dealer finds out
    assert data.train.y.dtype == torch.int64
    assert data.train.owner is not None
    assert data.train.owner.tolist() == [0, 0, 1, 1]
    assert data.test is not None
    assert data.test.group is not None
    assert data.test.group.tolist() == [0, 1]
    assert data.classes == ("no", "yes")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "no array 'x', but y"),
        ({"x": X}, "no array 'y', but x"),
        ({"x": X, "y": Y, "x_test": X}, "no array 'y_test'"),
        ({"x": X, "y": Y, "xtest": X}, "unknown array 'xtest'; known: x, y"),
        ({"x": X, "y": Y + 0.5}, "y must be whole numbers .* got float64"),
        ({"x": X, "y": X}, r"y must be whole numbers of shape \[n\]"),
        ({"x": np.array(["a", "b"]), "y": Y}, "x is not an array of numbers"),
        ({"x": np.array([{}, {}]), "y": Y}, "cannot read .*pickle"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        validate_dataset(save(tmp_path, **arrays).load(None), "data.npz")
    assert "data.npz" in str(error.value)


def test_damaged(tmp_path: Path) -> None:
    source = save(tmp_path, x=X, y=Y)
    path = tmp_path / "data.npz"
    content = path.read_bytes()
    flipped = content[:150] + bytes((content[150] ^ 1,)) + content[151:]
    for damaged in (content[:-30], flipped, b"", b"PK", b"plain text"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"data\.npz"):
            source.load(None)
    path.unlink()
    with pytest.raises(DataError, match="COTERIE_DATA"):
        source.load(None)
