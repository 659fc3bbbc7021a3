"""Whole sweeps on one machine: the same bits as single runs, stopped, killed, too large, and failing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from coterie import Run, __version__, run
from coterie.core.errors import ConfigError, RunError
from coterie.core.support.toml import dumps
from coterie.studies.sweep.folder import Sweep, SweepFolder
from coterie.studies.sweep.grid import jobs
from coterie.studies.sweep.runner import SweepStopped, sweep
from coterie.studies.sweep.worker import Outcome
from tests.studies.sweep.small import PYTHONPATH, Shown, at_the_gate, equal, gated, grid, own_data, pipe


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The small grid, swept; look, do not touch."""
    folder = tmp_path_factory.mktemp("whole")
    return sweep(grid(folder), folder / "sweep")


def states(path: Path) -> dict[str, str]:
    return {job.name: job.state for job in Sweep(path).jobs}


def test_every_job_is_an_ordinary_run(tmp_path: Path) -> None:
    small, shown = grid(tmp_path), Shown()
    found = sweep(small, tmp_path / "sweep", view=shown)
    assert [job.name for job in found.jobs] == ["001", "002"]
    for job in found.jobs:
        alone = run(job.experiment(small.base), tmp_path / f"alone-{job.name}", plots=False)
        equal(found.path / "jobs" / job.name, alone.path)
    assert shown.counts == [(0, 2), (1, 2), (2, 2)]
    assert shown.ends == [("001", "done"), ("002", "done")]
    assert {event.job for event in shown.events} == {"001", "002"}
    assert shown.notices == []


def test_the_whole_grid_as_one_run_gives_the_same_numbers(tmp_path: Path, whole: Sweep) -> None:
    small = grid(tmp_path)
    one = run(small.base.replace(grid=small.keys), tmp_path / "one", plots=False)
    assert whole.summary()["methods"] == one.summary()["methods"]
    table, want = whole.table(), one.table()
    assert set(want) <= set(table)
    assert table["personal_mean"].tolist() == want["personal_mean"].tolist()
    assert table["bytes_sent"].tolist() == want["bytes_sent"].tolist()


def test_one_table_across_keys_of_any_kind(tmp_path: Path) -> None:
    keys = {"train.lr": [0.05, 0.2], "dtype": ["float32", "float64"], "train.batch": [4]}
    found = sweep(grid(tmp_path, grid=keys), tmp_path / "sweep")
    assert list(found.summary()["methods"])[:2] == [
        "Local [lr=0.05, batch=4, dtype=float32]",
        "KD-PDFL [lr=0.05, batch=4, dtype=float32]",
    ]
    table = pd.read_csv(found.path / "table.csv")
    assert list(table)[:4] == ["method", "train.lr", "dtype", "train.batch"]
    assert len(table) == 2 * 2 * 2
    assert set(table["personal_hurt_vs_local"][table["method"] == "Local"]) == {0.0}
    facts = json.loads((found.path / "table.json").read_text())
    assert facts == found.summary()
    assert (facts["state"], facts["jobs"], facts["t"]) == ("done", {"done": 2, "all": 2}, 40)
    text = (found.path / "table.md").read_text()
    assert text.startswith("| method | lr | dtype | batch | personal % |")
    for row in ("| {} | 0.05 | float32 | 4 |", "| {} | 0.2 | float64 | 4 |"):
        assert [text.count(row.format(method)) for method in ("Local", "KD-PDFL")] == [1, 1]
    assert text.count("\n| Local |") == text.count("\n| KD-PDFL |") == 4


def test_rows_are_named_apart_across_jobs(tmp_path: Path) -> None:
    kinds = [{"name": "sgd", "momentum": 0.5}, {"name": "sgd", "weight_decay": 0.5}]
    keys = {"data.sizes": [[3, 12]], "train.optimizer": kinds}
    found = sweep(grid(tmp_path, seeds=1, methods=["Local"], grid=keys), tmp_path / "sweep")
    assert list(found.summary()["methods"]) == [
        "Local [sizes=[3, 12], optimizer=sgd momentum=0.5]",
        "Local [sizes=[3, 12], optimizer=sgd weight_decay=0.5]",
    ]


