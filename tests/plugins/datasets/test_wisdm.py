from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.core.errors import DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.wisdm import Wisdm

HEADER = '@relation activity_recognition_labeled\n@attribute "UNIQUE_ID" numeric\n@attribute class\n\n@data\n'
ARFF = "WISDM_ar_v1.1_transformed.arff"


def line(number: int, person: int, x: str, activity: str) -> str:
    """A window whose first feature is `x`, whose peak on the first axis nobody knows; the others are 0."""
    features = [x, *["0"] * 32, "?", *["0"] * 9]
    return ",".join([str(number), str(person), *features, activity]) + "\n"


WINDOWS = [
    line(1, 33, "0.1", "Jogging"),
    line(2, 33, "0.2", "Walking"),
    line(3, 33, "0.3", "Jogging"),
    line(4, 33, "0.4", "Jogging"),
    line(5, 7, "0.5", "Walking"),
    line(6, 7, "0.6", "Walking"),
]


@pytest.fixture(params=["wisdm", "wisdm/WISDM_ar_v1.1", "."])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / str(request.param)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARFF).write_text(HEADER + "".join(WINDOWS))
    return folder / ARFF


@pytest.mark.usefixtures("path")
def test_the_later_half_of_each_activity_is_for_testing(tmp_path: Path) -> None:
    data = validate_dataset(build("dataset", "wisdm", {}, "data.set").load(tmp_path), "wisdm")
    assert data.test is not None
    assert data.train.x.shape == (4, 43)
    assert data.train.x[:, 0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.5])  # two of three when jogging
    assert data.test.x[:, 0].tolist() == pytest.approx([0.4, 0.6])
    assert data.classes[1] == "Jogging"
    assert data.train.y.tolist() == [1, 5, 1, 5]
    assert data.owners == ("person 7", "person 33")
    assert data.train.owner is not None
    assert data.test.owner is not None
    assert data.train.owner.tolist() == [1, 1, 1, 0]  # person 7 is client 0, person 33 client 1
    assert data.test.owner.tolist() == [1, 0]
    assert float(data.train.x[:, 33].abs().sum()) == 0


def test_prepared(tmp_path: Path) -> None:
    (tmp_path / "natural").mkdir()
    x, y = np.ones((2, 43)), np.array([0, 1])
    path = tmp_path / "natural" / "wisdm.npz"
    np.savez(path, x=x, y=y, owner=y, x_test=2 * x, y_test=y, owner_test=y)
    data = Wisdm().load(tmp_path)
    assert data.test is not None
    assert data.test.x.tolist() == [[2] * 43] * 2
    assert data.owners == ("person 1", "person 2")
    np.savez(path, x=x, y=y, owner=y, owners=["Ann", "Bob"])
    assert Wisdm().load(tmp_path).owners == ("Ann", "Bob")
    np.savez(path, x=x, y=y)
    with pytest.raises(DataError, match=f"{path}: there is no array 'owner'"):
        Wisdm().load(tmp_path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=rf"no files of wisdm in {tmp_path}/wisdm; download https://.*{ARFF} into"
    ):
        Wisdm().load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected rows of 46 cells, got none; get the file again"),
        (HEADER, "got none"),
        (WINDOWS[0][:50], "line 1: expected 46 cells, got"),
        (
            HEADER + WINDOWS[0] + line(2, 1, "x", "Jogging"),
            "line 7: expected a finite number or '\\?', got 'x'",
        ),
        (line(1, 1, "0", "Jogging").replace("1,1,", "1,?,"), r"line 1: expected a finite number, got '\?'"),
        (line(1, 1, "inf", "Jogging"), "expected a finite number"),
        (line(1, 1, "0", "Joging"), "line 1: unknown activity 'Joging'.*Did you mean 'Jogging'"),
        ("\xff", "cannot read"),
    ],
)
def test_damaged(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / ARFF).write_text(content, "latin-1")
    with pytest.raises(DataError, match=message) as error:
        Wisdm().load(tmp_path)
    assert ARFF in str(error.value)
