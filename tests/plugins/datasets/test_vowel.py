from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coterie.core.errors import DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.vowel import Vowel

TEXT = "vowel-context.data"


def line(speaker: int, sex: int, vowel: int, features: str = "-3.639 0.418 -0.670 1 2 3 4 5 6 7") -> str:
    return f"0 {speaker} {sex} {features}  {vowel}\n"


def test_speakers_are_clients_and_sexes_are_groups(tmp_path: Path) -> None:
    (tmp_path / "vowel").mkdir()
    (tmp_path / "vowel" / TEXT).write_text(
        "".join(line(s, int(s in (4, 5)), v) for s in (0, 3, 4, 5) for v in (0, 10))
    )
    data = validate_dataset(build("dataset", "vowel", {}, "data.set").load(tmp_path), "vowel")
    assert data.test is None
    assert data.train.x[0].tolist() == pytest.approx([-3.639, -0.67, 1, 2, 3, 4, 5, 6, 7])  # without 0.418
    assert data.train.y.tolist() == [0, 10] * 4
    assert data.classes[10] == "hed"
    assert data.train.owner is not None
    assert data.train.group is not None
    assert data.train.owner.tolist() == [0, 0, 3, 3, 4, 4, 5, 5]
    assert data.train.group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert data.owners == ("Andrew", "Bill", "David", "Mark", "Jo", "Kate")  # those that the data number


def test_prepared(tmp_path: Path) -> None:
    (tmp_path / "natural").mkdir()
    path, owner = tmp_path / "natural" / "vowel.npz", np.arange(15)
    np.savez(path, x=np.ones((15, 9)), y=owner % 11, owner=owner)
    data = Vowel().load(tmp_path)
    group = data.train.group
    assert group is not None
    assert [name for name, woman in zip(data.owners, group.tolist(), strict=True) if woman] == [
        "Jo", "Kate", "Penny", "Rose", "Sarah", "Sue", "Wendy",
    ]  # fmt: skip
    assert group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1]
    np.savez(path, x=np.ones((15, 9)), y=owner % 11)
    with pytest.raises(DataError, match=f"{path}: there is no array 'owner'"):
        Vowel().load(tmp_path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=rf"no files of vowel in .*; download the files of https://archive\.ics\.uci\.edu.*{TEXT}",
    ):
        Vowel().load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected rows of 14 cells, got none"),
        (line(0, 0, 0)[:-9], "line 1: expected 14 cells"),
        (line(0, 0, 0) + line(15, 0, 0), "line 2: expected a speaker from 0 to 14, got '15'"),
        (line(0, 0, 11), "line 1: expected a vowel from 0 to 10, got '11'"),
        (line(0, 0, 0, "1 2 3 4 5 6 7 8 9 x"), "line 1: expected a finite number, got 'x'"),
    ],
)
def test_damaged(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / TEXT).write_text(content)
    with pytest.raises(DataError, match=message):
        Vowel().load(tmp_path)
