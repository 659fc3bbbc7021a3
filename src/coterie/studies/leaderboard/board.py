"""All jobs of a board to their end, here or on Ray, in pieces that resume.

A job that fails is looked at on this machine: methods or candidates that cannot be prepared are taken out and
the others run without them; if all can be, the job is cut into halves, until whoever is to blame is alone.
"""

from __future__ import annotations

import math
import shlex
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from coterie.core.errors import ConfigError, RunError
from coterie.core.support.signals import stop_on_signal
from coterie.experiment import Experiment
from coterie.storage.files import as_run_error, open_folder
from coterie.studies.leaderboard import report
from coterie.studies.leaderboard.columns import Column, columns, methods, size
from coterie.studies.leaderboard.examination import examined, unsound
from coterie.studies.leaderboard.pieces import (
    FIGURES,
    TIMING,
    TUNING,
    BoardRequest,
    covered,
    due,
    figure_seeds,
    of_step,
)
from coterie.studies.leaderboard.report import Board
from coterie.studies.leaderboard.results import Known
from coterie.studies.sweep.cluster import Cluster, connected, installed
from coterie.studies.sweep.folder import Job, SweepFolder, held
from coterie.studies.sweep.grid import Grid
from coterie.studies.sweep.processes import check_jobs, share_of_threads
from coterie.studies.sweep.runner import Runner, SweepStopped, View
from coterie.studies.sweep.worker import JobEvent, JobSpec, Outcome, machine

__all__ = ["leaderboard"]

FORMAT = 1
"""The version of the folder; a reader refuses any other."""
_AGAIN: dict[str, Any] = {"state": "waiting", "attempts": 0, "error": ""}
"""Fields of a job that is to be begun again."""
CHECKPOINT_EVERY = 120.0
"""Seconds between two checkpoints: the models of a whole column are large."""


def leaderboard(
    names: Sequence[str] = (),
    out: str | Path = "leaderboard",
    *,
    entrants: Sequence[str] = (),
    seeds: int | None = None,
    device: str | None = None,
    quick: bool = False,
    resume: bool = False,
    ray: str | None = None,
    jobs: int = 1,
    data: str | Path | None = None,
    own_columns: Path | None = None,
    view: View | None = None,
) -> Board:
    """Run the columns called `names` with the methods `entrants` into a folder; by default all of both.

    With `resume` what is there already stays, and only what is missing is run: the rest of a board that was
    stopped, or further columns and methods. `data` is where data sets lie, by default $COTERIE_DATA. As many
    as `jobs` run side by side without Ray, each in a process of its own; those that time a method run alone,
    at the end.
    """
    check_jobs(jobs, ray)
    path, here = Path(out), installed()
    before = _read(path)[0]["asked"] if resume else None
    asked = _asked(before, names, entrants, seeds, device, quick, own_columns)
    with ExitStack() as stack:
        cluster = Cluster(stack.enter_context(connected(ray)), here) if ray is not None else None
        stack.enter_context(_lock(path, resume))
        facts, found = _read(path) if resume else ({}, [])
        request = _request(asked)
        if facts.get("versions") != here:
            facts["broken"] = {}  # what could not run then may run now
        threads = share_of_threads(jobs, [request.device])
        fresh = {"format": FORMAT, "id": uuid.uuid4().hex, "cpus": threads, "data": {}}
        facts = {**fresh, **facts, "versions": here, "asked": asked, "missing": {}}
        if cluster:
            cluster.check_room({request.device}, facts["cpus"])
        base = Experiment(name="leaderboard", seeds=figure_seeds(request.seeds), device=request.device)
        folder = SweepFolder(path, Grid(base, {}), facts, found)
        stop = stack.enter_context(stop_on_signal()).is_set
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        where = None if data is None else str(data)
        try:
            how = folder, cluster, view or View(), stop, where, 3, CHECKPOINT_EVERY, jobs
            return _Board(*how, request=request).play()
        except KeyboardInterrupt as error:
            error.add_note(f"continue with: coterie leaderboard --resume --out {shlex.quote(str(path))}")
            raise


