"""All jobs of a sweep to their end: in halves where memory is too small, again where a worker died."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from coterie.core.errors import ConfigError, RunError
from coterie.core.support.signals import stop_on_signal
from coterie.runs import free_name
from coterie.studies.sweep.cluster import Cluster, connected, installed
from coterie.studies.sweep.folder import Job, Sweep, SweepFolder
from coterie.studies.sweep.grid import Grid, read
from coterie.studies.sweep.grid import jobs as jobs_of
from coterie.studies.sweep.processes import check_jobs, share_of_threads, side_by_side
from coterie.studies.sweep.worker import JobEvent, JobSpec, Outcome, machine, run_job

__all__ = ["Runner", "SweepStopped", "View", "sweep"]


class SweepStopped(RunError):  # noqa: N818 - it is what happened, not a mistake
    """The sweep was asked to stop, has saved everything in `path`, and can be continued.

    Remedy: the same command with `--resume`; finished jobs are not run again.
    """

    def __init__(self, path: Path, done: int, total: int) -> None:
        super().__init__(f"stopped with {done} of {total} jobs done; everything is saved in {path}")
        self.path = path


class View:
    """Shows how a sweep is getting on; this one shows nothing."""

    def count(self, done: int, total: int) -> None:
        """Show how many jobs are done, of all there are as of now."""

    def show(self, event: JobEvent) -> None:
        """Show that one job has come further."""

    def ended(self, job: str, state: str) -> None:
        """Show that one job is over, or this attempt at it."""

    def notice(self, text: str) -> None:
        """Show something that the user should know."""


def sweep(
    grid: Grid | str | Path,
    out: str | Path | None = None,
    *,
    ray: str | None = None,
    resume: bool = False,
    data: str | Path | None = None,
    cpus: int | None = None,
    worlds: int | None = None,
    jobs: int = 1,
    retries: int = 3,
    view: View | None = None,
    checkpoint_every: float = 30.0,
) -> Sweep:
    """Run a grid (or a TOML file with one) into a folder, by default `sweeps/<name>`, here or on Ray.

    `ray` is the address of a cluster: auto, HOST:PORT, ray://HOST:PORT, or local for one on this machine.
    `data` is where data sets lie, on every worker alike; by default each worker's own $COTERIE_DATA.
    `cpus` are the cores of each job, wherever it runs, by default as many as torch uses here. `worlds` is the
    most that a job may have; by default as many as share a stack and fit into memory. `jobs` is how many run
    side by side without Ray, each in a process of its own; those on the CPU share its cores. A job whose
    worker dies is begun again up to `retries` times. If jobs fail, the others are run first, then it is a
    RunError.
    """
    check_jobs(jobs, ray)
    if not isinstance(grid, Grid):
        grid = read(grid)
    for what, number, least in (("cpus", cpus, 1), ("worlds", worlds, 1), ("retries", retries, 0)):
        if number is not None and number < least:
            raise ConfigError(f"{what} must be at least {least}, got {number}")
    default = Path("sweeps") / grid.base.name
    path = Path(out) if out is not None else default if resume else free_name(default)
    here, shown = installed(), view or View()
    with ExitStack() as held:
        cluster = Cluster(held.enter_context(connected(ray)), here) if ray is not None else None
        if resume:
            folder = held.enter_context(SweepFolder.resume(path, grid))
            _check_same(folder.facts, cpus, here, shown)
        else:
            cut = jobs_of(grid, worlds)
            devices = {job.setting.get("device", grid.base.device) for job in cut}
            threads = cpus or share_of_threads(jobs, devices)
            if cluster:
                cluster.check_room(devices, threads)
            folder = held.enter_context(SweepFolder.create(path, grid, cut, threads, here))
        stop = held.enter_context(stop_on_signal()).is_set
        held.callback(torch.set_num_threads, torch.get_num_threads())
        where = None if data is None else str(data)
        try:
            Runner(folder, cluster, shown, stop, where, retries, checkpoint_every, jobs).run()
        except KeyboardInterrupt as error:
            error.add_note(f"continue with: coterie sweep --resume --out {shlex.quote(str(path))}")
            raise
    return Sweep(path)


@dataclass
class Runner:
    """Hands out the jobs of a folder, and takes down what comes of them."""

    folder: SweepFolder
    cluster: Cluster | None
    view: View
    stop: Callable[[], bool]
    data: str | None
    retries: int
    checkpoint_every: float
    at_once: int = 1
    """Jobs side by side, each in a process of its own; 1: one after the other, in this process."""
    specs: deque[JobSpec] = field(default_factory=deque)
    """Jobs to be run."""

    def run(self) -> None:
        """Run all jobs that are not done, and write the table of those that are."""
        try:
            self.run_jobs()
        finally:
            if self.done():
                Sweep(self.folder.path).write()
        found = self.folder.jobs
        if failed := [job for job in found if job.state == "failed"]:
            raise RunError(_failures(failed, len(found), self.folder.path))
        self.refuse_unfinished()

    def run_jobs(self) -> None:
        """Run all jobs that are not done, and those that follow from them."""
        self.hand_out([job for job in self.folder.jobs if job.state != "done"])
        self.folder.save()
        with closing(self._outcomes()) as outcomes:
            for outcome in outcomes:
                self.hand_out(self.follow_up(outcome))

    def refuse_unfinished(self) -> None:
        """Raise SweepStopped if a job is left that was not run to its end."""
        if self.done() < len(self.folder.jobs):
            raise SweepStopped(self.folder.path, self.done(), len(self.folder.jobs))

    def hand_out(self, jobs: list[Job]) -> None:
        """Queue jobs to be run."""
        for job in jobs:
            self.folder.change(job, attempts=job.attempts + 1)
            self.specs.append(self.spec(job))
        self.view.count(self.done(), len(self.folder.jobs))

    def spec(self, job: Job) -> JobSpec:
        """Tell a worker all that it needs to run a job."""
        base = self.folder.grid.base
        how = self.data, base.seeds[0], self.folder.facts["cpus"], self.checkpoint_every
        return JobSpec(job.name, job.experiment(base).plain(), *how)

    def _outcomes(self) -> Generator[Outcome, None, None]:
        """Run jobs on the cluster, or here: side by side those that may, then one after the other."""
        if self.cluster:
            yield from self.cluster.outcomes(
                self.specs, self.folder.facts["id"], self._report, self.folder.take, self.stop
            )
            return
        if self.at_once > 1:
            yield from side_by_side(self.at_once, self.specs, self.folder.home, self._report, self.stop)
        while self.specs and not self.stop():
            spec = self.specs.popleft()
            outcome = run_job(spec, self.folder.home(spec.job), machine(), self._report)
            yield outcome
            if outcome.state == "stopped":  # the run was asked, not the sweep
                return

    def _report(self, event: JobEvent) -> None:
        """Pass on a sign of life; refuse a job that has other data than the jobs before."""
        if event.data:
            self.folder.agree(*event.data, event.where)
        elif event.notice:
            self.notice(event)
        else:
            self.view.show(event)

    def notice(self, event: JobEvent) -> None:
        """Pass on what a job says that the user should know."""
        self.view.notice(f"job {event.job} on {event.where}: {event.notice}")

    def follow_up(self, outcome: Outcome) -> list[Job]:
        """Take down what came of a job, and list the jobs that are to be run for it next."""
        job = self.folder.ended(outcome)
        self.view.ended(job.name, outcome.state)
        error = outcome.error
        if outcome.state == "no room":
            if parts := self.folder.split(job):
                names = " and ".join(part.name for part in parts)
                self.view.notice(f"job {job.name} needs too much memory, so in halves, {names}: {error}")
                return parts
            self.folder.ended(outcome._replace(state="failed"))
        elif outcome.state == "died":
            if job.attempts <= self.retries:
                count = f"{job.attempts} of {self.retries}"
                self.view.notice(f"job {job.name} lost its worker, so once more ({count}): {error}")
                return [job]
            error = f"its worker died {job.attempts} times, the last time: {error}"
            self.folder.ended(outcome._replace(state="failed", error=error))
        return []

    def done(self) -> int:
        """Count the jobs that are done."""
        return sum(job.state == "done" for job in self.folder.jobs)


def _check_same(facts: Mapping[str, Any], cpus: int | None, here: Mapping[str, str], view: View) -> None:
    """Refuse other cores than those a sweep was begun with, and tell of other versions."""
    if cpus is not None and cpus != facts["cpus"]:
        raise ConfigError(
            f"this sweep was begun with --cpus {facts['cpus']}, and others would give other bits; "
            "leave out --cpus, or start anew with --out"
        )
    if facts["versions"] != here:
        now, then = (", ".join(f"{k} {v}" for k, v in each.items()) for each in (here, facts["versions"]))
        view.notice(f"this sweep was begun with {then}; what is left is run with {now}")


def _failures(failed: list[Job], total: int, path: Path) -> str:
    first = "; ".join(f"job {job.name}: {job.error.rstrip('.')}" for job in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return (
        f"{len(failed)} of {total} jobs failed: {first}{more}. The others are saved in {path}; "
        "mend what can be mended and continue with --resume"
    )
