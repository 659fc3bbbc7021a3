"""Objects in the place of names: `Experiment(data=(x, y), model=MyNet, methods=[MyMethod(rate=0.1)])`.

Each becomes what a TOML file would say: a name and options. What has no name that another process could use
is held by `coterie.core.own.objects`, and the name carries a fingerprint of its content.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from coterie.core.errors import ConfigError
from coterie.core.own.objects import Held, digest, hold, import_path
from coterie.core.registry import registered
from coterie.experiment.schema import PLUGINS

__all__ = ["named_objects"]

_COLUMNS = ("label", "owner", "indices", "test_set")
"""Keys beside `data.set` that say how an object is read."""
_PLAIN = (str, bool, int, float, type(None))


def named_objects(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Held]]:
    """Put names in place of objects; what had to be held lives for as long as the caller keeps it."""
    named = _Namer()
    found = dict(values)
    if "data" in found and not _is_settings(found["data"]):
        found["data"] = {"set": found["data"]}
    if isinstance(data := found.get("data"), Mapping) and not _is_settings(data.get("set")) and "set" in data:
        found["data"] = named.data(data)
    if "methods" in found:
        found["methods"] = named.methods(found["methods"])
    for path, kind in PLUGINS.items():
        table, _, key = path.rpartition(".")
        if path in ("methods", "data.set"):
            continue
        if not table:
            if path in found:
                found[path] = named.each(kind, path, found[path])
        elif isinstance(inner := found.get(table), Mapping) and key in inner:
            found[table] = {**inner, key: named.each(kind, path, inner[key])}
    if isinstance(grid := found.get("grid"), Mapping):
        found["grid"] = {
            path: [named.one(PLUGINS[path], f"grid.{path}", v) for v in each]
            if path in PLUGINS and path not in ("methods", "data.set") and isinstance(each, list | tuple)
            else each
            for path, each in grid.items()
        }
    if named.homes and "home" not in found:
        found["home"] = named.homes[0]
    return found, named.held


def _is_settings(value: Any) -> bool:
    """Tell whether a value is text, a table or a number, as TOML has them, or is made of those."""
    if isinstance(value, list | tuple):
        return all(map(_is_settings, value)) and not any(isinstance(v, list | tuple) for v in value)
    if isinstance(value, dict) and value and all(hasattr(v, "with_format") for v in value.values()):
        return False  # the splits of one data set
    return isinstance(value, (*_PLAIN, Mapping, BaseModel))


class _Namer:
    """Names objects, and remembers what it had to hold and where modules lie."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.homes: list[str] = []

    def methods(self, given: Any) -> Any:
        """Name methods, given by label, or in a list that takes the labels from their names."""
        if isinstance(given, Mapping):
            return {label: self.one("algorithm", f"methods.{label}", one) for label, one in given.items()}
        if not isinstance(given, list | tuple):
            return given
        found: dict[str, Any] = {}
        for i, one in enumerate(given):
            table = self.one("algorithm", f"methods.{i}", one)
            if not (isinstance(table, str) or (isinstance(table, Mapping) and "name" in table)):
                return given
            name = table if isinstance(table, str) else table["name"]
            label = name if one is table else _called(one, name)
            if label in found and one is not table:
                raise ConfigError(
                    f"methods: two of the list are called {label!r}; tell them apart by labels: "
                    f'methods={{"{label}": …, "{label} 2": …}}'
                )
            found[label] = {"name": name} if isinstance(table, str) else table
        return found

    def each(self, kind: str, path: str, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self.one(kind, f"{path}.{i}", one) for i, one in enumerate(given)]
        return self.one(kind, path, given)

    def one(self, kind: str, path: str, given: Any) -> Any:
        """Name one object, with its options; what is text or a table already stays."""
        if isinstance(given, Mapping):
            if "name" not in given or _is_settings(given["name"]):
                return given
            table = self.one(kind, path, given["name"])
            return {**table, **{k: v for k, v in given.items() if k != "name"}}
        if isinstance(given, (*_PLAIN, BaseModel, list, tuple)):
            return given
        if isinstance(given, functools.partial) and not given.args and callable(given.func):
            return {**self.one(kind, path, given.func), **_options(given.keywords, path)}
        if inspect.isclass(given) or inspect.isfunction(given):
            return {"name": self._name(kind, given)}
        if dataclasses.is_dataclass(given):
            fields = [f for f in dataclasses.fields(given) if f.init]
            options = {
                f.name: getattr(given, f.name) for f in fields if getattr(given, f.name) != _default(f)
            }
            return {"name": self._name(kind, type(given)), **_options(options, path)}
        if kind == "model" and hasattr(given, "state_dict"):
            return {"name": self._hold(type(given).__name__, _copies(given), digest(given))}
        if kind == "model" and callable(given):
            return {
                "name": self._hold(
                    type(given).__name__, lambda inputs, classes: given(inputs, classes), digest(given)
                )
            }
        raise ConfigError(
            f"{path}: expected a name, a class, a function or an object made of a dataclass, got "
            f"{type(given).__name__}"
        )

    def data(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Name the data that `data.set` is; who owns what, if that is known, gives the number of clients."""
        from coterie.core.own.own_data import read_dataset  # torch takes seconds to load

        given, rest = table["set"], {k: v for k, v in table.items() if k not in _COLUMNS}
        if inspect.isclass(given) or inspect.isfunction(given) or hasattr(given, "load"):
            return {**table, "set": self.one("dataset", "data.set", given)}
        columns = {"test" if k == "test_set" else k: table[k] for k in _COLUMNS if table.get(k) is not None}
        read = read_dataset(given, "data.set", **columns)
        content = (read.train, read.test, read.classes, read.columns, read.transform)
        called = "arrays" if isinstance(given, list | tuple) else type(given).__name__
        rest["set"] = {"name": self._hold(called, lambda: read, digest(content))}
        if read.train.owner is not None:
            rest.setdefault("clients", int(read.train.owner.max()) + 1)
        return rest

    def _name(self, kind: str, given: Any) -> str:
        known = next((name for name, plugin in registered(kind).items() if plugin is given), None)
        if known is not None:
            return known
        if (path := import_path(given)) is None:
            return self._hold(given.__name__.strip("<>"), given, digest(given))
        module = sys.modules[given.__module__]
        if (file := getattr(module, "__file__", None)) and not _installed(given.__module__):
            home = str(Path(file).resolve().parents[given.__module__.count(".")])
            self.homes += [home] if home != os.getcwd() else []
        return path

    def _hold(self, called: str, value: Any, fingerprint: str) -> str:
        self.held.append(hold(called, value, fingerprint))
        return self.held[-1].name


def _called(given: Any, name: str) -> str:
    """Label a method of a list: by its registered name, else by that of its class."""
    if isinstance(given, functools.partial):
        given = given.func
    if isinstance(given, Mapping):
        given = given["name"]
    own = given.__name__ if hasattr(given, "__name__") else type(given).__name__
    return own if ":" in name or " " in name else name


def _options(given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Refuse options that a file could not hold."""
    for key, value in given.items():
        if not _is_settings(value) or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(
                f"{path}.{key}: expected text, a number or a list of them, so that the run folder can keep "
                "it, "
                f"got {type(value).__name__}"
            )
    return {k: list(v) if isinstance(v, tuple) else v for k, v in given.items() if v is not None}


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _copies(module: Any) -> Callable[..., Any]:
    """Make a function that builds copies of a model as it is now."""
    mine = copy.deepcopy(module)

    def build(inputs: tuple[int, ...], classes: int) -> Any:
        return copy.deepcopy(mine)

    return build


def _installed(module: str) -> bool:
    """Tell whether a module is found without knowing a folder: a library's, or coterie's own."""
    file = getattr(sys.modules[module.partition(".")[0]], "__file__", None) or ""
    return module.startswith("coterie.") or "site-packages" in file
