"""Sweeps whose jobs run side by side, each in a process of its own: the same bits; killed, stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from coterie.core.errors import ConfigError, RunError
from coterie.core.support.toml import dumps
from coterie.studies.sweep.folder import Sweep
from coterie.studies.sweep.processes import share_of_threads
from coterie.studies.sweep.runner import SweepStopped, sweep
from coterie.studies.sweep.worker import JobEvent
from tests.studies.sweep.small import PYTHONPATH, Shown, at_the_gate, equal, gated, grid, pipe

pytestmark = pytest.mark.usefixtures("outside")


class AllAtWork(Shown):
    """Opens the gate when two jobs have got going, after it has done something else."""

    def __init__(self, gate: Path, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.gate, self.before, self.held = gate, before, -1

    def show(self, event: JobEvent) -> None:
        super().show(event)
        if self.held < 0 and len({e.job for e in self.events if e.done}) == 2:
            self.before()
            self.held = os.open(self.gate, os.O_RDWR)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_side_by_side_comes_to_the_same_bits_as_one_after_the_other(tmp_path: Path) -> None:
    small, shown = gated(tmp_path), AllAtWork(pipe(tmp_path))
    found = sweep(small, tmp_path / "sweep", jobs=2, view=shown)
    want = sweep(small, tmp_path / "whole")
    os.close(shown.held)
    assert (sorted(shown.ends), shown.counts[-1]) == ([("001", "done"), ("002", "done")], (2, 2))
    for job in ("001", "002"):
        equal(found.path / "jobs" / job, want.path / "jobs" / job)
    assert found.table().equals(want.table())
    assert {job.where for job in found.jobs} == {job.where for job in want.jobs}


def test_a_job_whose_process_is_killed_is_begun_again(tmp_path: Path) -> None:
    mortal = {"name": "tests.studies.sweep.gate:Mortal", "past": str(tmp_path / "past")}
    small = grid(tmp_path, methods={"Mortal": mortal}, grid={"train.lr": [0.05, 0.2]})
    shown = Shown()
    found = sweep(small, tmp_path / "sweep", jobs=2, view=shown)
    equal(found.path / "jobs/001", sweep(small, tmp_path / "whole").path / "jobs/001")
    assert shown.ends == [("001", "died"), ("001", "done")]
    assert shown.notices == [
        "job 001 lost its worker, so once more (1 of 3): its process was killed by signal 9"
    ]


def test_a_process_that_leaves_by_itself_has_failed_with_its_last_words(tmp_path: Path) -> None:
    small = grid(tmp_path, methods=["tests.studies.sweep.gate:Leaves"], grid={"train.lr": [0.1]})
    with pytest.raises(RunError, match="1 of 1 jobs failed: job 001: that was all"):
        sweep(small, tmp_path / "sweep", jobs=2)


def test_asked_to_stop_every_job_saves_and_goes_on(tmp_path: Path) -> None:
    small = gated(tmp_path, train__iterations=200)
    shown = AllAtWork(pipe(tmp_path), lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SweepStopped, match="stopped with 0 of 2 jobs done"):
        sweep(small, tmp_path / "sweep", jobs=2, view=shown)
    runs = Sweep(tmp_path / "sweep").runs
    assert {name: run.status["state"] for name, run in runs.items()} == {"001": "stopped", "002": "stopped"}
    found = sweep(small, tmp_path / "sweep", resume=True)
    want = sweep(small, tmp_path / "whole")
    os.close(shown.held)
    for job in ("001", "002"):
        equal(found.path / "jobs" / job, want.path / "jobs" / job)


def signalled(folder: Path, number: signal.Signals) -> tuple[int, bytes]:
    """Send a signal to a command with all that a terminal counts to it, as soon as a job is at the gate."""
    words = ["sweep", "gated.toml", "--out", "sweep", "--jobs", "2", "--checkpoint", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", "from coterie.cli import main; main()", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        held = at_the_gate(pipe(folder), process)
        os.killpg(process.pid, number)
        out, _ = process.communicate()
    os.close(held)
    return process.returncode, out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_takes_its_processes_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in a terminal, or a kill; either way the sweep can be resumed at once."""
    small = gated(tmp_path, train__iterations=200)
    (tmp_path / "gated.toml").write_text(dumps(small.plain()))
    code, out = signalled(tmp_path, number)
    if number == signal.SIGINT:
        assert (code, b"Traceback" in out) == (130, False)
        assert b"Continue with: coterie sweep --resume --out sweep --jobs 2" in out
        assert "stopped" in [run.status["state"] for run in Sweep(tmp_path / "sweep").runs.values()]
    held = os.open(pipe(tmp_path), os.O_RDWR)
    found = sweep(small, tmp_path / "sweep", resume=True)
    os.close(held)
    assert found.summary()["state"] == "done"


def test_jobs_on_the_processor_share_its_threads(threads: None) -> None:
    torch.set_num_threads(5)
    assert [share_of_threads(jobs, {"cpu"}) for jobs in (1, 2, 9)] == [5, 2, 1]
    assert share_of_threads(2, {"cuda"}) == 5
    assert share_of_threads(2, {"cpu", "cuda"}) == 2


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jobs must be at least 1, got 0"):
        sweep(grid(tmp_path), tmp_path / "sweep", jobs=0)
    with pytest.raises(ConfigError, match=r"--jobs 2 .*--ray local .*leave out one of the two"):
        sweep(grid(tmp_path), tmp_path / "sweep", jobs=2, ray="local")
    assert not (tmp_path / "sweep").exists()
