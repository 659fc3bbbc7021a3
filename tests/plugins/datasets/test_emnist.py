from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.emnist import Emnist
from tests.plugins.datasets.test_idx import IMAGES, LABELS, emnist

SPLITS = ("balanced", "byclass", "bymerge", "digits", "letters", "mnist")
PLACES = [
    *((split, folder) for split in SPLITS for folder in ("emnist", "emnist/gzip", split, ".")),
    *(("emnist47", folder) for folder in ("emnist47", "emnist", ".")),
]


def put(folder: Path, split: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    prefix = split if split == "emnist47" else f"emnist-{split}"
    first = int(split == "letters")
    emnist(folder, prefix, LABELS + np.uint8(first))
    mapping = "".join(f"{label + first} {65 + label}\n" for label in range(3))
    (folder / f"{prefix}-mapping.txt").write_text(mapping)


@pytest.mark.parametrize(("split", "folder"), PLACES)
def test_every_split_in_every_place(tmp_path: Path, split: Any, folder: str) -> None:
    put(tmp_path / folder, split)
    data = validate_dataset(Emnist(split).load(tmp_path), "emnist")
    assert data.test is not None
    assert data.train.y.tolist() == data.test.y.tolist() == [0, 1, 1, 2]
    assert data.classes == ("A", "B", "C")
    upright = torch.from_numpy(IMAGES.swapaxes(1, 2).copy()) / 255
    assert torch.equal(data.train.x, upright[:, None])


def test_balanced_is_the_default_and_splits_may_lie_side_by_side(tmp_path: Path) -> None:
    for split in ("balanced", "emnist47", "letters"):
        put(tmp_path / "emnist", split)
    path = tmp_path / "emnist" / "emnist-balanced-train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:8] + bytes([2, 2, 2, 2])))
    assert build("dataset", "emnist", {}, "data.set").load(tmp_path).train.y.tolist() == [2, 2, 2, 2]
    with pytest.raises(ConfigError, match=r"data\.set\.split: .*'emnist47', got 'emnist48'"):
        build("dataset", "emnist", {"split": "emnist48"}, "data.set")


def test_unpacked(tmp_path: Path) -> None:
    put(tmp_path / "emnist", "balanced")
    for path in (tmp_path / "emnist").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert len(Emnist().load(tmp_path).train.y) == 4


def test_missing(tmp_path: Path) -> None:
    put(tmp_path, "emnist47")
    with pytest.raises(DataError) as error:
        Emnist().load(tmp_path)
    assert str(error.value) == (
        f"there are no files of emnist-balanced in {tmp_path}/emnist; run: coterie data fetch "
        f"emnist-balanced --data {tmp_path} (or name the folder that holds them with --data or COTERIE_DATA)"
    )
    with pytest.raises(DataError, match=r"into data/emnist47 if .*, or use split = 'balanced'"):
        Emnist("emnist47").load(None)


def test_damaged(tmp_path: Path) -> None:
    put(tmp_path, "balanced")
    path = tmp_path / "emnist-balanced-train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"cannot read {path}"):
        Emnist().load(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="there are no train images"):
        Emnist().load(tmp_path)
