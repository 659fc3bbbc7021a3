"""From data files to the report, in the quick version."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.api import Stopped
from coterie.core.errors import DataError, RunError
from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.studies.reproduce.available_data import source
from coterie.studies.reproduce.reproduction import Report, reproduce
from tests.studies.reproduce.files import write_emnist, write_iot


class Watcher:
    """Keeps what it is told; asks the run of one experiment to stop on its way."""

    def __init__(self, stop: str = "") -> None:
        self.stop, self.name = stop, ""
        self.started: list[str] = []
        self.notices: list[str] = []

    @contextmanager
    def view(self, experiment: Experiment) -> Iterator[Watcher]:
        self.name = experiment.name
        self.started.append(f"{experiment.name} {list(experiment.seeds)}")
        yield self

    def stage(self, text: str) -> None: ...

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def advance(self, done: int, total: int, client_steps: int) -> None:
        if self.name == self.stop and done >= 4:
            os.kill(os.getpid(), signal.SIGINT)

    def evaluated(self, personal: Mapping[str, float]) -> None: ...


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_iot(tmp_path / "data")
    return tmp_path / "data"


def numbers(report: Report) -> list[object]:
    return [values["rows"] for values in report.values["datasets"].values()]


def test_what_was_stopped_goes_on_and_what_is_done_is_left_alone(data: Path, tmp_path: Path) -> None:
    write_emnist(data)
    whole = reproduce("table1", data=data, out=tmp_path / "whole", quick=True, seeds=1)
    watcher = Watcher(stop="table1-emnist47")
    with pytest.raises(Stopped):
        reproduce("table1", data=data, out=tmp_path / "cut", quick=True, seeds=1, view=watcher.view)
    done = (tmp_path / "cut/iot/metrics.jsonl").stat()
    watcher = Watcher()
    found = reproduce(
        "table1", data=data, out=tmp_path / "cut", quick=True, seeds=1, resume=True, view=watcher.view
    )
    assert watcher.started == ["table1-emnist47 [0]"]
    assert (tmp_path / "cut/iot/metrics.jsonl").stat() == done
    assert numbers(found) == numbers(whole)


def test_too_little_memory_for_all_seeds(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reproduce("table1", "iot", data=data, out=tmp_path / "whole", quick=True, seeds=2)
    # 56 models of 2 x 2,313 numbers are some 1 MB; a world has at most 8 of them
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: 120 if name == "SC_PHYS_PAGES" else real(name))
    watcher = Watcher()
    parts = reproduce(
        "table1", "iot", data=data, out=tmp_path / "parts", quick=True, seeds=2, view=watcher.view
    )
    (said,) = watcher.notices
    assert said.startswith("too little memory for all 16 worlds at once, so in 2 parts")
    assert numbers(parts) == numbers(whole)


def test_another_mistake_is_no_matter_of_memory(data: Path, tmp_path: Path) -> None:
    watcher = Watcher()
    with pytest.raises(Exception, match="device 'gpu'"):
        reproduce("table1", data=data, out=tmp_path / "out", quick=True, device="gpu", view=watcher.view)
    assert watcher.started == ["table1-iot [0, 1]"]
    assert not list((tmp_path / "out").rglob("*"))


def test_a_folder_in_use_and_one_with_nothing_to_resume(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter").write_text("dear")
    with pytest.raises(RunError, match=r"mine is in use: it is not empty; continue it with --resume"):
        reproduce("fig5", data=data, out=tmp_path / "mine", quick=True)
    for name in ("none", "mine"):
        with pytest.raises(RunError, match=rf"there is nothing to resume in .*{name}"):
            reproduce("fig5", data=data, out=tmp_path / name, quick=True, resume=True)


def test_another_experiment_is_not_resumed(data: Path, tmp_path: Path) -> None:
    reproduce("table1", data=data, out=tmp_path / "out", quick=True, seeds=1)
    with pytest.raises(RunError, match="another experiment; different: seeds"):
        reproduce("table1", data=data, out=tmp_path / "out", quick=True, seeds=2, resume=True)
    assert Run(tmp_path / "out/iot").status["state"] == "done"


def test_a_damaged_second_data_set_is_told_before_the_first_runs(data: Path, tmp_path: Path) -> None:
    write_emnist(data)
    (data / "emnist47/emnist47-test-images-idx3-ubyte.gz").write_bytes(b"broken")
    watcher = Watcher()
    with pytest.raises(DataError, match="emnist47-test-images"):
        reproduce("table1", data=data, out=tmp_path / "out", quick=True, view=watcher.view)
    assert watcher.started == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("target", "dataset", "lacking"),
    [
        ("table1", None, "iot or emnist-balanced or emnist47"),
        ("fig4", None, "emnist-balanced or emnist47"),
        ("fig4", "iot", "iot"),
    ],
)
def test_missing_data(tmp_path: Path, target: str, dataset: str | None, lacking: str) -> None:
    with pytest.raises(
        DataError, match=f"no files of {lacking} in {tmp_path}; get them with: coterie data fetch"
    ):
        reproduce(target, dataset, data=tmp_path, out=tmp_path / "out")


def test_the_official_files_come_first(data: Path) -> None:
    assert source("emnist", data) is None
    for prefix, title in (("emnist47", "emnist47"), ("emnist-balanced", "EMNIST balanced")):
        write_emnist(data, prefix)
        found = source("emnist", data)
        assert found is not None
        assert found.title == title