def test_smaller_jobs_make_the_same_table(tmp_path: Path) -> None:
    """Rows of one method and setting come together from jobs of one seed each."""
    small = grid(tmp_path, dtype="float64")
    whole, cut = (sweep(small, tmp_path / str(most), worlds=most) for most in (None, 2))
    assert (len(whole.jobs), len(cut.jobs)) == (2, 8)
    pd.testing.assert_frame_equal(cut.table(), whole.table(), check_exact=False, atol=1e-9)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_goes_on(tmp_path: Path, whole: Sweep, number: signal.Signals) -> None:
    small = grid(tmp_path)
    stop = Shown(lambda _: signal.raise_signal(number))
    with pytest.raises(
        SweepStopped, match="stopped with 0 of 2 jobs done; everything is saved in"
    ) as stopped:
        sweep(small, tmp_path / "sweep", view=stop)
    assert stopped.value.path == tmp_path / "sweep"
    assert states(tmp_path / "sweep") == {"001": "waiting", "002": "waiting"}
    assert Run(tmp_path / "sweep/jobs/001").status["state"] == "stopped"
    found = sweep(small, tmp_path / "sweep", resume=True)
    for job in ("001", "002"):
        equal(found.path / "jobs" / job, whole.path / "jobs" / job)


@pytest.mark.usefixtures("outside")
def test_killed_it_goes_on(tmp_path: Path) -> None:
    """SIGKILL in the middle of the first job; the rest comes to the same bits."""
    small = gated(tmp_path)
    (tmp_path / "gated.toml").write_text(dumps(small.plain()))
    words = ["sweep", "gated.toml", "--out", "sweep", "--cpus", "1", "--checkpoint", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", "from coterie.cli import main; main()", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.DEVNULL,
    ) as process:
        held = at_the_gate(pipe(tmp_path), process)
        process.kill()  # before the other end is let go
    os.close(held)
    assert process.returncode == -signal.SIGKILL
    assert states(tmp_path / "sweep") == {"001": "waiting", "002": "waiting"}
    held = os.open(pipe(tmp_path), os.O_RDWR)
    try:
        found = sweep(small, tmp_path / "sweep", resume=True)
        want = sweep(small, tmp_path / "whole", cpus=1)
    finally:
        os.close(held)
    for job in ("001", "002"):
        equal(found.path / "jobs" / job, want.path / "jobs" / job)


def test_killed_before_a_run_had_begun(tmp_path: Path) -> None:
    small = grid(tmp_path)
    with SweepFolder.create(tmp_path / "sweep", small, jobs(small), 1, {"torch": "0.1"}):
        pass
    half_made = tmp_path / "sweep/jobs/001"
    half_made.mkdir(parents=True)
    (half_made / "environment.json").write_text("{}")
    shown = Shown()
    assert sweep(small, tmp_path / "sweep", resume=True, view=shown).summary()["state"] == "done"
    assert (
        f"this sweep was begun with torch 0.1; what is left is run with coterie {__version__}"
        in shown.notices[0]
    )


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    small = grid(tmp_path)
    found = sweep(small, tmp_path / "sweep")
    before = {file: file.stat().st_mtime_ns for file in found.path.glob("jobs/*/metrics.jsonl")}
    shutil.rmtree(found.path / "jobs" / "002")
    shown = Shown()
    sweep(small, tmp_path / "sweep", resume=True, view=shown)
    assert (shown.counts, shown.ends) == ([(1, 2), (2, 2)], [("002", "done")])
    after = {file: file.stat().st_mtime_ns for file in before}
    assert [before[file] == after[file] for file in sorted(before)] == [True, False]


def test_too_large_for_memory_it_goes_in_halves(tmp_path: Path) -> None:
    small = grid(tmp_path, dtype="float64", grid={"train.lr": [0.1, 0.2]})
    want = sweep(small, tmp_path / "whole")
    assert len(want.jobs) == 1
    hungry = grid(
        tmp_path,
        dtype="float64",
        grid={"train.lr": [0.1, 0.2]},
        exchange__channel="tests.studies.sweep.gate:Hungry",
    )
    shown = Shown()
    found = sweep(hungry, tmp_path / "sweep", view=shown)
    assert [job.name for job in found.jobs] == ["001aa", "001ab", "001ba", "001bb"]
    assert [job["state"] for job in found.manifest["jobs"]].count("split") == 3
    assert "job 001 needs too much memory, so in halves, 001a and 001b: out of memory" in shown.notices
    assert sorted(p.name for p in (found.path / "jobs").iterdir()) == ["001aa", "001ab", "001ba", "001bb"]
    pd.testing.assert_frame_equal(found.table(), want.table(), check_exact=False, atol=1e-9)


