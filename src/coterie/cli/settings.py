"""`--set key=value`: values are written as in TOML; a plain word is a string."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from coterie.core.errors import ConfigError

__all__ = ["overrides"]

_OPENING = ("[", "{", '"', "'")
"""With one of these begins what is not a plain word."""


def overrides(sets: Sequence[str]) -> dict[str, Any]:
    """`["train.lr=0.1", "model=cnn"]` as `{"train.lr": 0.1, "model": "cnn"}`."""
    values = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise ConfigError(f"--set {text!r}: expected KEY=VALUE, such as train.lr=0.1")
        values[key.strip()] = _value(text, value.strip())
    return values


def _value(text: str, value: str) -> Any:
    try:
        found = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        if not value.startswith(_OPENING):
            return value
        reason = str(error).partition(" (at ")[0]  # where it is counts from the beginning of another text
        raise ConfigError(
            f"--set {text!r}: the value is not valid TOML: {reason}; text within brackets needs quotes"
        ) from None
    if found.keys() != {"value"}:
        raise ConfigError(f"--set {text!r}: expected one value; give each key a --set of its own")
    return found["value"]
