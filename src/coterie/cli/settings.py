"""`--set key=value`: values are written as in TOML; what is not TOML is a string."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from coterie.core.errors import ConfigError

__all__ = ["overrides"]


def overrides(sets: Sequence[str]) -> dict[str, Any]:
    """`["train.lr=0.1", "model=cnn"]` as `{"train.lr": 0.1, "model": "cnn"}`."""
    values = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise ConfigError(f"--set {text!r}: expected KEY=VALUE, such as train.lr=0.1")
        try:
            values[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = value.strip()
    return values
