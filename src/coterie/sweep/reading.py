"""What came of a sweep: the runs of all its jobs as one table across the grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.core.errors import RunError
from coterie.core.labels import world_label
from coterie.runs import Run
from coterie.runs.text import markdown
from coterie.runs.tracks import Track, Weighed
from coterie.storage.files import encode, read_json, replace
from coterie.sweep.job import Job

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["FORMAT", "Sweep"]

FORMAT = 1
"""The version of the sweep folder; a reader refuses any other."""


class Sweep:
    """A sweep as it is on disk, finished, cut short or going on.

    >>> Sweep("sweeps/sizes").table()  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.there(self.path):
            lacks = "it has no manifest.json" if self.path.exists() else "there is no such folder"
            raise RunError(f"{self.path} is not a sweep folder: {lacks}")
        found = self.manifest.get("format") if isinstance(self.manifest, dict) else None
        if found != FORMAT:
            raise RunError(
                f"{self.path} is a sweep folder of format {found!r}, but this version of coterie reads "
                f"format {FORMAT}; use the version of coterie that wrote it"
            )

    @staticmethod
    def there(path: Path) -> bool:
        """Whether a folder is a sweep's."""
        return (path / "manifest.json").is_file()

    @property
    def manifest(self) -> dict[str, Any]:
        """Versions, cores, data and jobs, at this moment."""
        values: dict[str, Any] = read_json(self.path / "manifest.json")
        return values

    @property
    def jobs(self) -> list[Job]:
        """Those that count: not the ones that were split."""
        found = (Job(**job) for job in self.manifest["jobs"])
        return sorted((job for job in found if job.state != "split"), key=lambda job: job.name)

    @cached_property
    def runs(self) -> dict[str, Run]:
        """The run of each job that has one here."""
        folders = {job.name: self.path / "jobs" / job.name for job in self.jobs}
        return {name: Run(folder) for name, folder in folders.items() if (folder / "worlds.json").exists()}

    def summary(self) -> dict[str, Any]:
        """The numbers of the result table, in the form of `Run.summary`, and the setting of each row."""
        if not self.runs:
            raise RunError(f"{self.path} has no results yet: no job has begun")
        tracks, weighed = self._merged()
        jobs = self.jobs
        states = {job.state for job in jobs}
        return {
            **next(iter(self.runs.values())).summarized(tracks, weighed),
            "name": self.config["name"],
            "state": "done" if states == {"done"} else "failed" if "failed" in states else "unfinished",
            "t": sum(run.status["t"] for run in self.runs.values()),
            "iterations": sum(self._iterations(job) for job in jobs),
            "jobs": {"done": sum(job.state == "done" for job in jobs), "all": len(jobs)},
        }

    def table(self, summary: dict[str, Any] | None = None) -> DataFrame:
        """One row for each method and setting: the keys of the grid, then the columns of `Run.table`."""
        import pandas as pd

        found = self.summary() if summary is None else summary
        rows = []
        for name, method in found["methods"].items():
            own = found["settings"][name]
            numbers: dict[str, Any] = {}
            for key, value in method.items():
                match value:
                    case Mapping() if key == "best":
                        numbers |= {
                            f"{score}_best": (best or {}).get("mean") for score, best in value.items()
                        }
                    case Mapping():
                        numbers |= {f"{key}_{k}": v for k, v in value.items()}
                    case list():
                        numbers[key] = len(value)
                    case _:
                        numbers[key] = value
            rows.append({"method": own["method"], **own["setting"], **numbers})
        return pd.DataFrame(rows)

    def write(self) -> dict[str, Any]:
        """Write table.csv, table.json and table.md, and give back the summary."""
        summary = self.summary()
        replace(self.path / "table.csv", self.table(summary).to_csv(index=False).encode())
        replace(self.path / "table.json", encode(summary, indent=2))
        replace(self.path / "table.md", markdown(summary).encode())
        return summary

    def _merged(self) -> tuple[list[Track], dict[int, list[Weighed]]]:
        """The worlds of all jobs, numbered through and named by their whole setting."""
        tracks: list[Track] = []
        weighed: dict[int, list[Weighed]] = {}
        jobs = {job.name: job for job in self.jobs}
        offset = 0
        for name, run in self.runs.items():
            whole = jobs[name].setting
            for track in run.tracks:
                both = {**whole, **track.setting}
                setting = {key: both[key] for key in self.config["grid"]}
                tags = [world_label(track.setting, self.config["grid"])]
                tags += [f"{path}={value}" for path, value in whole.items()]
                tracks.append(
                    dataclasses.replace(
                        track,
                        world=offset + track.world,
                        name=f"{track.label} [{', '.join(filter(None, tags))}]",
                        setting=setting,
                    )
                )
            weighed |= {offset + world: rows for world, rows in run.weighed.items()}
            offset += len(run.worlds)
        return tracks, weighed

    def _iterations(self, job: Job) -> int:
        """Of one job: as its run says, or as the experiment does."""
        if job.name in self.runs:
            return int(self.runs[job.name].status["iterations"])
        (count,) = job.grid.get("train.iterations", [self.config["train"]["iterations"]])
        return int(count)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment with its grid, as plain data."""
        import tomllib

        file = self.path / "sweep.toml"
        try:
            return tomllib.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"cannot read {file}: {error}") from None
