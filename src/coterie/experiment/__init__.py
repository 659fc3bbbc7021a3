"""Experiments as frozen and validated data, to and from TOML."""

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
