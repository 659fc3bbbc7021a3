from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from coterie.core.data import Scaling
from coterie.core.errors import DataError
from coterie.plugins.datasets.csv import Csv

TRAIN = "id,a,b,kind\n1,0,-1,x\n2,2,1,y\n3,4,0,z\n"
TEST = "b,kind,a,id\n5,y,6,1\n7,x,8,2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text(TEST)
    return tmp_path


def test_one_file(folder: Path) -> None:
    data = Csv("train.csv", label="kind", drop=("id",)).load(folder)
    assert data.train.x.tolist() == [[0, -1], [2, 1], [4, 0]]
    assert data.train.x.dtype == torch.float32
    assert data.train.y.tolist() == [0, 1, 2]
    assert data.test is None
    assert data.classes == ("x", "y", "z")


def test_a_second_file_may_have_its_columns_in_another_order(folder: Path) -> None:
    data = Csv("train.csv", label="kind", drop=("id",), test="test.csv").load(folder)
    assert data.test is not None
    assert data.test.x.tolist() == [[6, 5], [8, 7]]
    assert data.test.y.tolist() == [1, 0]
    assert data.classes == ("x", "y", "z")


def test_common_classes(folder: Path) -> None:
    data = Csv("train.csv", label="kind", test="test.csv", common_classes=True).load(folder)
    assert data.classes == ("x", "y")
    assert data.train.y.tolist() == [0, 1]


def test_a_class_only_in_the_test_file(folder: Path) -> None:
    with pytest.raises(DataError, match=r"classes z do not occur in test\.csv.*common_classes"):
        Csv("test.csv", label="kind", test="train.csv").load(folder)
    data = Csv("test.csv", label="kind", test="train.csv", common_classes=True).load(folder)
    assert data.classes == ("x", "y")


def test_classes_that_a_file_lacks_have_their_number(folder: Path) -> None:
    names = ("z", "w", "y", "x")
    data = Csv("train.csv", label="kind", drop=("id",), test="test.csv", classes=names).load(folder)
    assert data.classes == names
    assert data.train.y.tolist() == [3, 2, 0]
    assert data.test is not None
    assert data.test.y.tolist() == [2, 3]
    assert Csv("test.csv", label="kind", test="train.csv", classes=names).load(folder).classes == names