def _lock(path: Path, resume: bool) -> AbstractContextManager[None]:
    """Hold the folder of a new board, or of one that is there."""
    with as_run_error(path):
        path.mkdir(parents=True, exist_ok=True)
        if not resume and any(file.name != ".lock" for file in path.iterdir()):
            raise RunError(
                f"{path} is in use: it is not empty; continue it with --resume, or choose another with --out"
            )
    return held(path)


def _read(path: Path) -> tuple[dict[str, Any], list[Job]]:
    """Read the facts and jobs of a board; those that are not done begin again."""
    if not (path / "manifest.json").is_file():
        raise RunError(
            f"there is no leaderboard to resume in {path}; start without --resume, or name another with --out"
        )
    facts = open_folder(path, "leaderboard", "manifest.json", "manifest.json", FORMAT)
    jobs = [Job(**job) for job in facts.pop("jobs")]
    return facts, [
        job if job.state in ("done", "split") else replace(job, state="waiting", attempts=0, error="")
        for job in jobs
    ]


def _asked(
    before: Mapping[str, Any] | None,
    names: Sequence[str],
    entrants: Sequence[str],
    seeds: int | None,
    device: str | None,
    quick: bool,
    own: Path | None,
) -> dict[str, Any]:
    """Write down what is asked for, on top of what was asked for before; sizes stay as they were."""
    if before is None:
        sizes = size(quick)
        return {
            "columns": [column.name for column in columns(names, own, sizes)],
            "own_columns": None if own is None else str(own.absolute()),
            "methods": methods(entrants),
            "quick": quick,
            "seeds": seeds or sizes.seeds,
            "device": device or "cpu",
        }
    for option, given in (("seeds", seeds), ("device", device)):
        if given is not None and given != before[option]:
            raise ConfigError(
                f"this leaderboard was begun with --{option} {before[option]}; leave out --{option}, or "
                "start another with --out"
            )
    file = own or (Path(before["own_columns"]) if before["own_columns"] else None)
    more = [column.name for column in columns(names, file, size(before["quick"]))] if names or own else []
    return {
        **before,
        "columns": list(dict.fromkeys([*before["columns"], *more])),
        "own_columns": None if file is None else str(file.absolute()),
        "methods": before["methods"] | (methods(entrants) if entrants else {}),
    }


def _request(asked: Mapping[str, Any]) -> BoardRequest:
    sizes, own = size(asked["quick"]), asked["own_columns"]
    found = columns(asked["columns"], Path(own) if own else None, sizes)
    return BoardRequest(
        tuple(found), asked["methods"], sizes.candidates, sizes.tuning_seeds, asked["seeds"], asked["device"]
    )


