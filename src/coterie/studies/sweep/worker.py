"""One job, wherever it runs: into a run folder, on from where an earlier attempt stopped."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch

from coterie.api import Stopped, run
from coterie.core.errors import CoterieError, NoRoomError, out_of_memory
from coterie.core.own.home import data_folder
from coterie.engine.memory_budget import check_clients_fit
from coterie.engine.plan import Plan
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.runs import Run

__all__ = ["EventReporter", "JobEvent", "JobSpec", "Outcome", "Report", "first_line", "machine", "run_job"]

PAUSE = 0.2
"""Seconds between two events that only say how far a job is."""


class JobSpec(NamedTuple):
    """Everything that a worker needs to run a job, as plain data."""

    job: str
    experiment: dict[str, Any]
    data: str | None
    """The folder of data sets on the worker; None: the worker's own $COTERIE_DATA."""
    seed: int
    """The seed by whose clients workers compare their data; the same for all jobs."""
    threads: int
    checkpoint_every: float
    """Seconds between two checkpoints."""
    exchanges: bool = True
    """True if who listened to whom is kept."""
    alone: bool = False
    """True if no other job may run beside it on this machine: its seconds count."""


class Outcome(NamedTuple):
    """The result of an attempt at a job."""

    job: str
    state: str
    """done, failed, no room, stopped, or died (its worker)."""
    where: str
    error: str = ""
    seconds: float = 0.0
    data: tuple[str, str] = ("", "")
    """Name and fingerprint of the job's data."""


class JobEvent(NamedTuple):
    """A sign of life of one job."""

    job: str
    where: str
    stage: str = ""
    notice: str = ""
    data: tuple[str, str] | None = None
    """Name and fingerprint of the data the job begins with; others than another job's cannot be used."""
    done: int = 0
    """Iterations, of `total`."""
    total: int = 0
    client_steps: int = 0
    """Client-steps since the event before."""


Report: TypeAlias = Callable[[JobEvent], None]


class EventReporter:
    """A run's progress as events, not too many of them."""

    def __init__(self, report: Report, job: str, where: str) -> None:
        self.report, self.job, self.where = report, job, where
        self.last, self.steps = 0.0, 0

    def stage(self, text: str) -> None:
        self.report(JobEvent(self.job, self.where, stage=text))

    def notice(self, text: str) -> None:
        self.report(JobEvent(self.job, self.where, notice=text))

    def advance(self, done: int, total: int, client_steps: int) -> None:
        self.steps += client_steps
        if done == total or time.monotonic() - self.last > PAUSE:
            steps = self.steps
            self.last, self.steps = time.monotonic(), 0
            self.report(
                JobEvent(self.job, self.where, "learning", done=done, total=total, client_steps=steps)
            )

    def evaluated(self, personal: Mapping[str, float]) -> None:
        pass  # the scores of many jobs side by side would say nothing


def run_job(spec: JobSpec, folder: Path, where: str, report: Report) -> Outcome:
    """Run a job into a folder that is the sweep's own; mistakes are outcomes, too."""
    began = time.monotonic()
    data = ("", "")

    def outcome(state: str, error: object = "") -> Outcome:
        return Outcome(spec.job, state, where, str(error), round(time.monotonic() - began, 3), data)

    torch.set_num_threads(spec.threads)  # the order in which a sum is taken depends on it
    progress = EventReporter(report, spec.job, where)
    try:
        experiment = Experiment.parse(spec.experiment)
        progress.stage("dealing the data")
        data = _fingerprint(experiment, spec)
    except (CoterieError, MemoryError, RuntimeError) as error:
        return outcome(*_failure(error))
    report(JobEvent(spec.job, where, data=data))  # outside: who cannot use these data refuses them here
    try:
        if not Run.finished(folder, experiment):
            resume = (folder / "experiment.toml").exists()
            if not resume and folder.exists():
                shutil.rmtree(folder)  # killed before the run had begun
            run(
                experiment, folder, resume=resume, data=spec.data, plots=False, progress=progress,
                checkpoint_every=spec.checkpoint_every, exchanges=spec.exchanges, models=False,
            )  # fmt: skip
    except Stopped as stopped:
        return outcome("stopped", stopped)
    except (CoterieError, MemoryError, RuntimeError) as error:
        return outcome(*_failure(error))
    return outcome("done")


def _failure(error: Exception) -> tuple[str, object]:
    """Name the state of a job that ended with this error; raise one that nobody expected."""
    if isinstance(error, NoRoomError) or out_of_memory(error):
        return "no room", first_line(error, "out of memory")
    if isinstance(error, CoterieError):
        return "failed", error
    raise error


def _fingerprint(experiment: Experiment, spec: JobSpec) -> tuple[str, str]:
    """Name the data that a job begins with, and hash the samples as its clients have and name them."""
    world = experiment.worlds()[0]
    check_clients_fit([world])
    federation = Dealer(data_folder(spec.data)).federation(world.experiment, spec.seed)
    key = f"{world.experiment.data.model_dump_json()} {world.experiment.evaluate.uniform}"
    return key, Plan(experiment, [world], [federation], []).data_hash()


def machine() -> str:
    """Name this machine."""
    return platform.node() or "this machine"


def first_line(error: BaseException, default: str = "") -> str:
    """Shorten what an error says to one line, or to `default` if it says nothing."""
    return str(error).strip().partition("\n")[0] or default or type(error).__name__
