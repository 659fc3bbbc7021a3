"""Experiments as frozen and validated data, to and from TOML."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.experiment.experiment import Experiment, World
    from coterie.experiment.files import preset_text, presets, settled
    from coterie.experiment.overrides import config_error
    from coterie.experiment.schema import (
        MOST_WORLDS,
        NO_ATTACK,
        Attackers,
        Count,
        Data,
        Evaluate,
        Exchange,
        Method,
        Named,
        Plugin,
        Population,
        Section,
        Share,
        Train,
        named,
    )

__all__ = [
    "MOST_WORLDS",
    "NO_ATTACK",
    "Attackers",
    "Count",
    "Data",
    "Evaluate",
    "Exchange",
    "Experiment",
    "Method",
    "Named",
    "Plugin",
    "Population",
    "Section",
    "Share",
    "Train",
    "World",
    "config_error",
    "named",
    "preset_text",
    "presets",
    "settled",
]

_HOMES = {
    "experiment": (
        "Experiment",
        "World",
    ),
    "files": (
        "preset_text",
        "presets",
        "settled",
    ),
    "overrides": ("config_error",),
    "schema": (
        "MOST_WORLDS",
        "NO_ATTACK",
        "Attackers",
        "Count",
        "Data",
        "Evaluate",
        "Exchange",
        "Method",
        "Named",
        "Plugin",
        "Population",
        "Section",
        "Share",
        "Train",
        "named",
    ),
}


def __getattr__(name: str) -> Any:  # loaded when it is first used: the names of presets need no pydantic
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
