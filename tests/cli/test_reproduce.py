"""`coterie reproduce`, every target in its quick version."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from matplotlib.image import imread

from tests.cli.conftest import Command, Refused, says
from tests.studies.reproduce.files import write_emnist, write_iot


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_iot(tmp_path / "data")
    write_emnist(tmp_path / "data")
    return tmp_path / "data"


def test_table1(coterie: Command, data: Path) -> None:
    answer = coterie("reproduce", "table1", "--quick", "--data", data)
    assert (answer.code, answer.err) == (0, "")
    for text in (
        "Table I, IoT devices",
        "Table I, emnist47",
        "KD-PDFL against each other method",
        "seeds 0, 1,",
    ):
        assert text in answer.out
    assert "EMNIST" not in answer.out, "emnist47 never goes by the official name"
    files = {file.name for file in Path("runs/table1").iterdir() if file.is_file()}
    assert files == {"table1.json", "table1.md", "table1.tex", "table1.csv", "table1-tests.csv"}
    values = json.loads(Path("runs/table1/table1.json").read_text())
    assert list(values["datasets"]) == ["iot", "emnist47"]
    for part in values["datasets"].values():
        assert len(part["rows"]) == 4 * 2
        assert len(part["tests"]) == 3 * 2 * 2
        assert part["command"].endswith(f"reproduce table1 --quick --data {data}")
        assert part["torch"]
    with open("runs/table1/table1.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {row["method"] for row in rows} == {"Local", "FedAvg", "FedAvg+", "KD-PDFL"}
    assert 0 <= float(rows[0]["personal_mean"]) <= 1
    assert Path("runs/table1/table1.md").read_text().startswith("IoT devices: `coterie reproduce table1")
    assert r"\toprule" in Path("runs/table1/table1.tex").read_text()

    again = coterie("reproduce", "table1", "--quick", "--data", data)
    assert again.code == 2
    assert "--resume" in again.err
    resumed = coterie("reproduce", "table1", "--quick", "--data", data, "--resume", "--json")
    assert json.loads(resumed.out) == values

    Path("runs/table1/table1.json").unlink()
    Path("runs/table1/table1.md").write_text("my own notes")
    foreign = coterie("reproduce", "table1", "--quick", "--data", data, "--resume")
    says(foreign.err, "is not known to be a file that coterie wrote, so it is not replaced")
    assert Path("runs/table1/table1.md").read_text() == "my own notes"


@pytest.mark.parametrize(
    ("target", "dataset"),
    [("fig3", None), ("fig4", None), ("fig4", "iot"), ("fig5", None)],
)
def test_figures(coterie: Command, data: Path, target: str, dataset: str | None) -> None:
    asked = ["--dataset", dataset] if dataset else []
    answer = coterie("reproduce", target, "--quick", "--data", data, "--out", "here", "--json", *asked)
    assert answer.code == 0, answer.err
    values = json.loads(answer.out)
    assert values == json.loads(Path(f"here/{target}.json").read_text())
    height, width, _ = imread(f"here/{target}.png").shape
    assert min(height, width) > 500
    assert Path(f"here/{target}.pdf").read_bytes().startswith(b"%PDF")
    default = {"fig3": ["iot", "emnist47"], "fig4": ["emnist47"], "fig5": ["iot"]}[target]
    assert list(values["datasets"]) == (
        [{"iot": "iot", "emnist": "emnist47"}[dataset]] if dataset else default
    )


def test_what_is_not_there_is_left_out_and_said(coterie: Command, tmp_path: Path) -> None:
    write_iot(tmp_path / "data")
    answer = coterie("reproduce", "table1", "--quick", "--seeds", "1", "--data", "data")
    assert answer.code == 0
    assert "left out, for its files are not there: emnist" in answer.out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["table2"], ["unknown target 'table2'", "Did you mean 'table1'?"]),
        (["table1", "--dataset", "mnist"], ["unknown data set 'mnist'", "known: emnist, iot"]),
        (["table1", "--reading", "worst"], ["unknown reading 'worst'", "best, paper"]),
        (["table1", "--data", "nowhere"], ["no files of iot", "nowhere", "coterie data fetch"]),
        (["table1", "--resume"], ["nothing to resume in runs/table1"]),
        (["table1", "--quick", "--device", "gpu"], ["device 'gpu'"]),
    ],
)
def test_mistakes(refused: Refused, data: Path, words: list[str], parts: list[str]) -> None:
    given = [] if "--data" in words else ["--data", str(data)]
    says(refused("reproduce", *words, *given), *parts)


def test_help(coterie: Command) -> None:
    answer = coterie("reproduce", "--help")
    assert answer.code == 0
    assert "coterie reproduce table1 --dataset iot" in answer.out
