"""Plugins: one file each, found by name, no list to edit.

A plugin of a kind lives in the folder of that kind (`coterie/algorithms/kd_pdfl.py`) and registers
itself. Names are compared without case, blanks, dashes and underscores, so `kd_pdfl` finds
`KD-PDFL`. A name with a colon, `"pkg.mod:Name"`, is imported from the user's own code.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import os
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from coterie.core.errors import ConfigError, UnknownNameError

__all__ = ["KINDS", "Option", "build", "describe", "explain", "find", "known", "options", "register"]

KINDS = {
    "algorithm": "algorithms",
    "distance": "distances",
    "channel": "channels",
    "topology": "topologies",
    "dataset": "datasets",
    "partition": "partitions",
    "shift": "shifts",
    "model": "models",
}
"""Each kind of plugin and the folder its files live in."""

_plugins: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
T = TypeVar("T")


def register(kind: str, name: str) -> Callable[[T], T]:
    """Decorator: make a class or function known under `name`; its docstring's first line describes it."""
    if kind not in _plugins:
        raise UnknownNameError("kind of plugin", kind, _plugins)

    def keep(plugin: T) -> T:
        there = _plugins[kind].get(name)
        if there is not None and _origin(there) != _origin(plugin):
            raise ConfigError(
                f"two {KINDS[kind]} are called {name!r}: {_origin(there)} and {_origin(plugin)}"
            )
        _plugins[kind][name] = plugin
        return plugin

    return keep


def known(kind: str) -> dict[str, Any]:
    """All plugins of a kind by name; imports the kind's folder on first use."""
    package = importlib.import_module(f"coterie.{KINDS[kind]}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_plugins[kind].items(), key=lambda item: item[0].lower()))


def find(kind: str, name: str) -> Any:
    """The plugin called `name`, or the object `"pkg.mod:Name"` names."""
    if ":" in name:
        return _imported(kind, name)
    plugins = known(kind)
    for candidate, plugin in plugins.items():
        if _folded(name) in (_folded(candidate), _folded(plugin.__name__)):
            return plugin
    raise UnknownNameError(kind, name, plugins)


def build(kind: str, name: str, options: Mapping[str, Any], where: str) -> Any:
    """The plugin's frozen dataclass with validated options; errors carry the path of the key.

    A plain function from the user's own code is taken too, with its options bound.
    """
    plugin = find(kind, name)
    if inspect.isfunction(plugin):
        fields: Mapping[str, Any] = inspect.signature(plugin).parameters
    elif dataclasses.is_dataclass(plugin):
        fields = {f.name: f for f in dataclasses.fields(plugin) if f.init}
    else:
        raise ConfigError(
            f"{where}: {kind} {name!r} must be a dataclass whose fields are its options, or a function, "
            f"got {type(plugin).__name__}"
        )
    for key in options:
        if key not in fields:
            raise UnknownNameError(f"option {where}.{key} of {kind} {name!r}:", key, fields)
    if inspect.isfunction(plugin):
        return functools.partial(plugin, **options)
    try:
        return TypeAdapter(plugin).validate_python(dict(options))
    except ValidationError as error:
        raise ConfigError(explain(error, where)) from None


def describe(plugin: Any) -> str:
    """The first line of a plugin's docstring."""
    return (plugin.__doc__ or "").strip().partition("\n")[0]


class Option(NamedTuple):
    """One option of a plugin, for people."""

    name: str
    default: str
    help: str


def options(plugin: Any) -> list[Option]:
    """A plugin's options with their defaults and the docstrings below them."""
    if not dataclasses.is_dataclass(plugin):
        found = inspect.signature(plugin).parameters.values()
        return [Option(p.name, "" if p.default is p.empty else repr(p.default), "") for p in found]
    helps = _docstrings(plugin)
    found_options = []
    for field in dataclasses.fields(plugin):
        if field.init:
            default = "required" if field.default is dataclasses.MISSING else repr(field.default)
            if field.default_factory is not dataclasses.MISSING:
                default = repr(field.default_factory())
            found_options.append(Option(field.name, default, helps.get(field.name, "")))
    return found_options


def explain(error: ValidationError, where: str = "") -> str:
    """A pydantic error as one sentence: each key's path, what was expected, what was got."""
    parts = []
    for item in error.errors():
        path = ".".join(str(p) for p in (where, *item["loc"]) if str(p))
        message = item["msg"].removeprefix("Value error, ")
        got = item["input"]
        shown = "" if isinstance(got, Mapping) or item["type"] == "missing" else f", got {got!r}"
        parts.append(f"{path or 'experiment'}: {message[:1].lower()}{message[1:]}{shown}")
    return "; ".join(parts)


def _docstrings(plugin: Any) -> dict[str, str]:
    """The string literal below each annotated field, of the class and of those it inherits from."""
    found: dict[str, str] = {}
    for cls in reversed(plugin.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError):  # a class without a source file
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in pairwise(body):
            named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                found[field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return found


def _imported(kind: str, name: str) -> Any:
    module, _, attribute = name.partition(":")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # the user's own file beside the experiment
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0] and error.name != module:
            raise
        raise ConfigError(
            f"{kind} {name!r}: no module {module!r} in {here} or among the installed packages"
        ) from None
    except AttributeError:
        raise ConfigError(f"{kind} {name!r}: module {module!r} has no {attribute!r}") from None


def _folded(name: str) -> str:
    plain = "".join(c for c in name.lower() if c not in " -_")
    return plain.removesuffix("partitioner")


def _origin(plugin: Any) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__}"