def test_classes_that_do_not_fit(folder: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv, line 4: unknown label 'z'; known: x, y"):
        Csv("train.csv", label="kind", classes=("x", "y")).load(folder)
    with pytest.raises(DataError, match="names a label twice: x, y, x"):
        Csv("train.csv", label="kind", classes=("x", "y", "x")).load(folder)


def test_pooled(folder: Path) -> None:
    data = Csv("train.csv", label="kind", drop=("id",), test="test.csv", split="pooled").load(folder)
    assert data.test is None
    assert data.train.x.tolist() == [[0, -1], [2, 1], [4, 0], [6, 5], [8, 7]]
    assert data.train.y.tolist() == [0, 1, 2, 1, 0]


def test_signed_log1p(folder: Path) -> None:
    data = Csv("train.csv", label="kind", drop=("id",), transform="signed_log1p").load(folder)
    expected = torch.tensor([[0, -math.log(2)], [math.log(3), math.log(2)], [math.log(5), 0]])
    torch.testing.assert_close(data.train.x, expected)


def test_standard_uses_the_training_part(folder: Path) -> None:
    data = Csv("train.csv", label="kind", drop=("id",), test="test.csv", transform="standard").load(folder)
    assert data.test is not None
    assert data.transform == "standard"
    scaling = Scaling.of(data.train.x)
    std = math.sqrt(8 / 3)  # of 0, 2, 4, whose mean is 2
    torch.testing.assert_close(scaling(data.train.x)[:, 0], torch.tensor([-2 / std, 0, 2 / std]))
    torch.testing.assert_close(scaling(data.test.x)[:, 0], torch.tensor([4 / std, 6 / std]))


def test_standard_leaves_a_constant_column_finite(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("a,k\n5,x\n5,y\n")
    x = Csv("c.csv", label="k", transform="standard").load(tmp_path).train.x
    assert Scaling.of(x)(x).tolist() == [[0], [0]]


def test_what_is_to_be_scaled_keeps_its_digits(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("time,k\n1700000001,x\n1700000003,y\n")
    data = Csv("c.csv", label="k", transform="standard").load(tmp_path)
    assert Scaling.of(data.train.x)(data.train.x).tolist() == [[-1], [1]]
    assert data.columns == ("time",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no rows"),
        ("a,b,kind\n", "got 3 columns and no rows"),
        ("a,b,kidn\n1,2,x\n", "unknown column 'kind'; known: a, b, kidn. Did you mean 'kidn'?"),
        ("a,b,kind\n1,2,x\n1,x\n", "line 3: expected 3 cells as in the header, got 2"),
        ("a,b,kind\n1,2,x\n1,2,3,x\n", "line 3: expected 3 cells as in the header, got 4"),
        ("a,b,kind\n1,2,x\n1,two,y\n", "line 3, column 'b': expected a finite number, got 'two'"),
        ("a,b,kind\n1,,x\n", "line 2, column 'b': expected a finite number, got ''"),
        ("a,b,kind\nnan,2,x\n", "line 2, column 'a': expected a finite number, got 'nan'"),
        ("a,b,kind\n1,inf,x\n", "line 2, column 'b'"),
        ("a,b,kind\n1,2,\n", "line 2: the label (column 'kind') is empty"),
        ("a,a,kind\n1,2,x\n", "names the column 'a' more than once"),
        ('a,b,kind\n1,2,"x\n', "line 2: unexpected end of data"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        Csv("bad.csv", label="kind").load(tmp_path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_other_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "latin.csv").write_bytes(b"a,kind\n1,\xff\n")
    (folder / "narrow.csv").write_text("a,kind\n1,x\n")
    for source, message in [
        (Csv("latin.csv", label="kind"), "cannot read"),
        (Csv("none.csv", label="kind"), "there is no .*none.csv; .*--data"),
        (Csv("train.csv", label="kind", drop=("ids",)), "Did you mean 'id'"),
        (Csv("train.csv", label="kind", test="narrow.csv"), "narrow.csv: unknown column 'id'"),
        (Csv(".", label="kind"), "cannot read"),
    ]:
        with pytest.raises(DataError, match=message):
            source.load(folder)


def test_a_relative_path_starts_in_the_current_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert len(Csv("train.csv", label="kind").load(None).train.y) == 3


OWNED = "who,a,kind\n10,1,x\n9,2,y\n9,3,x\n"


def test_owners_are_clients(folder: Path) -> None:
    (folder / "owned.csv").write_text(OWNED)
    (folder / "later.csv").write_text("a,kind,who\n4,y,10\n")
    data = Csv("owned.csv", label="kind", owner="who", test="later.csv").load(folder)
    assert data.columns == ("a",)
    assert data.test is not None
    assert data.train.owner is not None
    assert data.test.owner is not None
    assert (data.train.owner.tolist(), data.test.owner.tolist()) == ([1, 0, 0], [1])  # 9 before 10
    pooled = Csv("owned.csv", label="kind", owner="who", test="later.csv", split="pooled").load(folder)
    assert pooled.train.owner is not None
    assert pooled.train.owner.tolist() == [1, 0, 0, 1]


def test_owners_may_have_names(folder: Path) -> None:
    (folder / "owned.csv").write_text(OWNED.replace("10", "ann"))
    owner = Csv("owned.csv", label="kind", owner="who").load(folder).train.owner
    assert owner is not None
    assert owner.tolist() == [1, 0, 0]


def test_bad_owners(folder: Path) -> None:
    (folder / "owned.csv").write_text(OWNED)
    (folder / "later.csv").write_text("a,kind,who\n4,y,10\n4,y,3\n")
    (folder / "nobody.csv").write_text(OWNED + ",4,x\n")
    for source, message in [
        (Csv("owned.csv", label="kind", owner="whom"), "unknown column 'whom'.*Did you mean 'who'"),
        (Csv("nobody.csv", label="kind", owner="who"), r"line 5: the owner \(column 'who'\) is empty"),
        (
            Csv("owned.csv", label="kind", owner="who", test="later.csv"),
            "later.csv: 3 .* no rows in owned.csv",
        ),
    ]:
        with pytest.raises(DataError, match=message):
            source.load(folder)


HOUSES = "rooms,size,price,days\n3,80,200.5,7\n4,120,310,9\n2,50,150,30\n"


def test_columns_of_numbers_to_predict(folder: Path) -> None:
    (folder / "houses.csv").write_text(HOUSES)
    data = Csv("houses.csv", target=("days", "price")).load(folder)
    assert data.columns == ("rooms", "size")
    assert data.classes == ("days", "price")
    assert data.train.y.tolist() == [[7.0, 200.5], [9.0, 310.0], [30.0, 150.0]]
    assert data.train.x.tolist() == [[3.0, 80.0], [4.0, 120.0], [2.0, 50.0]]


def test_bad_targets(folder: Path) -> None:
    (folder / "houses.csv").write_text(HOUSES.replace("310", "dear"))
    for source, message in [
        (Csv("houses.csv"), "name either the column of labels, as label, or columns of numbers, as target"),
        (Csv("houses.csv", label="days", target=("price",)), "name either the column of labels"),
        (Csv("houses.csv", target=("price",), classes=("a", "b")), "are about labels, not about a target"),
        (Csv("houses.csv", target=("cost",)), "unknown column 'cost'"),
        (
            Csv("houses.csv", target=("price",)),
            "line 3, column 'price': expected a finite number, got 'dear'",
        ),
    ]:
        with pytest.raises(DataError, match=message):
            source.load(folder)
