from __future__ import annotations

from pathlib import Path

import pytest
import torch

from coterie.core.errors import DataError
from coterie.core.registry import build
from coterie.data_files.catalogue import SHIPPED
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.heart import Heart

HEALTHY, SICK = (
    "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n",
    "67,1,4,160,286,0,2,108,1,1.5,2,3,3,3\n",
)
CLEVELAND = HEALTHY * 164 + SICK * 139


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "heart"
    folder.mkdir()
    for hospital in ("hungarian", "switzerland", "va"):
        (folder / f"processed.{hospital}.data").write_text(HEALTHY + SICK)
    (folder / "processed.cleveland.data").write_text(CLEVELAND)
    return tmp_path


def test_it_comes_with_coterie(tmp_path: Path) -> None:
    data = validate_dataset(build("dataset", "heart", {}, "data.set").load(tmp_path), "heart")
    assert data.train.x.shape == (920, 26)
    assert data.test is None
    assert data.classes == ("healthy", "sick")
    assert data.train.owner is not None
    assert data.train.owner.bincount().tolist() == [303, 294, 123, 200]
    assert [int(data.train.y[data.train.owner == i].sum()) for i in range(4)] == [139, 106, 115, 149]
    unknown = data.train.x[:, 13:]
    share = [round(100 * float(unknown[data.train.owner == i].mean())) for i in range(4)]
    assert share == [0, 20, 25, 29]  # in percent
    assert data.columns[:2] == ("age", "sex")
    assert data.columns[13:15] == ("age unknown", "sex unknown")


def test_each_hospital_keeps_its_own_patients() -> None:
    federation = Dealer(None).federation(Experiment().replace(data={"set": "heart", "clients": 4}), seed=0)
    owner = torch.arange(4).repeat_interleave(torch.tensor([303, 294, 123, 200]))
    for split in (federation.train, federation.validation, federation.personal):
        assert torch.equal(owner[split.index], torch.arange(4).repeat_interleave(split.count))
    assert federation.group.tolist() == [0, 0, 0, 0]


def test_its_licence_and_authors_come_with_it() -> None:
    notice = (SHIPPED / "heart" / "README.md").read_text("utf-8")
    for words in ("CC BY 4.0", "10.24432/C52P4X", "Janosi", "Steinbrunn", "Pfisterer", "Detrano"):
        assert words in notice


def test_official_files_take_precedence(root: Path) -> None:
    data = Heart().load(root)
    assert len(data.train.y) == 303 + 3 * 2
    assert data.train.y[-2:].tolist() == [0, 1]  # 0 is healthy, 1 to 4 are sick
    assert data.train.x[0].tolist() == pytest.approx(
        [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6, *[0] * 13]
    )


def test_what_nobody_knows_is_the_median_and_flagged(root: Path) -> None:
    rows = [
        "50,1,1,100,0,?,2,150,0,2,3,0,?,0",
        "50,1,1,120,?,1,2,150,0,2,3,0,?,0",
        "50,1,1,0,0,0,2,150,0,2,3,0,?,1",
    ]
    (root / "heart" / "processed.va.data").write_text("\n".join(rows))
    x = Heart().load(root).train.x[-3:]
    assert x[:, 3].tolist() == [100, 120, 110]  # 0 is no blood pressure; the median of 100 and 120
    assert x[:, 5].tolist() == [0.5, 1, 0]
    assert x[:, 4].tolist() == x[:, 12].tolist() == [0, 0, 0]  # never measured
    flags = torch.zeros(3, 13)
    flags[:, [4, 12]] = 1
    flags[2, 3] = flags[0, 5] = 1
    assert torch.equal(x[:, 13:], flags)


def test_incomplete(root: Path) -> None:
    (root / "heart" / "processed.va.data").unlink()
    with pytest.raises(
        DataError, match=r"there is no .*processed\.va\.data; download the files of https://archive"
    ):
        Heart().load(root)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            HEALTHY * 139 + SICK * 164,
            "expected 303 patients, of whom 164 are healthy, got 303 and 139; .* inverted",
        ),
        (CLEVELAND + SICK, "got 304 and 164"),
        (CLEVELAND[:-9], "line 303: expected 14 cells"),
        (CLEVELAND[:-2] + "?", "line 303: expected a finite number, got '\\?'"),
        (CLEVELAND.replace("63.0", "old", 1), "line 1: expected a finite number or '\\?', got 'old'"),
    ],
)
def test_damaged(root: Path, content: str, message: str) -> None:
    (root / "heart" / "processed.cleveland.data").write_text(content)
    with pytest.raises(DataError, match=message) as error:
        Heart().load(root)
    assert "processed.cleveland.data" in str(error.value)
