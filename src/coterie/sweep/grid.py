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
from coterie.core.labels import check_labels_unique
from coterie.experiment import Experiment
from coterie.sweep.job import Job

__all__ = ["MOST_JOBS", "Grid", "jobs", "read"]

MOST_JOBS = 10_000
_WHOLE_RUN = ("methods", "seeds", "device", "dtype", "tf32", "compile")
"""Keys in which the worlds of one experiment cannot differ."""
_OF_NO_USE = ("name", "grid", "search")
"""Keys that change nothing about the results."""
_PARTING = ("model", "data.set", "train", "exchange.every", "exchange.probe", "evaluate")
"""Keys, and those below them, in which the worlds of one stack cannot differ (`coterie.engine.layout`) ..."""
_SHARED = ("train.lr", "train.personalize_lr", "train.init")
"""... but for these."""


class Grid(NamedTuple):
    """What to sweep."""

    base: Experiment
    """Without a grid of its own."""
    keys: dict[str, list[Any]]
    """The path of every key, and its values."""

    def plain(self) -> dict[str, Any]:
        """As plain data, fit for TOML: `read` gives the same grid back."""
        return {**self.base.plain(), "grid": self.keys}


def read(source: str | Path, overrides: Mapping[str, Any] | None = None) -> Grid:
    """From a TOML file or a preset, with `{"train.lr": 0.1}` set on top."""
    changes = dict(overrides or {})
    base = Experiment.load(source, {**changes, "grid": {}})
    if "grid" in changes:
        given = changes["grid"]
    elif str(source).endswith(".toml"):
        given = tomllib.loads(Path(source).read_text("utf-8")).get("grid", {})
    else:
        given = Experiment.load(source, changes).plain()["grid"]
    return Grid(base, _sound(given, source))


def jobs(grid: Grid, most: int | None = None) -> list[Job]:
    """As few as can share a stack each, in the grid's order; `most` worlds in one, where that can be."""
    parted = {key: values for key, values in grid.keys.items() if _parts(key)}
    shared = {key: values for key, values in grid.keys.items() if key not in parted}
    if (count := math.prod(map(len, parted.values()))) > MOST_JOBS:
        raise ConfigError(
            f"grid: {', '.join(parted)} make {count:,} jobs, at most {MOST_JOBS:,} can be run; "
            "name fewer values, or sweep over some of the keys later"
        )
    whole = []
    for values in itertools.product(*parted.values()):
        now = dict(zip(parted, values, strict=True))
        setting = {key: value for key, value in now.items() if key in _WHOLE_RUN}
        own = {key: [now[key]] if key in now else shared[key] for key in grid.keys if key not in setting}
        try:
            seeds = list(grid.base.replace(**setting, grid=own).seeds)
        except ConfigError as error:
            said = str(error).removeprefix("experiment: ").removeprefix("grid: ")
            raise ConfigError(f"grid: {said}") from None
        whole.append(Job("", setting, own, seeds))
    cut = list(_cut(whole, len(grid.base.methods), most))
    digits = max(3, len(str(len(cut))))
    return [replace(job, name=f"{number:0{digits}}") for number, job in enumerate(cut, 1)]


def _sound(given: Any, source: str | Path) -> dict[str, list[Any]]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"grid: expected a table of keys and their values, got {given!r}")
    if not given:
        raise ConfigError(
            f'{source} has no grid to sweep over; add [grid] with a line such as "train.lr" = [0.01, 0.1], '
            "or use coterie run"
        )
    known = [key for key in Experiment.model_fields if key not in _OF_NO_USE]
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


def _parts(path: str) -> bool:
    """Whether worlds with different values of a key need a job each."""
    if path in _WHOLE_RUN:
        return True
    if path.startswith("methods."):
        return ".train.optimizer" in path
    return path not in _SHARED and any(f"{path}.".startswith(f"{part}.") for part in _PARTING)


def _cut(whole: Iterable[Job], methods: int, most: int | None) -> Iterable[Job]:
    for job in whole:
        if most is not None and job.worlds(methods) > most and (parts := job.halves()):
            yield from _cut(parts, methods, most)
        else:
            yield job