@dataclass(kw_only=True)
class _Board(Runner):
    """Hands out the jobs of a board; what is due next follows from what is done."""

    request: BoardRequest
    known: Known = field(default_factory=dict)
    """Figures that were read before."""

    def play(self) -> Board:
        """Run everything that is left, write the files, and give back the board."""
        self._examine()
        for column in () if self.stop() else self.request.columns:
            self._plan(column)
        try:
            self.run_jobs()
        finally:
            found = report.write(self.folder, self.request, self.known)
        self.refuse_unfinished()
        if found.values["state"] != "done":
            raise SweepStopped(self.folder.path, self.done(), len(self.folder.jobs))
        return found

    def spec(self, job: Job) -> JobSpec:
        """Keep who listened to whom only where it is shown; time methods while nothing else runs."""
        step = job.setting["name"].rpartition("-")[2]
        return super().spec(job)._replace(exchanges=step == FIGURES, alone=step == TIMING)

    def notice(self, event: JobEvent) -> None:
        """Pass on what is said of the chosen settings: of candidates, tuning counts who diverges."""
        if FIGURES in event.job:
            super().notice(event)

    def hand_out(self, jobs: list[Job]) -> None:
        """Queue jobs, the longest first; those that follow from others come before, so that columns end."""
        before = len(self.specs)
        super().hand_out(sorted(jobs, key=self._shares_of_a_job))
        if before and not any(job.setting["name"].endswith(TIMING) for job in jobs):
            self.specs.rotate(len(jobs))

    def _shares_of_a_job(self, job: Job) -> float:
        """Count the methods that a job of this column may have: few where they take long."""
        return self._column(job).methods_per_job or math.inf

    def _column(self, job: Job) -> Column:
        return next(c for c in self.request.columns if job.setting["name"].rpartition("-")[0] == c.name)

    def follow_up(self, outcome: Outcome) -> list[Job]:
        """Take down what came of a job; its column's next job follows, or the same with those who can run."""
        parts = super().follow_up(outcome)
        job = next((job for job in self.folder.jobs if job.name == outcome.job), None)
        if job is None or job.state not in ("done", "failed"):
            return parts
        column = self._column(job)
        if job.state == "failed":
            return self._mended(job, column) or self._plan(column)
        for file in self.folder.home(job.name).glob("checkpoint-*"):
            file.unlink()
        if job.setting["name"].endswith(FIGURES):
            report.write(self.folder, self.request, self.known)
        return self._plan(column)

    def _plan(self, column: Column) -> list[Job]:
        """Add the jobs that are due in a column."""
        missing, home = self.folder.facts["missing"], self.folder.path / "jobs"
        if column.name in missing:
            return []
        timed = column == next(c for c in self.request.columns if c.name not in missing)
        found = due(self.request, column, self.folder.jobs, self._broken(column), home, timed)
        return [self.folder.add(job) for job in found]

    def _broken(self, column: Column) -> dict[str, str]:
        """Look up who cannot run in a column, and why."""
        found: dict[str, str] = self.folder.facts["broken"].setdefault(column.name, {})
        return found

    def _examine(self) -> None:
        """Find out who cannot run in which column before anything is begun, or that nobody can."""
        labels = [(column, new) for column in self.request.columns if (new := self._untried(column))]
        found = examined(self.request, labels, self.data, self.at_once)
        for column, _ in labels:
            self.view.show(JobEvent(column.name, machine(), stage="trying the methods"))
            if self.stop():
                break
            missing, reasons = next(found)
            if missing:
                self.folder.facts["missing"][column.name] = missing
                self.view.notice(f"column {column.name} is left out: {missing}")
            self._leave_out(column, reasons)
            self.view.ended(column.name, "left out" if missing else "tried")

    def _untried(self, column: Column) -> list[str]:
        """List the methods that have not been tried in a column."""
        there = covered(of_step(self.folder.jobs, column.name, TUNING))
        return [label for label in self.request.methods if label not in (*there, *self._broken(column))]

    def _leave_out(self, column: Column, reasons: Mapping[str, str]) -> None:
        for key, reason in reasons.items():
            self.view.notice(f"{key} cannot run in column {column.name}: {reason}")
        self._broken(column).update(reasons)

    def _mended(self, job: Job, column: Column) -> list[Job]:
        """Replace a job that failed by one without those who cannot run, or by its halves."""
        methods, base = job.setting["methods"], self.folder.grid.base
        keys = list(methods)

        def part(some: Sequence[str]) -> Job:
            return replace(job, setting={**job.setting, "methods": {key: methods[key] for key in some}})

        reasons = unsound(keys, lambda some: part(list(some)).experiment(base), self.data)
        if not reasons and len(keys) == 1:
            reasons = {keys[0]: job.error}
        self._leave_out(column, reasons)
        sound, half = [key for key in keys if key not in reasons], len(keys) // 2
        parts = [sound] if reasons else [keys[:half], keys[half:]]
        self.folder.put_in_place(job, [])
        again = {"name": job.setting["name"], **_AGAIN}
        return [self.folder.add(replace(part(some), **again)) for some in parts if some]
