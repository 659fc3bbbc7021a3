"""The page of a TOML file, made from its schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

from pieces import code, page, table
from pydantic import BaseModel

from coterie.core.registry import KINDS
from coterie.core.support.toml import assignment
from coterie.core.support.values import allowed
from coterie.experiment.schema import PLUGINS, Plugin


def settings_page(top: type[BaseModel], title: str, about: str) -> str:
    """Make the page of a TOML file from its schema: each table, each key, its default, values and meaning."""
    parts = [table(_HEAD, _rows(top, ""))]
    for key, section in _sections(top):
        parts += [
            f"## {key}",
            inspect.cleandoc(section.__doc__ or ""),
            table(_HEAD, _rows(section, f"{key}.")),
        ]
    return page(title, about, *parts)


_HEAD = ("key", "default", "values", "meaning")


def _sections(top: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for key, hint in get_type_hints(top).items():
        if inspect.isclass(hint) and issubclass(hint, BaseModel) and (hint is not Plugin):
            yield key, hint


def _rows(section: type[BaseModel], path: str) -> Iterator[tuple[str, str, str, str]]:
    tables = {key for key, _ in _sections(section)}
    hints = get_type_hints(section, include_extras=True)
    for key, field in section.model_fields.items():
        if key in tables:
            yield code(f"[{key}]"), "", "table", field.description or f"[below](#{key})"
            continue
        kind = PLUGINS.get(f"{path}{key}")
        values = (
            f"a name of {KINDS[kind]}, or a table with one and its options" if kind else allowed(hints[key])
        )
        yield code(f"{path}{key}"), code(_default(field)), values, field.description or ""


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, dict) and all(isinstance(v, BaseModel) for v in value.values()):
        value = list(value)
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if dataclass_name := getattr(value, "name", None):
        value = dataclass_name
    if isinstance(value, dict) and set(value) >= {"name"}:
        value = value["name"]
    if value is None:
        return ""
    return assignment(
        "x", list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    )[4:]
