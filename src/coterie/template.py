"""A commented experiment file, made from the settings themselves, so that it is never out of date."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from coterie.core.toml import assignment
from coterie.experiment import Experiment, Plugin

__all__ = ["template"]

_SEE = {
    "methods": "coterie ls algorithms",
    "model": "coterie ls models",
    "set": "coterie ls datasets",
    "partition": "coterie ls partitions",
    "shift": "coterie ls shifts",
    "attack": "coterie ls attacks",
    "channel": "coterie ls channels",
    "topology": "coterie ls topologies",
}
"""Where the choices for a key are listed."""


def template(name: str) -> str:
    """Every setting with its default and what it means, as TOML."""
    experiment = Experiment.parse({"name": name})
    # The default, 2000, is that of the paper's long runs.
    fitting = {"FedAvg+": {"switch": round(0.6 * experiment.train.iterations)}}
    lines = [
        f"# {name}: an experiment for coterie. Every setting is here with its default; delete what you keep.",
        f"# Check it with `coterie check {name}.toml`, run it with `coterie run {name}.toml`.",
        *_settings(experiment),
        "",
        "# The rows of the result table: any name, and the algorithm if the name is not one already, such as",
        '# sharp = { name = "KD-PDFL", step = "softmax", tau = 0.03 }',
        f"# ({_SEE['methods']}; their options: coterie ls algorithms kd-pdfl)",
        "[methods]",
        *(assignment(label, fitting.get(label, {})) for label in experiment.methods),
        "",
        "# Settings to compare, each with every method and seed: the path of a key and its values, such as",
        '# "train.lr" = [0.01, 0.05, 0.2]',
        "[grid]",
        "",
        "# What `coterie tune` tries, as many settings of every method: train.lr, train.personalize_lr,",
        "# train.optimizer or an option of one method, and the values, such as",
        '# "methods.KD-PDFL.tau" = [0.03, 0.1, 0.3]',
        "[search]",
    ]
    for key, section in experiment:
        if isinstance(section, BaseModel) and not isinstance(section, Plugin):
            lines += ["", f"# {type(section).__doc__}", f"[{key}]", *_settings(section)]
    return "\n".join(lines) + "\n"


def _settings(section: BaseModel) -> Iterator[str]:
    plain = section.model_dump(mode="json")
    for key, field in type(section).model_fields.items():
        value = plain[key]
        if key in ("methods", "grid", "search") or (
            isinstance(getattr(section, key), BaseModel) and "name" not in value
        ):
            continue
        see = f" ({_SEE[key]})" if key in _SEE else ""
        yield ""
        yield from textwrap.wrap(
            f"{field.description or ''}{see}".strip(), 100, initial_indent="# ", subsequent_indent="# "
        )
        yield f"# {key} =" if value is None else assignment(key, _short(value))


def _short(value: Any) -> Any:
    """A plugin without options by its name alone."""
    return value["name"] if isinstance(value, dict) and set(value) == {"name"} else value
