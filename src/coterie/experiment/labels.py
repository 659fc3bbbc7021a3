"""Labels that tell the settings of a grid apart in the names of rows: `lr=0.1, attack=sign_flip 0.3`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.core.errors import ConfigError

__all__ = ["called", "check_labels_unique", "world_label"]


def world_label(setting: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> str:
    """Name one setting of a grid."""
    return ", ".join(f"{path.rpartition('.')[2]}={called(v, grid[path])}" for path, v in setting.items())


def check_labels_unique(grid: Mapping[str, Sequence[Any]]) -> None:
    """Refuse two values of a key with the same name: they would be one row, as if they were two seeds."""
    for path, values in grid.items():
        names = [called(value, values) for value in values]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"grid: {path!r} has two values that are the same or cannot be told apart, "
                    f"both called {name!r}; leave one of them out"
                )


def called(value: Any, values: Sequence[Any]) -> str:
    """Name a value: a table by its values alone, unless another table has the same ones for other keys."""
    short = _brief(value)
    alike = any(other != value and _brief(other) == short for other in values)
    if not (alike and isinstance(value, Mapping)):
        return short
    return " ".join(str(v) if k == "name" else f"{k}={v}" for k, v in value.items())


def _brief(value: Any) -> str:
    if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
        return " + ".join(map(_brief, value))
    return " ".join(map(_brief, value.values())) if isinstance(value, Mapping) else str(value)
