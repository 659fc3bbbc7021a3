"""Plain data as TOML text; the standard library reads TOML but does not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.core.errors import ConfigError

__all__ = ["assignment", "dumps", "flat", "texts"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(values: Mapping[str, Any]) -> str:
    """Write nested tables, lists, strings, numbers and booleans; `tomllib.loads` gives them back.

    >>> print(dumps({"a": 1, "b": {"c d": [True, {"e": "x"}]}}))
    a = 1
    <BLANKLINE>
    [b]
    "c d" = [true, { e = "x" }]
    <BLANKLINE>
    """
    return "\n".join(_table(values, ())).lstrip("\n") + "\n"


def assignment(key: str, value: Any) -> str:
    """Write one line, `key = value`."""
    return f"{_key(key)} = {_value(value, (key,))}"


def flat(values: Mapping[str, Any], separator: str = ".", prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables into one, keyed by paths.

    >>> flat({"a": {"b": 1, "c": {"d": [2]}}})
    {'a.b': 1, 'a.c.d': [2]}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        path = prefix + key
        found |= flat(value, separator, path + separator) if isinstance(value, Mapping) else {path: value}
    return found


def texts(values: Any) -> Iterator[str]:
    """Find all text in nested tables and lists; keys are not among it."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list | tuple):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from texts(value)


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = [f"{_key(k)} = {_value(v, (*path, k))}" for k, v in values.items() if not isinstance(v, Mapping)]
    header = ["", f"[{'.'.join(map(_key, path))}]"] if path and (plain or not values) else []
    tables = {k: v for k, v in values.items() if isinstance(v, Mapping)}
    return header + plain + [line for k, v in tables.items() for line in _table(v, (*path, k))]


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    # JSON's escapes are all TOML's too, but TOML wants DEL escaped as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, path: tuple[str, ...]) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _string(value)
        case list() | tuple():
            return f"[{', '.join(_value(v, path) for v in value)}]"
        case Mapping():
            pairs = ", ".join(f"{_key(k)} = {_value(v, (*path, k))}" for k, v in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    raise ConfigError(
        f"{'.'.join(path)}: TOML has no {type(value).__name__}; "
        "expected a string, number, boolean, list or table"
    )
