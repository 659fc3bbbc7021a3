"""Writing a sweep folder: one process at a time, nothing half-written, on from any point."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from coterie.core.errors import CoterieError, RunError
from coterie.core.toml import dumps
from coterie.storage.files import encode, explained
from coterie.storage.files import replace as put
from coterie.storage.lock import locked
from coterie.sweep.grid import Grid, read
from coterie.sweep.job import Job
from coterie.sweep.reading import FORMAT, Sweep
from coterie.sweep.work import Outcome, disagreement, done

__all__ = ["SweepFolder"]


class SweepFolder:
    """A sweep folder held for writing, with its jobs as they stand."""

    def __init__(self, path: Path, grid: Grid, facts: Mapping[str, Any], jobs: list[Job]) -> None:
        """Use `create` or `resume`."""
        self.path, self.grid = path, grid
        self.facts: dict[str, Any] = dict(facts)
        """id, cpus, versions, data: what manifest.json holds besides the jobs."""
        self._jobs = {job.name: job for job in jobs}

    @property
    def jobs(self) -> list[Job]:
        """Those that count: not the ones that were split."""
        return [job for job in self._jobs.values() if job.state != "split"]

    @classmethod
    @contextmanager
    def create(
        cls, path: Path, grid: Grid, jobs: list[Job], cpus: int, versions: dict[str, str]
    ) -> Iterator[Self]:
        """A new folder; one that has anything in it is refused."""
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(file.name != ".lock" for file in path.iterdir()):
                there = (
                    "continue it with --resume, or choose" if (path / "manifest.json").exists() else "choose"
                )
                raise RunError(f"{path} is in use: it is not empty; {there} another folder with --out")
        with _held(path):
            facts = {"format": FORMAT, "id": uuid.uuid4().hex, "cpus": cpus, "versions": versions, "data": {}}
            folder = cls(path, grid, facts, jobs)
            put(path / "sweep.toml", dumps(grid.plain()).encode())
            folder.save()  # last: it makes it a sweep folder
            yield folder

    @classmethod
    @contextmanager
    def resume(cls, path: Path, grid: Grid) -> Iterator[Self]:
        """The folder of a sweep to be continued, which must be of the same grid."""
        manifest = Sweep(path).manifest
        with _held(path):
            try:
                there = read(path / "sweep.toml")
            except CoterieError as error:
                raise RunError(f"{path / 'sweep.toml'} cannot be used: {error}") from None
            if there.base.fingerprint() != grid.base.fingerprint() or there.keys != grid.keys:
                raise RunError(
                    f"{path} is a sweep of another grid or experiment (see {path / 'sweep.toml'}); "
                    "resume it unchanged, or choose another folder with --out"
                )
            jobs = [Job(**job) for job in manifest.pop("jobs")]
            folder = cls(path, there, manifest, jobs)
            for job in folder.jobs:  # the folders are the truth: the manifest may be one step behind
                finished = done(folder.home(job), job.experiment(there.base))
                state = {"state": "done"} if finished else {"state": "waiting", "attempts": 0, "error": ""}
                folder._jobs[job.name] = replace(job, **state)
            folder.save()
            yield folder

    def home(self, job: Job) -> Path:
        """The run folder of a job."""
        return self.path / "jobs" / job.name

    def begun(self, job: Job) -> Job:
        """One more attempt; in the manifest with the next change."""
        self._jobs[job.name] = job = replace(job, attempts=job.attempts + 1)
        return job

    def ended(self, outcome: Outcome) -> Job:
        """What came of a job, as it is from now on."""
        job = replace(
            self._jobs[outcome.job],
            state=outcome.state if outcome.state in ("done", "failed") else "waiting",
            where=outcome.where,
            seconds=outcome.seconds,
            error=outcome.error,
        )
        return self._put(job)

    def split(self, job: Job) -> tuple[Job, Job] | None:
        """The halves that take the place of a job, if it has any; what it left behind is removed."""
        if (parts := job.halves()) is not None:
            self._jobs |= {part.name: part for part in parts}
            self._put(replace(job, state="split"))
            shutil.rmtree(self.home(job), ignore_errors=True)
        return parts

    def agree(self, key: str, fingerprint: str, where: str) -> str | None:
        """Take down the first fingerprint of some data; why another one cannot be used."""
        first = self.facts["data"].setdefault(key, {"fingerprint": fingerprint, "where": where})
        return disagreement(first, fingerprint, where)

    def take(self, outcome: Outcome, files: Mapping[str, bytes]) -> None:
        """Put a run folder that was written elsewhere in its place, whole; one of other data is refused."""
        if reason := self.agree(*outcome.data, outcome.where):
            raise RunError(reason)
        home = self.path / "jobs" / outcome.job
        draft = home.with_name(f".{home.name}.draft")
        with explained(home):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            for name, data in files.items():
                put(draft / Path(name).name, data)
            shutil.rmtree(home, ignore_errors=True)
            os.replace(draft, home)

    def save(self) -> None:
        manifest = {**self.facts, "jobs": [job.plain() for job in self._jobs.values()]}
        put(self.path / "manifest.json", encode(manifest, indent=1))

    def _put(self, job: Job) -> Job:
        self._jobs[job.name] = job
        self.save()
        return job


@contextmanager
def _held(path: Path) -> Iterator[None]:
    with locked(path) as lock:
        pass
    try:
        yield
    finally:
        os.close(lock)
