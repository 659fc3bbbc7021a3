"""Columns of the board from TOML, its sizes, and the methods that take part."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import build, normalise_name, registered
from coterie.experiment import Experiment

__all__ = ["Column", "Size", "columns", "fitted", "methods", "references", "size"]

_SECTIONS = ("data", "train", "exchange", "population", "evaluate")
"""Tables of an experiment whose keys a column sets one by one."""


class Column(NamedTuple):
    """One way in which clients differ, on one data set."""

    name: str
    family: str
    """The kind of difference: label skew, feature shift, concept shift, real clients ..."""
    title: str
    settings: dict[str, Any]
    """Values of an experiment by their paths."""
    methods_per_job: int | None = None
    """How many methods one job takes; None: all. Jobs of a column that takes long can run side by side."""

    def experiment(self, methods: Mapping[str, Any], seeds: Sequence[int], device: str) -> Experiment:
        """Build the experiment of this column with these methods, by label, and seeds."""
        own = {"name": self.name, "methods": dict(methods), "seeds": list(seeds), "device": device}
        if any(":" in method["name"] for method in methods.values()):
            own["home"] = str(Path.cwd())
        return Experiment().replace(**self.settings, **own)


class Size(NamedTuple):
    """Sizes of a board."""

    candidates: int
    """Settings tried of every method."""
    tuning_seeds: int
    """Seeds that each is tried with."""
    seeds: int
    """Fresh seeds of the figures."""
    change: dict[str, Any]
    """Values by their paths, on top of those of every column of the board's own."""
    columns: tuple[str, ...]
    """The columns, if none are asked for; none: all."""
    methods_per_job: int | None = None
    """Number of methods of one job in columns that do not say; None: all."""


def size(quick: bool) -> Size:
    """Look up the sizes of the whole board, or of the quick one."""
    values = _toml()["quick" if quick else "full"]
    return Size(**{**values, "change": _by_path(values["change"]), "columns": tuple(values["columns"])})


def columns(names: Sequence[str], own: Path | None, sizes: Size) -> list[Column]:
    """List the columns that are asked for, in the board's order; `own`: a file with further ones.

    If none are asked for, they are those of the file, or else those of the board.
    """
    theirs = _own(own) if own else {}
    known = {**_toml()["columns"], **theirs}
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name, known)
    wanted = names or list(theirs) or sizes.columns or known
    how = {name: (None, {}) if name in theirs else (sizes.methods_per_job, sizes.change) for name in known}
    return [_column(name, table, *how[name]) for name, table in known.items() if name in wanted]


def methods(names: Iterable[str]) -> dict[str, str]:
    """Name the algorithms that take part by their labels; none asked for: all that a board needs."""
    told = _toml()["methods"]
    variants = {label: options["name"] for label, options in told["variants"].items()}
    every = {**{name: name for name in registered("algorithm")}, **variants}
    wanted = list(names) or [name for name in every if name not in told["on_request"]]
    always = [name for name in told["always"] if name in every]
    found: dict[str, str] = {}
    for name in (*always, *wanted):
        label = _label(name, every)
        given = name if ":" in name else every[label]
        if found.setdefault(label, given) != given:
            raise ConfigError(f"two methods are called {label!r}: {found[label]} and {given}; rename one")
    for label, name in found.items():
        build("algorithm", name, {}, f"--methods {label}")  # better told now
    return found


def fitted(label: str, method: str, column: Column) -> dict[str, Any]:
    """Set the options of a method that its label or a column decides.

    A column decides options that count iterations, as shares of all there are, and the proxy, where clients
    have several models.
    """
    told, iterations = _toml()["methods"], column.settings["train.iterations"]
    own = {key: value for key, value in told["variants"].get(label, {}).items() if key != "name"}
    found = own | {option: round(share * iterations) for option, share in told["at"].get(method, {}).items()}
    model = column.settings.get("model", {})
    several = isinstance(model, list) or "among" in model
    return found | (told["mixed"].get(method, {}) if several else {})


def references() -> list[str]:
    """Name the methods that know what no client can know: shown, but neither ranked nor the best."""
    return list(_toml()["methods"]["references"])


def _label(name: str, known: Iterable[str]) -> str:
    """Label a method: by its registered name, or its class if it is the user's own."""
    if ":" in name:
        return name.rpartition(":")[2]
    for candidate in known:
        if normalise_name(candidate) == normalise_name(name):
            return candidate
    raise UnknownNameError("method", name, known, ["a class of your own is named mine:Mine"])


def _own(file: Path) -> dict[str, Any]:
    """Read the columns of a user's file."""
    try:
        found = tomllib.loads(file.read_text("utf-8")).get("columns")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--columns {file} cannot be read: {error}") from None
    if not (isinstance(found, Mapping) and found and all(isinstance(t, Mapping) for t in found.values())):
        raise ConfigError(f"--columns {file}: expected a table [columns.NAME] for each column")
    return dict(found)


def _column(name: str, table: Mapping[str, Any], per_job: int | None, change: Mapping[str, Any]) -> Column:
    own = {key: value for key, value in table.items() if key not in ("family", "title", "methods_per_job")}
    settings = {**_by_path(_toml()["common"]), **_by_path(own), **change}
    most = table.get("methods_per_job", per_job)
    if not (most is None or (isinstance(most, int) and most > 0)):
        raise ConfigError(f"columns.{name}.methods_per_job: expected a number from 1 on, got {most!r}")
    return Column(name, str(table.get("family", "own")), str(table.get("title", name)), settings, most)


def _by_path(values: Mapping[str, Any]) -> dict[str, Any]:
    """Name the keys of an experiment's tables by their paths: `{"train": {"lr": 1}}` as `{"train.lr": 1}`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in _SECTIONS and isinstance(value, Mapping):
            found |= {f"{key}.{inner}": one for inner, one in value.items()}
        else:
            found[key] = value
    return found


@cache
def _toml() -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / "columns.toml").read_text("utf-8"))
