"""Which parameters of a run are not what they are by default."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from coterie.core.errors import CoterieError
from coterie.dashboard.open_run import OpenRun

__all__ = ["parameters"]

_PLUGINS = {
    "model": "model",
    "attack": "attack",
    "data.set": "dataset",
    "data.partition": "partition",
    "exchange.channel": "channel",
    "exchange.topology": "topology",
}
"""Tables of an experiment that name a plugin, and its kind."""


def parameters(folder: OpenRun, _query: Mapping[str, str]) -> dict[str, Any]:
    """Paths of the parameters that differ from the defaults, as the page writes them."""
    from coterie.experiment import Experiment  # it brings torch along, so not before somebody asks

    config = folder.run.config
    usual, given = _flat(Experiment().plain()), _flat(config)
    others = set(config["methods"]) != set(Experiment().methods)
    kinds = _PLUGINS | {f"methods.{label}": "algorithm" for label in config["methods"]}
    for path, kind in kinds.items():
        name = str(given.get(f"{path}.name"))
        usual |= {f"{path}.{option}": value for option, value in _options(kind, name).items()}
    changed = [path for path, value in given.items() if path not in usual or usual[path] != value]
    named = [f"methods.{label}.name" for label in config["methods"]] if others else []
    return {"changed": list(dict.fromkeys([*named, *changed]))}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _options(kind: str, name: str) -> dict[str, Any]:
    """Options of a plugin of coterie with their defaults, as JSON has them; none of a user's own code."""
    from coterie.core.registry import find

    try:
        plugin = None if ":" in name else find(kind, name)
    except CoterieError:  # from another version: all that it was given is shown
        return {}
    if plugin is None or not dataclasses.is_dataclass(plugin):
        return {}
    known = {f.name: f.default for f in dataclasses.fields(plugin) if f.default is not dataclasses.MISSING}
    plain: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return plain
