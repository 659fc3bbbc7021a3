"""GRID.toml into jobs: an experiment whose [grid] may name any key.

Worlds share a stack, and so a job, if they agree in all that concerns the whole of it: the model, the
data set, the phases and the shapes of local learning, when clients meet and are tested, the device.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.engine.layout import parts_stacks
from coterie.experiment import Experiment
from coterie.experiment.labels import check_labels_unique
from coterie.studies.sweep.folder import Job

__all__ = ["MOST_JOBS", "Grid", "jobs", "read"]

MOST_JOBS = 10_000
_WHOLE_RUN = ("methods", "seeds", "device", "dtype", "tf32", "compile")
"""Keys in which the worlds of one experiment cannot differ."""
_WITHOUT_EFFECT = ("name", "grid", "search")
"""Keys that change nothing about the results."""


class Grid(NamedTuple):
    """An experiment, and the keys to sweep over."""

    base: Experiment
    """The experiment without a grid of its own."""
    keys: dict[str, list[Any]]
    """The path of every key, and its values."""

    def plain(self) -> dict[str, Any]:
        """Convert into plain data, fit for TOML: `read` gives the same grid back."""
        return {**self.base.plain(), "grid": self.keys}


def read(source: str | Path, overrides: Mapping[str, Any] | None = None) -> Grid:
    """Read a TOML file or a preset, with `{"train.lr": 0.1}` set on top."""
    changes = dict(overrides or {})
    base = Experiment.load(source, {**changes, "grid": {}})
    if "grid" in changes:
        given = changes["grid"]
    elif str(source).endswith(".toml"):
        given = tomllib.loads(Path(source).read_text("utf-8")).get("grid", {})
    else:
        given = Experiment.load(source, changes).plain()["grid"]
    return Grid(base, _checked(given, source))


def jobs(grid: Grid, most: int | None = None) -> list[Job]:
    """Cut a grid into as few jobs as can share a stack each; at most `most` worlds in one, if possible."""
    parted = {key: values for key, values in grid.keys.items() if _parts_jobs(key)}
    if (count := math.prod(map(len, parted.values()))) > MOST_JOBS:
        raise ConfigError(
            f"grid: {', '.join(parted)} make {count:,} jobs, at most {MOST_JOBS:,} can be run; "
            "name fewer values, or sweep over some of the keys later"
        )
    whole = [_job(grid, dict(zip(parted, now, strict=True))) for now in itertools.product(*parted.values())]
    cut = list(_cut(whole, len(grid.base.methods), most))
    digits = max(3, len(str(len(cut))))
    return [replace(job, name=f"{number:0{digits}}") for number, job in enumerate(cut, 1)]


def _job(grid: Grid, now: Mapping[str, Any]) -> Job:
    """Build the job of one value for each key that parts jobs."""
    setting = {key: value for key, value in now.items() if key in _WHOLE_RUN}
    own = {key: [now[key]] if key in now else grid.keys[key] for key in grid.keys if key not in setting}
    try:
        return Job("", setting, own, list(grid.base.replace(**setting, grid=own).seeds))
    except ConfigError as error:
        said = str(error).removeprefix("experiment: ").removeprefix("grid: ")
        raise ConfigError(f"grid: {said}") from None


def _checked(given: Any, source: str | Path) -> dict[str, list[Any]]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"grid: expected a table of keys and their values, got {given!r}")
    if not given:
        raise ConfigError(
            f'{source} has no grid to sweep over; add [grid] with a line such as "train.lr" = [0.01, 0.1], '
            "or use coterie run"
        )
    known = [key for key in Experiment.model_fields if key not in _WITHOUT_EFFECT]
    for path, values in given.items():
        if path.partition(".")[0] not in known:
            raise UnknownNameError("key in the grid:", path, known)
        if isinstance(values, Mapping):
            inner = next(iter(values), "KEY")
            raise ConfigError(f'grid: write the path of a key in quotes: "{path}.{inner}" = [...]')
        if not isinstance(values, list | tuple):
            raise ConfigError(f"grid: {path!r} needs a list of values, got {values!r}")
        if not values:
            raise ConfigError(f"grid: {path!r} has no values; name at least one")
        if len({repr(value) for value in values}) < len(values):
            raise ConfigError(f"grid: {path!r} has a value twice, got {list(values)}")
    check_labels_unique({path: values for path, values in given.items() if path not in _WHOLE_RUN})
    return {path: list(values) for path, values in given.items()}


def _parts_jobs(path: str) -> bool:
    """Tell whether worlds with different values of a key need a job each."""
    if path.startswith("methods."):  # a method's own `train.optimizer` is as good as everybody's
        path = path.split(".", 2)[-1]
        return path.startswith("train.") and parts_stacks(path)
    return path in _WHOLE_RUN or f"{path}.".startswith(("model.", "data.set.")) or parts_stacks(path)


def _cut(whole: Iterable[Job], methods: int, most: int | None) -> Iterable[Job]:
    for job in whole:
        if most is not None and job.worlds(methods) > most and (parts := job.halves()):
            yield from _cut(parts, methods, most)
        else:
            yield job
