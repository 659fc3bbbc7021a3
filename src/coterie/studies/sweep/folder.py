"""The sweep folder: its jobs, one table across the grid, and a writer that can go on from any point."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from coterie.core.errors import CoterieError, RunError
from coterie.core.support.toml import dumps
from coterie.experiment.labels import world_label
from coterie.runs import Run
from coterie.runs.metrics import WeightUpdate, WorldMetrics
from coterie.runs.results import markdown
from coterie.runs.summary import row
from coterie.storage.files import as_run_error, open_folder, read_toml, to_json_bytes
from coterie.storage.files import replace_file as put
from coterie.storage.lock import locked

if TYPE_CHECKING:  # with them comes torch, which a reader of sweep folders does not need
    from pandas import DataFrame

    from coterie.experiment import Experiment
    from coterie.studies.sweep.grid import Grid
    from coterie.studies.sweep.worker import Outcome

__all__ = ["FORMAT", "Job", "Sweep", "SweepFolder", "held"]

FORMAT = 1
"""The version of the sweep folder; a reader refuses any other."""


@dataclass(frozen=True)
class Job:
    """A part of a sweep that is one batched run, and what has become of it."""

    name: str
    """The name of its folder."""
    setting: dict[str, Any]
    """The values of keys in which the worlds of one experiment cannot differ, such as device."""
    grid: dict[str, list[Any]]
    """The values of all other keys: the grid of its own experiment."""
    seeds: list[int]
    state: str = "waiting"
    """waiting, done, failed, or split: it did not fit into memory, its halves have taken its place."""
    attempts: int = 0
    """The number of times the job was begun, by this sweep as it runs now."""
    where: str = ""
    """The machine, and the folder there if that is not the sweep's own."""
    seconds: float = 0.0
    error: str = ""

    def experiment(self, base: Experiment) -> Experiment:
        """Complete the experiment to run."""
        return base.replace(**{**self.setting, "seeds": self.seeds, "grid": self.grid})

    def worlds(self, methods: int) -> int:
        """Count the worlds of the job."""
        return math.prod([methods, len(self.seeds), *map(len, self.grid.values())])

    def halves(self) -> list[Job]:
        """Cut into two jobs, by seeds or else by the key with the most values; one world cannot be cut."""
        longest = max(self.grid, key=lambda key: len(self.grid[key]), default="")
        if len(self.seeds) > 1:
            parts: list[dict[str, Any]] = [{"seeds": half} for half in _halved(self.seeds)]
        else:
            parts = [{"grid": {**self.grid, longest: half}} for half in _halved(self.grid.get(longest, []))]
        fresh = Job(self.name, self.setting, self.grid, self.seeds)
        return [replace(fresh, name=self.name + "ab"[i], **part) for i, part in enumerate(parts)]


def _halved(values: list[Any]) -> list[list[Any]]:
    half = (len(values) + 1) // 2
    return [values[:half], values[half:]] if len(values) > 1 else []


