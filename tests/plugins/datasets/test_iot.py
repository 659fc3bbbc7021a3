from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from coterie.core.errors import DataError
from coterie.core.registry import build
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.iot import Iot

TRAIN = "ack,bytes,ttl,device_category\n9,0,-1,TV\n9,1,2e18,watch\n9,5,5,water_sensor\n"
TEST = "ack,bytes,ttl,device_category\n9,3,0,watch\n9,1,1,TV\n"


@pytest.fixture(params=["iot", "."])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / request.param
    folder.mkdir(exist_ok=True)
    (folder / "iot_device_train.csv").write_text(TRAIN)
    (folder / "iot_device_test.csv").write_text(TEST)
    return tmp_path


def test_pooled(root: Path) -> None:
    data = validate_dataset(build("dataset", "iot", {}, "data.set").load(root), "iot")
    assert data.test is None
    assert data.classes == ("TV", "watch"), "water_sensor is in one file only"
    assert data.train.y.tolist() == [0, 1, 1, 0]
    log = math.log
    expected = [[0, -log(2)], [log(2), log(2e18)], [log(4), 0], [log(2), log(2)]]
    torch.testing.assert_close(data.train.x, torch.tensor(expected))


def test_official(root: Path) -> None:
    data = Iot(split="official").load(root)
    assert data.test is not None
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([0, 1], [1, 0])


def test_as_many_features_as_the_paper_has(tmp_path: Path) -> None:
    columns = ["ack", *(f"f{i}" for i in range(296)), "device_category"]
    assert len(columns) == 298
    rows = [",".join(["1"] * 297 + [kind]) for kind in ("TV", "watch")]
    for part in ("train", "test"):
        (tmp_path / f"iot_device_{part}.csv").write_text("\n".join([",".join(columns), *rows]))
    assert Iot().load(tmp_path).train.x.shape == (4, 296)


def test_the_data_folder_is_data_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "data").symlink_to(root)
    monkeypatch.chdir(tmp_path / "home")
    assert len(Iot().load(None).train.y) == 4


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DataError, match=rf"no files of iot in {tmp_path}/iot; download iot_device_train\.csv"
    ):
        Iot().load(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DataError, match=r"kaggle\.com/.*account.* into data/iot \(or .*--data or COTERIE_DATA"
    ):
        Iot().load(None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no .*iot_device_test.csv"),
        ("", "iot_device_test.csv: expected a header line"),
        (TEST.replace("ack", "id"), "unknown column 'ack'"),
        (TEST.replace("device_category", "kind"), "unknown column 'device_category'"),
        (TEST + "9,1", "line 4: expected 4 cells"),
    ],
)
def test_damaged(root: Path, content: str | None, message: str) -> None:
    path = next(root.rglob("iot_device_test.csv"))
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(DataError, match=message):
        Iot().load(root)
