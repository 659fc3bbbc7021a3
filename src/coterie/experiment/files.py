"""Experiment files: TOML of the user's or a preset, and the folder that the names in it are relative to."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.support.toml import texts

__all__ = ["preset_text", "presets", "read", "settled"]

_PRESETS = resources.files(__package__) / "presets"


def presets() -> dict[str, str]:
    """List the experiments that come with the package, with the first comment line of each."""
    found = {}
    for file in _PRESETS.iterdir():
        if file.name.endswith(".toml"):
            found[file.name.removesuffix(".toml")] = file.read_text("utf-8").partition("\n")[0].lstrip("# ")
    return dict(sorted(found.items()))


def preset_text(name: str, what: str = "preset") -> str:
    """Read the TOML of a preset; an unknown name is an error about `what`."""
    if name not in presets():
        raise UnknownNameError(what, name, presets())
    return (_PRESETS / f"{name}.toml").read_text("utf-8")


def read(source: str | Path) -> dict[str, Any]:
    """Read the plain data of a TOML file or, without that ending, of a preset."""
    if isinstance(source, str) and not source.endswith(".toml"):
        if source not in presets() and Path(file := f"{source}.toml").is_file():
            raise ConfigError(f"there is no preset {source!r}, but a file: name it in full, {file}")
        text = preset_text(source, "preset (a file must end in .toml)")
    else:
        try:
            text = Path(source).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from None
    if not values:
        raise ConfigError(f"{source} is empty: expected an experiment, such as `coterie new` writes")
    return values


def settled(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Give the settings of a file its folder as `home`, if anything they name lies there or is a module.

    So they can be resumed from anywhere; a `home` that they bring along stays, unless it is elsewhere now.
    """
    folder, given = file.resolve().parent, values.get("home", "")
    if not isinstance(given, str):
        return dict(values)
    if given and os.path.isdir(folder / given):
        return {**values, "home": str(folder / given)}
    own = any(":" in text or (text and os.path.exists(folder / text)) for text in texts(values))
    return {**values, "home": str(folder)} if own else {k: v for k, v in values.items() if k != "home"}
