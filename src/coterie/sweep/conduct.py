"""All jobs of a sweep to their end: in halves where memory is too small, again where a worker died."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import torch

from coterie.core.errors import ConfigError, RunError
from coterie.core.signals import stop_on_signal
from coterie.runs import free_name
from coterie.sweep.cluster import Cluster, connected
from coterie.sweep.folder import SweepFolder
from coterie.sweep.grid import Grid, jobs, read
from coterie.sweep.job import Job
from coterie.sweep.reading import Sweep
from coterie.sweep.versions import mismatch, prober
from coterie.sweep.view import Silent, View
from coterie.sweep.work import Order, Outcome, carry_out, machine

__all__ = ["SweepStopped", "sweep"]


class SweepStopped(RunError):  # noqa: N818 - it is what happened, not a mistake
    """The sweep was asked to stop, has saved everything in `path`, and can be continued."""

    def __init__(self, path: Path, done: int, total: int) -> None:
        super().__init__(f"stopped with {done} of {total} jobs done; everything is saved in {path}")
        self.path = path


def sweep(
    grid: Grid | str | Path,
    out: str | Path | None = None,
    *,
    ray: str | None = None,
    resume: bool = False,
    data: str | Path | None = None,
    cpus: int | None = None,
    worlds: int | None = None,
    retries: int = 3,
    view: View | None = None,
    checkpoint_every: float = 30.0,
) -> Sweep:
    """Run a grid (or a TOML file with one) into a folder, by default `sweeps/<name>`, here or on Ray.

    `ray` is the address of a cluster: auto, HOST:PORT, ray://HOST:PORT, or local for one on this machine.
    `data` is where data sets lie, on every worker alike; by default each worker's own $COTERIE_DATA.
    `cpus` are the cores of each job, wherever it runs, by default as many as torch uses here. `worlds` is the
    most that a job may have; by default as many as share a stack and fit into memory. A job whose worker dies
    is begun again up to `retries` times. If jobs fail, the others are run first, then it is a RunError.
    """
    if not isinstance(grid, Grid):
        grid = read(grid)
    for what, number, least in (("cpus", cpus, 1), ("worlds", worlds, 1), ("retries", retries, 0)):
        if number is not None and number < least:
            raise ConfigError(f"{what} must be at least {least}, got {number}")
    default = Path("sweeps") / grid.base.name
    path = Path(out) if out is not None else default if resume else free_name(default)
    here, shown = prober()(), view or Silent()
    with ExitStack() as held:
        cluster = Cluster(held.enter_context(connected(ray))) if ray is not None else None
        if resume:
            folder = held.enter_context(SweepFolder.resume(path, grid))
            _same(folder.facts, cpus, here, shown)
        else:
            threads, cut = cpus or torch.get_num_threads(), jobs(grid, worlds)
            if cluster:
                cluster.refuse({job.setting.get("device", grid.base.device) for job in cut}, threads)
            folder = held.enter_context(SweepFolder.create(path, grid, cut, threads, here))
        asked = held.enter_context(stop_on_signal())
        held.enter_context(_threads_kept())
        try:
            _Conductor(folder, cluster, data, retries, checkpoint_every, shown, asked.is_set).conduct()
        except KeyboardInterrupt as error:
            error.add_note(f"continue with: coterie sweep --resume --out {shlex.quote(str(path))}")
            raise
    return Sweep(path)


class _Conductor:
    """Hands out the jobs of a folder, and takes down what comes of them."""

    def __init__(
        self,
        folder: SweepFolder,
        cluster: Cluster | None,
        data: str | Path | None,
        retries: int,
        checkpoint_every: float,
        view: View,
        stop: Callable[[], bool],
    ) -> None:
        self.folder, self.cluster, self.view, self.stop = folder, cluster, view, stop
        self.data, self.retries, self.checkpoint_every = data, retries, checkpoint_every
        self.orders: deque[Order] = deque()

    def conduct(self) -> None:
        self._count()
        for job in self.folder.jobs:
            if job.state != "done":
                self._order(job)
        self.folder.save()
        outcomes = self._on(self.cluster) if self.cluster else self._one_by_one()
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    self._ended(outcome)
        finally:
            if any(job.state == "done" for job in self.folder.jobs):
                Sweep(self.folder.path).write()
        found = self.folder.jobs
        if failed := [job for job in found if job.state == "failed"]:
            raise RunError(_failures(failed, len(found), self.folder.path))
        if any(job.state != "done" for job in found):
            raise SweepStopped(self.folder.path, sum(job.state == "done" for job in found), len(found))

    def _order(self, job: Job) -> None:
        folder = self.folder
        job = folder.begun(job)
        self.orders.append(
            Order(
                job.name,
                job.experiment(folder.grid.base).plain(),
                None if self.data is None else str(self.data),
                folder.grid.base.seeds[0],
                folder.facts["cpus"],
                self.checkpoint_every,
            )
        )

    def _one_by_one(self) -> Generator[Outcome, None, None]:
        """Here, in this process: every job has the whole machine."""
        where = machine()
        while self.orders and not self.stop():
            order = self.orders.popleft()
            home = self.folder.home(self._job(order.job))
            outcome = carry_out(
                order, home, where, self.view.show, lambda key, print_: self.folder.agree(key, print_, where)
            )
            yield outcome
            if outcome.state == "stopped":
                return

    def _on(self, cluster: Cluster) -> Generator[Outcome, None, None]:
        facts = self.folder.facts
        return cluster.outcomes(
            self.orders, facts["id"], facts["data"], self.view.show, self.folder.take, self.stop
        )

    def _ended(self, outcome: Outcome) -> None:
        if outcome.state == "refused":
            raise RunError(outcome.error)
        job = self.folder.ended(outcome)
        self.view.ended(job.name, outcome.state)
        match outcome.state:
            case "no room":
                self._halve(job, outcome)
            case "died":
                self._again(job, outcome)
        self._count()

    def _halve(self, job: Job, outcome: Outcome) -> None:
        if parts := self.folder.split(job):
            names = " and ".join(part.name for part in parts)
            self.view.notice(f"job {job.name} needs too much memory, so in halves, {names}: {outcome.error}")
            for part in parts:
                self._order(part)
        else:
            self.folder.ended(outcome._replace(state="failed"))

    def _again(self, job: Job, outcome: Outcome) -> None:
        if job.attempts <= self.retries:
            self.view.notice(
                f"job {job.name} lost its worker, so once more "
                f"({job.attempts} of {self.retries}): {outcome.error}"
            )
            self._order(job)
        else:
            error = f"its worker died {job.attempts} times, the last time: {outcome.error}"
            self.folder.ended(outcome._replace(state="failed", error=error))

    def _job(self, name: str) -> Job:
        return next(job for job in self.folder.jobs if job.name == name)

    def _count(self) -> None:
        found = self.folder.jobs
        self.view.count(sum(job.state == "done" for job in found), len(found))


def _same(facts: Mapping[str, Any], cpus: int | None, here: Mapping[str, str], view: View) -> None:
    """Whether results from now on go with those that are there."""
    if cpus is not None and cpus != facts["cpus"]:
        raise ConfigError(
            f"this sweep was begun with --cpus {facts['cpus']}, and others would give other bits; "
            "leave out --cpus, or start anew with --out"
        )
    if mismatch(facts["versions"], here, ""):
        now, then = (", ".join(f"{k} {v}" for k, v in each.items()) for each in (here, facts["versions"]))
        view.notice(f"this sweep was begun with {then}; what is left is run with {now}")


@contextmanager
def _threads_kept() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _failures(failed: list[Job], total: int, path: Path) -> str:
    first = "; ".join(f"job {job.name}: {job.error.rstrip('.')}" for job in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return (
        f"{len(failed)} of {total} jobs failed: {first}{more}. The others are saved in {path}; "
        "mend what can be mended and continue with --resume"
    )
