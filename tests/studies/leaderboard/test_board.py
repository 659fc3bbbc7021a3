"""A whole board: tuned, run, resumed, with what cannot run left out."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError, RunError
from coterie.runs import Run
from coterie.studies.leaderboard.pieces import TIMING, trials
from coterie.studies.leaderboard.report import Board
from coterie.studies.sweep.folder import Job
from coterie.studies.sweep.runner import SweepStopped
from coterie.studies.sweep.worker import JobEvent
from coterie.studies.tuning.trials import best
from tests.sharing import made_once
from tests.studies.leaderboard.small import COLUMNS, board, cells
from tests.studies.sweep.small import Shown

OWN = """
from dataclasses import dataclass
from coterie.plugins.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    trust: float = 0.5
    def search_space(self):
        return {"trust": (0.1, 0.9)}

@dataclass(frozen=True)
class Raises(FedAvg):
    def mix(self, task, state, inbox, probe, ctx):
        raise RuntimeError("no such thing here")

@dataclass(frozen=True)
class Wild(FedAvg):
    pace: float = 1.0
    def local(self, task, state, batch, ctx):
        return task.step(state, batch._replace(lr=batch.lr * self.pace))
    def search_space(self):
        return {"pace": (1e30, 1e31)}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's own, called board_methods, in the folder of the command."""
    (tmp_path / "board_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "board_methods", raising=False)


@pytest.fixture
def two(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Board:
    """A finished board of column two alone, in the folder of the test."""
    shutil.copytree(
        made_once(tmp_path_factory, "board", lambda folder: board(folder, "two")),
        tmp_path,
        dirs_exist_ok=True,
    )
    return again(tmp_path)


def again(folder: Path, **more: Any) -> Board:
    """Resume a board as it was begun."""
    return board(folder, methods=(), seeds=None, own_columns=None, resume=True, **more)


def jobs(folder: Path) -> list[Job]:
    manifest = json.loads((folder / "board" / "manifest.json").read_text())
    return [Job(**job) for job in manifest["jobs"]]


def test_every_method_is_tuned_alike_and_run_on_fresh_seeds(tmp_path: Path) -> None:
    found = board(tmp_path)
    values = found.values
    assert values["state"] == "done"
    assert [(c["name"], c["state"], c["clients"], c["groups"]) for c in values["columns"]] == [
        ("two", "done", 4, 2),
        ("one", "done", 4, 1),
    ]
    assert not set(values["seeds"]) & set(values["tuning_seeds"])
    for column in ("two", "one"):
        for cell in cells(found, column).values():
            assert cell["validation"]["candidates"] == values["candidates"]
            assert {"train.lr", "train.personalize_lr"} <= cell["setting"].keys()
            assert len(cell["personal"]["seeds"]) == 2
    seconds = [method["seconds"] for method in values["methods"].values()]
    assert all(one["alone"] > 0 and one["column"] == "two" for one in seconds)
    assert json.loads((tmp_path / "board" / "leaderboard.json").read_text()) == json.loads(json.dumps(values))


def test_the_chosen_candidate_is_the_best_on_validation_data(two: Board, tmp_path: Path) -> None:
    found = two
    tuning, figures, *_ = jobs(tmp_path)
    judged = trials([tuning], tmp_path / "board" / "jobs")
    for label, of in judged.items():
        key = list(of)[best(list(of.values()))]
        assert figures.setting["methods"][label] == tuning.setting["methods"][key]
        assert cells(found, "two")[label]["validation"]["mean"] == of[key].mean
    rows = [row for row in Run(tmp_path / "board" / "jobs" / "two-tuning").tracks if row.label == "Local #1"]
    assert judged["Local"]["Local #1"].scores == tuple(
        float(row.scores["validation"][-1].mean()) for row in rows
    )


def test_cells_are_those_of_the_run(two: Board, tmp_path: Path) -> None:
    found = two
    summary = Run(tmp_path / "board" / "jobs" / "two-figures").summary()["methods"]
    for label, cell in cells(found, "two").items():
        assert cell["personal"]["mean"] == summary[label]["personal"]["mean"]
        assert cell["worst10"] == summary[label]["personal"]["worst10"]
        assert cell["megabytes"] == summary[label]["bytes_sent"] / 1e6
        assert cell["best_over_rounds"]["mean"] >= cell["personal"]["mean"]
    assert cells(found, "two")["Local"]["hurt"] is None
    # 20 iterations, of which 2 of every 5 are no local steps until the closing phase at 18
    assert cells(found, "two")["Local"]["gradients"] == 20 - 2 * 3


def test_ranks_losses_and_the_best_of_a_column(two: Board) -> None:
    found = two
    own = cells(found, "two")
    contest = {k: c["personal"]["mean"] for k, c in own.items() if k not in found.values["references"]}
    first = max(contest, key=lambda k: contest[k])
    assert found.values["columns"][0]["best"] == first
    assert own[first]["loss"] == 0.0
    assert own[first]["as_good"]
    for label, mean in contest.items():
        assert own[label]["loss"] == pytest.approx(contest[first] - mean, abs=1e-6)
        assert found.values["methods"][label]["regret"]["points"] == own[label]["loss"]


def test_a_finished_board_is_not_run_again(two: Board, tmp_path: Path) -> None:
    shown = Shown()
    found = again(tmp_path, view=shown)
    assert not shown.events
    assert cells(found, "two") == cells(two, "two")


def test_a_stopped_board_goes_on_to_the_same_numbers(two: Board, tmp_path: Path) -> None:
    (cut := tmp_path / "cut").mkdir()
    stopping = Shown(lambda event: _interrupt())
    with pytest.raises(SweepStopped, match="everything is saved"):
        board(cut, "two", view=stopping)
    assert json.loads((cut / "board" / "leaderboard.json").read_text())["state"] == "unfinished"
    assert cells(board(cut, "two", resume=True), "two") == cells(two, "two")


class Order(Shown):
    """What is seen of jobs, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, str]] = []

    def show(self, event: JobEvent) -> None:
        super().show(event)
        if event.done:
            self.order.append((event.job, "runs"))

    def ended(self, job: str, state: str) -> None:
        super().ended(job, state)
        self.order.append((job, state))


@pytest.mark.usefixtures("outside")
def test_side_by_side_comes_to_the_same_numbers_and_times_methods_alone(tmp_path: Path) -> None:
    beside, alone = tmp_path / "beside", tmp_path / "alone"
    beside.mkdir()
    alone.mkdir()
    seen = Order()
    found, want = board(beside, jobs=2, view=seen), board(alone)
    assert found.values["state"] == "done"
    for column in ("two", "one"):
        assert cells(found, column) == cells(want, column)
    timed = [job.name for job in jobs(beside) if TIMING in job.name]
    assert len(timed) == len(found.values["methods"])
    last = max(seen.order.index((job.name, "done")) for job in jobs(beside) if job.name not in timed)
    before, after = ([job for job, _ in part] for part in (seen.order[:last], seen.order[last + 1 :]))
    assert not set(before) & set(timed)
    assert [job for job, _ in itertools.groupby(after)] == timed


def test_side_by_side_is_for_this_machine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--jobs 2 .*--ray local .*leave out one of the two"):
        board(tmp_path, jobs=2, ray="local")
    assert not (tmp_path / "board").exists()


def _interrupt() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("own")
def test_a_method_of_ones_own_joins_a_finished_board(two: Board, tmp_path: Path) -> None:
    shown = Shown()
    found = board(tmp_path, "two", methods=("board_methods:Mine",), resume=True, view=shown)
    mine, timed = cells(found, "two")["Mine"], jobs(tmp_path)[-1].name
    assert {event.job for event in shown.events} == {"two", "two-tuning-2", "two-figures-2", timed}
    assert mine["setting"]["trust"] in (0.1, 0.5, 0.9)
    assert mine["hurt"] is not None  # against Local, which ran before
    before, after = cells(two, "two")["KD-PDFL"], cells(found, "two")["KD-PDFL"]
    assert before["personal"] == after["personal"]


@pytest.mark.usefixtures("own")
def test_a_method_that_raises_leaves_a_dash_and_says_why(tmp_path: Path) -> None:
    shown = Shown()
    found = board(tmp_path, "two", methods=("KD-PDFL", "board_methods:Raises"), view=shown)
    assert "no such thing here" in cells(found, "two")["Raises"]["why"]
    assert cells(found, "two")["KD-PDFL"]["rank"] is not None
    assert found.values["state"] == "done"
    assert any("Raises cannot run in column two" in text for text in shown.notices)
    assert "no such thing here" in (tmp_path / "board" / "leaderboard.md").read_text()


@pytest.mark.usefixtures("own")
def test_a_candidate_that_diverges_costs_itself_only(tmp_path: Path) -> None:
    found = board(tmp_path, "two", methods=("board_methods:Wild",))
    tuning, *_ = jobs(tmp_path)
    judged = trials([tuning], tmp_path / "board" / "jobs")["Wild"]
    first, *others = judged.values()
    assert (first.values["pace"], first.diverged) == (1.0, 0)
    assert others
    assert all(trial.values["pace"] > 1 and trial.diverged > 0 for trial in others)
    wild = cells(found, "two")["Wild"]
    assert (wild["setting"]["pace"], wild["diverged"]) == (1.0, 0)


def test_a_column_without_its_data_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "columns.toml").write_text(
        f'{COLUMNS}\n[columns.gone]\nmodel = "mlp"\ndata.set = {{ name = "npz", path = "gone.npz" }}\n'
    )
    shown = Shown()
    found = board(tmp_path, "gone", "two", view=shown)
    assert [(c["name"], c["state"]) for c in found.values["columns"]] == [
        ("two", "done"),
        ("gone", "left out"),
    ]
    assert "gone.npz" in found.values["columns"][1]["why"]
    assert any("column gone is left out" in text and "--data" in text for text in shown.notices)


@pytest.mark.usefixtures("two")
def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="continue it with --resume"):
        board(tmp_path, "two")


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no leaderboard to resume in"):
        board(tmp_path, resume=True)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("other", [{"seeds": 3}, {"device": "cuda"}])
def test_a_board_is_resumed_with_the_sizes_it_was_begun_with(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="this leaderboard was begun with --"):
        board(tmp_path, resume=True, **other)