class Sweep:
    """A sweep as it is on disk, finished, cut short or going on.

    >>> Sweep("sweeps/sizes").table()  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _ = self.manifest  # it must be there

    @staticmethod
    def there(path: Path) -> bool:
        """Tell whether a folder is a sweep's."""
        return (path / "manifest.json").is_file()

    @property
    def manifest(self) -> dict[str, Any]:
        """Versions, cores, data and jobs, at this moment."""
        return open_folder(self.path, "sweep", "manifest.json", "manifest.json", FORMAT)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that count: not those that were split."""
        found = (Job(**job) for job in self.manifest["jobs"])
        return sorted((job for job in found if job.state != "split"), key=lambda job: job.name)

    @cached_property
    def runs(self) -> dict[str, Run]:
        """The run of each job that has one here."""
        folders = {job.name: self.path / "jobs" / job.name for job in self.jobs}
        return {name: Run(folder) for name, folder in folders.items() if (folder / "worlds.json").exists()}

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment with its grid, as plain data."""
        return read_toml(self.path / "sweep.toml")

    def summary(self) -> dict[str, Any]:
        """Compute the numbers of the result table, in the form of `Run.summary`."""
        if not self.runs:
            raise RunError(f"{self.path} has no results yet: no job has begun")
        jobs, states = self.jobs, {job.state for job in self.jobs}
        return {
            **next(iter(self.runs.values())).summarized(*self._merged()),
            "name": self.config["name"],
            "state": "done" if states == {"done"} else "failed" if "failed" in states else "unfinished",
            "t": sum(run.status["t"] for run in self.runs.values()),
            "iterations": sum(map(self._iterations, jobs)),
            "jobs": {"done": sum(job.state == "done" for job in jobs), "all": len(jobs)},
        }

    def table(self, summary: dict[str, Any] | None = None) -> DataFrame:
        """Make one row for each method and setting: the keys of the grid, then the columns of `Run.table`."""
        import pandas as pd

        found = self.summary() if summary is None else summary
        own = found["settings"]
        return pd.DataFrame(
            {"method": own[name]["method"], **own[name]["setting"], **row(method)}
            for name, method in found["methods"].items()
        )

    def write(self) -> None:
        """Write table.csv, table.json and table.md."""
        summary = self.summary()
        put(self.path / "table.csv", self.table(summary).to_csv(index=False).encode())
        put(self.path / "table.json", to_json_bytes(summary, indent=2))
        put(self.path / "table.md", markdown(summary).encode())

    def _merged(self) -> tuple[list[WorldMetrics], dict[int, list[WeightUpdate]]]:
        """Number the worlds of all jobs through, and name them by their whole setting."""
        tracks: list[WorldMetrics] = []
        weighed: dict[int, list[WeightUpdate]] = {}
        whole = {job.name: job.setting for job in self.jobs}
        grid, offset = self.config["grid"], 0
        for job, run in self.runs.items():
            for track in run.tracks:
                both = {**whole[job], **track.setting}
                tags = [
                    world_label(track.setting, grid),
                    *(f"{path}={value}" for path, value in whole[job].items()),
                ]
                name = f"{track.label} [{', '.join(filter(None, tags))}]"
                setting = {key: both[key] for key in grid}
                tracks.append(replace(track, world=offset + track.world, name=name, setting=setting))
            weighed |= {offset + world: rows for world, rows in run.weighed.items()}
            offset += len(run.worlds)
        return tracks, weighed

    def _iterations(self, job: Job) -> int:
        """Count the iterations of a job, as its run says or as the experiment does."""
        if job.name in self.runs:
            return int(self.runs[job.name].status["iterations"])
        (count,) = job.grid.get("train.iterations", [self.config["train"]["iterations"]])
        return int(count)


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
        """The jobs that count: not those that were split."""
        return [job for job in self._jobs.values() if job.state != "split"]

    @classmethod
    @contextmanager
    def create(
        cls, path: Path, grid: Grid, jobs: list[Job], cpus: int, versions: dict[str, str]
    ) -> Iterator[Self]:
        """Begin a new folder; refuse one that has anything in it."""
        with as_run_error(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(file.name != ".lock" for file in path.iterdir()):
                there = "continue it with --resume, or choose" if Sweep.there(path) else "choose"
                raise RunError(f"{path} is in use: it is not empty; {there} another folder with --out")
        with held(path):
            facts = {"format": FORMAT, "id": uuid.uuid4().hex, "cpus": cpus, "versions": versions, "data": {}}
            folder = cls(path, grid, facts, jobs)
            put(path / "sweep.toml", dumps(grid.plain()).encode())
            folder.save()  # last: it makes it a sweep folder
            yield folder

    @classmethod
    @contextmanager
    def resume(cls, path: Path, grid: Grid) -> Iterator[Self]:
        """Take up the folder of a sweep to be continued, which must be of the same grid."""
        from coterie.studies.sweep.grid import read

        manifest = Sweep(path).manifest
        with held(path):
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
                done = Run.finished(folder.home(job.name), job.experiment(there.base))
                fresh = {"state": "waiting", "attempts": 0, "error": ""}
                folder.change(job, **({"state": "done"} if done else fresh))
            folder.save()
            yield folder

    def home(self, job: str) -> Path:
        """Name the run folder of a job."""
        return self.path / "jobs" / job

    def change(self, job: Job, **changes: Any) -> Job:
        """Replace a job by a changed copy; `save` puts it into the manifest."""
        job = replace(job, **changes)
        self._jobs[job.name] = job
        return job

    def ended(self, outcome: Outcome) -> Job:
        """Save what came of a job, which waits unless it is done or has failed."""
        state = outcome.state if outcome.state in ("done", "failed") else "waiting"
        facts = {"where": outcome.where, "seconds": outcome.seconds, "error": outcome.error}
        job = self.change(self._jobs[outcome.job], state=state, **facts)
        self.save()
        return job

    def split(self, job: Job) -> list[Job]:
        """Put the halves of a job in its place, if it has any, and remove what it left behind."""
        if parts := job.halves():
            self.put_in_place(job, parts)
        return parts

    def put_in_place(self, job: Job, parts: Iterable[Job]) -> None:
        """Put other jobs in the place of one, and remove what it left behind."""
        self._jobs |= {part.name: part for part in parts}
        self.change(job, state="split")
        self.save()
        shutil.rmtree(self.home(job.name), ignore_errors=True)

    def add(self, job: Job) -> Job:
        """Add a job; its name is numbered if another job had it before."""
        names = itertools.chain([job.name], (f"{job.name}-{n}" for n in itertools.count(2)))
        return self.change(job, name=next(name for name in names if name not in self._jobs))

    def agree(self, key: str, fingerprint: str, where: str) -> None:
        """Take down the first fingerprint of some data; refuse any other."""
        first = self.facts["data"].setdefault(key, {"fingerprint": fingerprint, "where": where})
        if first["fingerprint"] != fingerprint:
            raise RunError(
                f"{where} has other data than {first['where']}: the samples of the same clients hash to "
                f"{fingerprint} and {first['fingerprint']}; put the same files into the data folder of every "
                "machine"
            )

    def take(self, outcome: Outcome, files: Mapping[str, bytes]) -> None:
        """Put a run folder that was written elsewhere in its place, whole; refuse one of other data."""
        self.agree(*outcome.data, outcome.where)
        home = self.home(outcome.job)
        draft = home.with_name(f".{home.name}.draft")
        with as_run_error(home):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            for name, data in files.items():
                put(draft / Path(name).name, data)
            shutil.rmtree(home, ignore_errors=True)
            os.replace(draft, home)

    def save(self) -> None:
        """Write manifest.json."""
        manifest = {**self.facts, "jobs": [asdict(job) for job in self._jobs.values()]}
        put(self.path / "manifest.json", to_json_bytes(manifest, indent=1))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a folder."""
    with locked(path) as lock:
        pass
    try:
        yield
    finally:
        os.close(lock)
