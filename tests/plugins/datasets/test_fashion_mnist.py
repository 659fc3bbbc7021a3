from __future__ import annotations

from pathlib import Path

import pytest

from coterie.core.errors import DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.fashion_mnist import FashionMnist
from tests.plugins.datasets.test_idx import IMAGES, LABELS, idx, put


@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw"])
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_files(tmp_path: Path, folder: str, packed: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for part in ("train", "t10k"):
        put(tmp_path / folder, f"{part}-images-idx3-ubyte{packed}", idx(IMAGES))
        put(tmp_path / folder, f"{part}-labels-idx1-ubyte{packed}", idx(LABELS))
    data = validate_dataset(build("dataset", "fashion-mnist", {}, "data.set").load(tmp_path), "fashion")
    assert data.test is not None
    assert data.train.x.shape == (4, 1, 2, 3)
    assert data.classes[9] == "Ankle boot"
    assert len(data.classes) == 10


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"run: coterie data fetch fashion-mnist --data {tmp_path}"):
        FashionMnist().load(tmp_path)
