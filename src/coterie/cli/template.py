"""A commented experiment file, made from the settings themselves, so that it is never out of date."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from coterie.core.registry import KINDS
from coterie.core.support.toml import assignment
from coterie.experiment import Experiment, Plugin
from coterie.experiment.schema import PLUGINS, Models

__all__ = ["template"]

_SEE = {path.rpartition(".")[2]: f"coterie ls {KINDS[kind]}" for path, kind in PLUGINS.items()}
"""The command that lists the choices for a key."""


def template(name: str, source: str = "quickstart") -> str:
    """Every setting, as it is in a preset or a TOML file, with its default and what it means, as TOML."""
    experiment = Experiment.load(source, {"name": name}, plugins=False)
    plain = experiment.plain()
    lines = [
        f"# {name}: an experiment for coterie, begun from {source!r}. Every setting is here, with its",
        "# default where that is another one; what you keep at its default can be deleted.",
        f"# Check it with `coterie check {name}.toml`, run it with `coterie run {name}.toml`.",
        *_settings(experiment),
        "",
        "# The rows of the result table: any name, and the algorithm if the name is not one already, such as",
        '# sharp = { name = "KD-PDFL", tau = 0.1 }',
        f"# ({_SEE['methods']}; their options: coterie ls algorithms kd-pdfl)",
        "[methods]",
        *(assignment(label, _method(label, options)) for label, options in plain["methods"].items()),
        "",
        "# Settings to compare, each with every method and seed: the path of a key and its values, such as",
        '# "train.lr" = [0.01, 0.05, 0.2]',
        "[grid]",
        *(assignment(path, values) for path, values in plain["grid"].items()),
        "",
        "# What `coterie tune` tries, as many settings of every method: train.lr, train.personalize_lr,",
        "# train.optimizer or an option of one method, and the values, such as",
        '# "methods.KD-PDFL.tau" = [0.1, 0.3, 1.0]',
        "[search]",
        *(assignment(path, values) for path, values in plain["search"].items()),
    ]
    for key, section in experiment:
        if isinstance(section, BaseModel) and not isinstance(section, Plugin | Models):
            lines += ["", f"# {type(section).__doc__}", f"[{key}]", *_settings(section)]
    return "\n".join(lines) + "\n"


def _method(label: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if (k, v) != ("name", label)}


def _settings(section: BaseModel) -> Iterator[str]:
    plain, defaults = (one.model_dump(mode="json") for one in (section, type(section)()))
    for key, field in type(section).model_fields.items():
        value, default = _short(plain[key]), _short(defaults[key])
        given = getattr(section, key)
        if key in ("methods", "grid", "search") or (
            isinstance(given, BaseModel) and not isinstance(given, Models) and "name" not in plain[key]
        ):
            continue
        said = [field.description or "", f"({_SEE[key]})" if key in _SEE else ""]
        if default not in (value, None) and key != "name":
            said.append(f"Default: {assignment(key, default).partition(' = ')[2]}.")
        yield ""
        yield from textwrap.wrap(
            " ".join(filter(None, said)), 100, initial_indent="# ", subsequent_indent="# "
        )
        yield f"# {key} =" if value is None else assignment(key, value)


def _short(value: Any) -> Any:
    """A plugin without options by its name alone; several models as a list, unless they are dealt by name."""
    if isinstance(value, dict) and "among" in value:
        among = [_short({k: v for k, v in one.items() if v is not None}) for one in value["among"]]
        return {"among": among, "deal": value["deal"]} if value["deal"] else among
    return value["name"] if isinstance(value, dict) and set(value) == {"name"} else value
