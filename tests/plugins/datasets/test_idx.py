from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from coterie.core.errors import DataError
from coterie.plugins.datasets.idx import Idx

IMAGES = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3) * 10
LABELS = np.array([0, 1, 1, 2], dtype=np.uint8)


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    shape = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.tobytes()


def put(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def emnist(folder: Path, prefix: str = "emnist-tiny", labels: npt.NDArray[np.uint8] = LABELS) -> None:
    for part in ("train", "test"):
        put(folder, f"{prefix}-{part}-images-idx3-ubyte.gz", idx(IMAGES))
        put(folder, f"{prefix}-{part}-labels-idx1-ubyte.gz", idx(labels))


def test_mnist_names_plain_files(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        put(tmp_path, f"{part}-images-idx3-ubyte", idx(IMAGES))
        put(tmp_path, f"{part}-labels-idx1-ubyte", idx(LABELS))
    data = Idx(folder=tmp_path.name).load(tmp_path.parent)
    assert data.test is not None
    assert data.train.x.shape == (4, 1, 2, 3)
    assert torch.equal(data.train.x[:, 0], torch.from_numpy(IMAGES) / 255)
    assert data.train.y.tolist() == [0, 1, 1, 2]
    assert data.test.y.tolist() == [0, 1, 1, 2]
    assert data.classes == ("0", "1", "2")


def test_emnist_is_transposed_and_has_names(tmp_path: Path) -> None:
    emnist(tmp_path)
    (tmp_path / "emnist-tiny-mapping.txt").write_text("0 48\n1 65 97\n2 66 98\n")
    data = Idx(folder=str(tmp_path)).load(None)
    assert data.classes == ("0", "A", "B")
    assert torch.equal(data.train.x[0, 0], torch.from_numpy(IMAGES[0].T.copy()) / 255)
    as_stored = Idx(folder=str(tmp_path), transpose=False).load(None)
    assert as_stored.train.x.shape == (4, 1, 2, 3)


def test_labels_that_begin_at_one(tmp_path: Path) -> None:
    emnist(tmp_path, "emnist-letters", LABELS + np.uint8(1))
    (tmp_path / "emnist-letters-mapping.txt").write_text("1 65 97\n2 66 98\n3 67 99\n")
    data = Idx(folder=str(tmp_path), first=1).load(None)
    assert data.train.y.tolist() == [0, 1, 1, 2]
    assert data.classes == ("A", "B", "C")


def test_no_test_files(tmp_path: Path) -> None:
    put(tmp_path, "train-images-idx3-ubyte", idx(IMAGES))
    put(tmp_path, "train-labels-idx1-ubyte", idx(LABELS))
    assert Idx(folder=str(tmp_path)).load(None).test is None


def test_several_sets_need_a_prefix(tmp_path: Path) -> None:
    emnist(tmp_path, "emnist-a")
    emnist(tmp_path, "emnist-b", np.array([1, 1, 1, 1], dtype=np.uint8))
    with pytest.raises(DataError, match="'emnist-a', 'emnist-b'"):
        Idx(folder=str(tmp_path)).load(None)
    assert Idx(folder=str(tmp_path), prefix="emnist-b").load(None).train.y.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", idx(LABELS), "begins with 00000803, got 00000801"),
        ("train-images-idx3-ubyte", b"", "an empty file"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:10], "header of 16 bytes, got 10"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:-1], r"24 bytes .*\[4, 2, 3\], got 23"),
        ("train-images-idx3-ubyte", idx(IMAGES) + b"!", "24 bytes .* got 25"),
        ("train-labels-idx1-ubyte", idx(LABELS[:3]), "expected 4 labels, one for each image, got 3"),
    ],
)
def test_damaged(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    put(tmp_path, "train-images-idx3-ubyte", idx(IMAGES))
    put(tmp_path, "train-labels-idx1-ubyte", idx(LABELS))
    put(tmp_path, name, content)
    with pytest.raises(DataError, match=message) as error:
        Idx(folder=str(tmp_path)).load(None)
    assert str(tmp_path / name) in str(error.value)


def test_damaged_gzip(tmp_path: Path) -> None:
    emnist(tmp_path)
    path = tmp_path / "emnist-tiny-train-images-idx3-ubyte.gz"
    for content in (path.read_bytes()[:-12], b"not gzip at all"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cannot read .*images"):
            Idx(folder=str(tmp_path)).load(None)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{tmp_path}/nowhere; .*--data or COTERIE_DATA"):
        Idx(folder="nowhere").load(tmp_path)
    with pytest.raises(DataError, match="no IDX files at all"):
        Idx(folder=str(tmp_path)).load(None)
    put(tmp_path, "train-images-idx3-ubyte", idx(IMAGES))
    with pytest.raises(DataError, match="no train labels"):
        Idx(folder=str(tmp_path)).load(None)
    put(tmp_path, "train-labels-idx1-ubyte", idx(LABELS))
    with pytest.raises(DataError, match="labels from 1 on, got 0"):
        Idx(folder=str(tmp_path), first=1).load(None)
    with pytest.raises(DataError, match="cannot read"):
        Idx(folder="train-labels-idx1-ubyte").load(tmp_path)


def test_damaged_mapping(tmp_path: Path) -> None:
    emnist(tmp_path)
    (tmp_path / "emnist-tiny-mapping.txt").write_text("0 zero\n")
    with pytest.raises(DataError, match="mapping"):
        Idx(folder=str(tmp_path)).load(None)