def test_a_job_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    small = grid(tmp_path, grid={"model": ["tests.engine.nets:too_wide", "linear"]})
    with pytest.raises(
        RunError, match=r"1 of 2 jobs failed: job 001: model Sequential puts out .*saved in .*--resume"
    ):
        sweep(small, tmp_path / "sweep")
    assert states(tmp_path / "sweep") == {"001": "failed", "002": "done"}
    summary = Sweep(tmp_path / "sweep").summary()
    assert (summary["state"], summary["jobs"]) == ("failed", {"done": 1, "all": 2})
    assert list(summary["methods"]) == ["Local [model=linear]", "KD-PDFL [model=linear]"]


def test_other_data_are_refused(tmp_path: Path) -> None:
    """A folder whose jobs were computed on two versions of a file would compare what cannot be compared."""
    small = grid(tmp_path, data__set=own_data(tmp_path))
    found = sweep(small, tmp_path / "sweep", data=tmp_path)
    shutil.rmtree(found.path / "jobs" / "002")
    own_data(tmp_path, fourth="3,3,1")
    with pytest.raises(
        RunError, match=r"other data than .*: .* hash to \w{16} and \w{16}; put the same files"
    ):
        sweep(small, tmp_path / "sweep", data=tmp_path, resume=True)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    small = grid(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(RunError, match=r"full is in use: it is not empty; choose another folder"):
        sweep(small, tmp_path / "full")
    with pytest.raises(RunError, match="not a sweep folder"):
        sweep(small, tmp_path / "full", resume=True)
    found = sweep(small, tmp_path / "sweep", cpus=1)
    with pytest.raises(RunError, match="continue it with --resume, or choose another folder"):
        sweep(small, tmp_path / "sweep")
    with pytest.raises(RunError, match="a sweep of another grid"):
        sweep(grid(tmp_path, grid={"train.lr": [1]}), tmp_path / "sweep", resume=True)
    with pytest.raises(ConfigError, match="begun with --cpus 1"):
        sweep(small, tmp_path / "sweep", resume=True, cpus=2)
    with (
        SweepFolder.resume(found.path, small),
        pytest.raises(RunError, match="another process is writing here"),
    ):
        sweep(small, tmp_path / "sweep", resume=True)
    (found.path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(RunError, match=r"format 99, but this version of coterie reads format 1"):
        Sweep(found.path)


@pytest.mark.parametrize("options", [{"cpus": 0}, {"worlds": 0}, {"retries": -1}])
def test_numbers_that_make_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"must be at least"):
        sweep(grid(tmp_path), tmp_path / "sweep", **options)
    assert not (tmp_path / "sweep").exists()


def test_threads_are_as_before(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    during: list[int] = []
    sweep(
        grid(tmp_path),
        tmp_path / "sweep",
        cpus=2,
        view=Shown(lambda _: during.append(torch.get_num_threads())),
    )
    assert (during, torch.get_num_threads()) == ([2], before)


def test_results_from_other_data_are_not_taken(tmp_path: Path) -> None:
    small = grid(tmp_path)
    with SweepFolder.create(tmp_path / "sweep", small, jobs(small), 1, {}) as folder:
        folder.take(Outcome("001", "done", "here", data=("iot", "aa")), {"summary.json": b"{}"})
        with pytest.raises(
            RunError, match=r"there has other data than here: .* hash to bb and aa; put the same"
        ):
            folder.take(Outcome("002", "done", "there", data=("iot", "bb")), {"summary.json": b"{}"})
    assert [str(p.relative_to(folder.path)) for p in folder.path.glob("jobs/*/*")] == [
        "jobs/001/summary.json"
    ]
