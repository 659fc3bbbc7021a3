"""The parameters of a run that differ from the defaults."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from coterie.core.errors import CoterieError
from coterie.core.support.toml import flat
from coterie.dashboard.open_run import OpenRun

__all__ = ["parameters"]


def parameters(folder: OpenRun, _query: Mapping[str, str]) -> dict[str, Any]:
    """Name the parameters that differ from the defaults, by their paths, as the page writes them."""
    from coterie.experiment import Experiment  # torch comes along, so not before somebody asks
    from coterie.experiment.schema import PLUGINS

    config = folder.run.config
    usual, given = flat(Experiment().plain()), flat(config)
    others = set(config["methods"]) != set(Experiment().methods)
    kinds = PLUGINS | {f"methods.{label}": "algorithm" for label in config["methods"]}
    for path, kind in kinds.items():
        name = str(given.get(f"{path}.name"))
        usual |= {f"{path}.{option}": value for option, value in _options(kind, name).items()}
    changed = [path for path, value in given.items() if path not in usual or usual[path] != value]
    named = [f"methods.{label}.name" for label in config["methods"]] if others else []
    return {"changed": list(dict.fromkeys([*named, *changed]))}


def _options(kind: str, name: str) -> dict[str, Any]:
    """Give the defaults of a plugin's options, as JSON has them; none for a user's own code."""
    from coterie.core.registry import resolve

    try:
        plugin = None if ":" in name else resolve(kind, name)
    except CoterieError:  # from another version: all that it was given is shown
        return {}
    if plugin is None or not dataclasses.is_dataclass(plugin):
        return {}
    known = {f.name: f.default for f in dataclasses.fields(plugin) if f.default is not dataclasses.MISSING}
    plain: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return plain
