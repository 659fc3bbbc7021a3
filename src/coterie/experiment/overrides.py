"""Changes of an experiment's plain data by dotted paths, such as `train.lr`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import explain, normalise_name, written

__all__ = ["config_error", "put", "refuse_misspelt"]


def put(values: dict[str, Any], path: str, value: Any, defaults: Any = None) -> None:
    """Set the value at a dotted path; a plugin that is not there yet is the one of the defaults."""
    *tables, key = path.split(".")
    for table in tables:
        defaults = defaults.get(table) if isinstance(defaults, dict) else None
        inner = values.get(table)
        if inner is None and isinstance(defaults, dict) and "name" in defaults:
            inner = {"name": defaults["name"]}
        if isinstance(inner, str):  # a plugin given by its name alone
            inner = {"name": inner}
        elif isinstance(inner, list | tuple) and table == "methods":
            inner = {name: {} for name in inner}
        elif inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"{path}: {table!r} is a value and has no keys")
        values[table] = {} if inner is None else inner
        values = values[table]
    values[key] = value


def refuse_misspelt(values: Mapping[str, Any], path: str) -> None:
    """Refuse to change a method that is there by a slightly other name: that would only add one."""
    table, _, rest = path.partition(".")
    label = rest.partition(".")[0]
    labels = values.get("methods")
    if table != "methods" or not isinstance(labels, Mapping | list | tuple) or label in labels:
        return
    for there in labels:
        if isinstance(there, str) and normalise_name(there) == normalise_name(label):
            raise ConfigError(f"{path}: there is no method {label!r}; did you mean {there!r}?")


def config_error(cls: type[BaseModel], error: ValidationError, values: Any) -> ConfigError:
    """Turn the first mistake that pydantic found in plain data into an error of ours, with its path."""
    for item in error.errors():
        if item["type"] == "extra_forbidden":
            *path, key = written(item["loc"], values)
            before = "".join(f"{part}." for part in path)
            return UnknownNameError("key", key, _known_keys(cls, path), path=before)
    return ConfigError(explain(error, values=values))


def _known_keys(cls: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        inner = cls.model_fields[part].annotation if part in cls.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        cls = inner
    return list(cls.model_fields)
