"""Plugins: one file each, found by name, no list to edit.

A plugin of a kind lives in the folder of that kind (`coterie/plugins/algorithms/kd_pdfl.py`) and registers
itself. Names are compared without case, blanks, dashes and underscores, so `kd_pdfl` finds
`KD-PDFL`. A name with a colon, `"pkg.mod:Name"`, is imported from the user's own code, which may lie
beside the settings (`coterie.core.own.home`). Installed packages name modules that register plugins by entry
points of the group `coterie.plugins`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import math
import os
import pkgutil
import sys
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from coterie.core.errors import ConfigError, CoterieError, UnknownNameError, out_of_memory
from coterie.core.own.home import beside, home
from coterie.core.own.objects import is_object, recall
from coterie.core.support.values import allowed

__all__ = [
    "KINDS",
    "Option",
    "build",
    "describe",
    "describe_error",
    "describe_type",
    "explain",
    "import_packages",
    "listed",
    "normalise_name",
    "options",
    "package_of",
    "register",
    "registered",
    "resolve",
    "user_code",
    "written",
]

KINDS = {
    "algorithm": "algorithms",
    "distance": "distances",
    "channel": "channels",
    "topology": "topologies",
    "dataset": "datasets",
    "partition": "partitions",
    "shift": "shifts",
    "attack": "attacks",
    "model": "models",
    "task": "tasks",
}
"""Each kind of plugin and the folder its files live in."""

ENTRY_POINTS = "coterie.plugins"
"""Group of entry points: modules of installed packages that register plugins on being imported."""

_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Folders in which the user need not look for a mistake, unless the plugin lies there."""
_NEVER = (
    os.path.join(Path(__file__).parents[1], ""),
    "<frozen ",
    *(os.path.join(folder, "torch", "") for folder in _LIBRARIES),
)
"""Beginnings of paths at which the user need never look: coterie, the import system and torch."""
_plugins: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
T = TypeVar("T")


def register(kind: str, name: str) -> Callable[[T], T]:
    """Make a class or function known under `name` (a decorator); its docstring's first line describes it."""
    if kind not in _plugins:
        raise UnknownNameError("kind of plugin", kind, _plugins)

    def keep(plugin: T) -> T:
        there = next(
            (p for n, p in _plugins[kind].items() if normalise_name(n) == normalise_name(name)), None
        )
        if there is not None and _origin(there) != _origin(plugin):
            raise ConfigError(
                f"two {KINDS[kind]} are called {name!r}: {_origin(there)} and {_origin(plugin)}"
            )
        _plugins[kind][name] = plugin
        return plugin

    return keep


def registered(kind: str) -> dict[str, Any]:
    """Collect all plugins of a kind by name; import its folder, and installed packages, on first use."""
    _import_folder(KINDS[kind])
    import_packages()
    return dict(sorted(_plugins[kind].items(), key=lambda item: item[0].lower()))


@functools.cache
def _import_folder(folder: str) -> None:
    package = importlib.import_module(f"coterie.plugins.{folder}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


@functools.cache
def _packages() -> dict[str, str]:
    """Name the package and version behind each module of an entry point."""
    return {
        point.value.partition(":")[0].strip(): f"{point.dist.name} {point.dist.version}"
        for point in entry_points(group=ENTRY_POINTS)
        if point.dist
    }


@functools.cache
def import_packages() -> tuple[str, ...]:
    """Import what installed packages register; give a sentence for each module that cannot be imported."""
    for folder in KINDS.values() if _packages() else ():  # so that of two equal names ours is the first
        _import_folder(folder)
    errors = []
    for module, package in _packages().items():
        try:
            with user_code(f"module {module!r} cannot be imported"):
                importlib.import_module(module)
        except CoterieError as error:
            errors.append(f"plugins of the package {package} are missing: {error}")
    return tuple(errors)


def package_of(plugin: Any) -> str | None:
    """Name the installed package and version that brings a plugin; None: coterie, or the user's own code."""
    root = plugin.__module__.partition(".")[0]
    return next((name for module, name in _packages().items() if module.partition(".")[0] == root), None)


def resolve(kind: str, name: str) -> Any:
    """Find the plugin called `name`, import what `"pkg.mod:Name"` names, or take an object that is held."""
    if is_object(name):
        return recall(name)
    if ":" in name:
        return _imported(kind, name)
    plugins = registered(kind)
    for candidate, plugin in plugins.items():
        if normalise_name(name) in (normalise_name(candidate), normalise_name(plugin.__name__)):
            return plugin
    raise UnknownNameError(kind, name, plugins, import_packages())


def build(kind: str, name: str, options: Mapping[str, Any], where: str) -> Any:
    """Make the plugin's frozen dataclass with validated options; errors carry the path of the key.

    A plain function from the user's own code is taken too, and as a model an `nn.Module` class, with the
    options bound.
    """
    with user_code(f"{where}: {kind} {name!r} cannot be imported"):
        plugin = resolve(kind, name)
    if called := inspect.isfunction(plugin) or (kind == "model" and _is_module(plugin)):
        fields: Mapping[str, Any] = inspect.signature(plugin).parameters
    elif inspect.isclass(plugin) and dataclasses.is_dataclass(plugin):
        fields = {f.name: f for f in dataclasses.fields(plugin) if f.init}
    else:
        raise ConfigError(
            f"{where}: {kind} {name!r} must be a dataclass whose fields are its options, or a function"
            f"{', or an nn.Module class' if kind == 'model' else ''}, got {_called(plugin)}"
        )
    for key, value in options.items():
        if key not in fields:
            raise UnknownNameError("option", key, fields, path=f"{where}.", of=f"{kind} {name!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}.{key}: expected a finite number, got {value}")
    if called:
        return functools.partial(plugin, **options)
    try:
        made = _validator(plugin).validate_python(dict(options))
    except ValidationError as error:
        raise ConfigError(explain(error, where, options)) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except Exception as error:  # the user's own class: abstract, or with fields that no option can fill
        raise ConfigError(f"{where}: {kind} {name!r} cannot be made: {describe_error(error)}") from error
    for key, value in options.items():
        if isinstance(value, bool | str) and type(getattr(made, key, value)) in (int, float):
            raise ConfigError(f"{where}.{key}: expected a number, got {value!r}")
    return made


@functools.lru_cache(maxsize=256)
def _validator(plugin: type) -> TypeAdapter[Any]:
    """Make what validates the options of a plugin; pydantic takes milliseconds for each."""
    return TypeAdapter(plugin)


def listed(kind: str) -> dict[str, str]:
    """Read the name and first line of each plugin of a kind from the files: torch loads for seconds.

    Plugins of installed packages, if there are any, are imported.
    """
    found = {}
    for file in (Path(__file__).parents[1] / "plugins" / KINDS[kind]).glob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            for call in getattr(node, "decorator_list", []):
                match call:
                    case ast.Call(func=ast.Name(id="register"), args=[_, ast.Constant(value=str(name))]):
                        found[name] = (ast.get_docstring(node) or "").partition("\n")[0]  # type: ignore[arg-type]
    for name, plugin in registered(kind).items() if _packages() else ():
        if package := package_of(plugin):
            found[name] = f"{describe(plugin)} ({package})"
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def describe(plugin: Any) -> str:
    """Take the first line of a plugin's docstring."""
    return (plugin.__doc__ or "").strip().partition("\n")[0]


class Option(NamedTuple):
    """One option of a plugin, for people."""

    name: str
    default: str
    values: str
    """Values that the option may take."""
    help: str


def options(plugin: Any) -> list[Option]:
    """List a plugin's options with their defaults, their values and the docstrings below them."""
    values = {name: allowed(hint) for name, hint in _hints(plugin).items()}
    if not dataclasses.is_dataclass(plugin):
        found = inspect.signature(plugin).parameters.values()
        return [
            Option(p.name, "" if p.default is p.empty else repr(p.default), values.get(p.name, ""), "")
            for p in found
        ]
    helps = _docstrings(plugin)
    found_options = []
    for field in dataclasses.fields(plugin):
        if field.init:
            default = "required" if field.default is dataclasses.MISSING else repr(field.default)
            if field.default_factory is not dataclasses.MISSING:
                default = repr(field.default_factory())
            help_ = helps.get(field.name, "")
            found_options.append(Option(field.name, default, values.get(field.name, ""), help_))
    return found_options


def explain(error: ValidationError, where: str = "", values: Any = None) -> str:
    """Put a pydantic error into one sentence: each key's path, what was expected, what was got.

    `values` is what was validated: parts of a path that are not in it name branches of a union.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for item in error.errors():
        lacking = [str(item["loc"][-1])] if item["type"] == "missing" else []
        path = ".".join([where, *written(item["loc"], values), *lacking]).strip(".")
        said = found.setdefault((path or "experiment", _got(item)), [])
        message = _in_words(item)
        said.append(message.removeprefix("input should be ") if said else message)
    return "; ".join(f"{path}: {' or '.join(said)}{got}" for (path, got), said in found.items())


_WORDS = {
    "bool": "input should be true or false",
    "dict": "input should be a table of keys and values",
    "list": "input should be a list",
    "model": "input should be a table of keys and values",
    "path": "input should be a path",
    "string": "input should be text",
    "too_long": "input should be a list of at most {max_length}",
    "tuple": "input should be a list",
    "unexpected_keyword_argument": "there is no such option",
    "union_tag_invalid": "input should be one of {expected_tags}",
    "union_tag_not_found": "the name is missing",
}
"""Words for what pydantic says in terms of Python, by the kind of error."""


def _in_words(item: Any) -> str:
    """Reword one error of pydantic's, whose second clause says how pydantic tried to read the input."""
    kind = item["type"].removesuffix("_type").removesuffix("_parsing")
    if kind in _WORDS:
        return _WORDS[kind].format(**item.get("ctx", {}))
    message: str = item["msg"].removeprefix("Value error, ")
    if kind in ("int", "int_from_float", "float"):
        message = message.partition(",")[0]
    return f"{message[:1].lower()}{message[1:]}"


def _got(item: Any) -> str:
    kind, given = item["type"], item["input"]
    if kind == "union_tag_invalid":
        return f", got {item['ctx']['tag']!r}"
    if kind == "missing" or (isinstance(given, Mapping) and kind in ("value_error", "union_tag_not_found")):
        return ""  # the table as a whole is not the mistake
    return f", got {'a table' if isinstance(given, Mapping) else _brief(repr(given))}"


@contextmanager
def user_code(what: str, kind: type[CoterieError] = ConfigError) -> Iterator[None]:
    """Turn what the user's own code raises in here into an error of ours: `what`, why, and where."""
    try:
        yield
    except CoterieError:
        raise
    except (Exception, SystemExit) as error:  # a script that is imported may end with sys.exit()
        if out_of_memory(error):
            raise
        raise kind(f"{what}: {describe_error(error)}") from error


def describe_type(given: object) -> str:
    """Describe a value of the user's own code: `float32 of shape [4, 1]`, or the name of its type."""
    from torch import Tensor

    if not isinstance(given, Tensor):
        return type(given).__name__
    return f"{str(given.dtype).removeprefix('torch.')} of shape {list(given.shape)}"


def describe_error(error: BaseException) -> str:
    """Say what went wrong in the user's own code, and name the line of it that came last."""
    what = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_NEVER)]
    own = [f for f in frames if not f.filename.startswith(_LIBRARIES)] or frames
    return f"{what} ({own[-1].filename}, line {own[-1].lineno})" if own else what


def _is_module(plugin: Any) -> bool:
    from torch import nn  # here, where the plugin has loaded it

    return inspect.isclass(plugin) and issubclass(plugin, nn.Module)


def _called(plugin: Any) -> str:
    return f"the class {plugin.__name__}" if inspect.isclass(plugin) else f"a {type(plugin).__name__}"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def written(loc: tuple[int | str, ...], values: Any) -> list[str]:
    """Keep the parts of a path that the user wrote."""
    path = []
    for part in loc:
        keys = range(len(values)) if isinstance(values, list | tuple) else values
        if isinstance(keys, Mapping | range) and part in keys:
            path.append(str(part))
            values = values[part]
    return path


def _hints(plugin: Any) -> dict[str, Any]:
    try:
        return get_type_hints(plugin, include_extras=True)
    except (NameError, TypeError):  # names that are there for a type checker only
        return {}


def _docstrings(plugin: Any) -> dict[str, str]:
    """Collect the string literal below each annotated field, of the class and of those it inherits from."""
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
    if not module or module.startswith("."):
        raise ConfigError(f"{kind} {name!r}: expected 'pkg.mod:Name', an absolute module and a name in it")
    # The user's own file: beside the settings, or where the command is given.
    places = dict.fromkeys([*([str(folder)] if (folder := home()) else []), os.getcwd()])
    sys.path[:0] = [place for place in places if place not in sys.path]
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a package that the user's code needs
            raise
        raise ConfigError(
            f"{kind} {name!r}: no module {module!r} in {', '.join(places)} or among the installed packages"
        ) from None
    there = beside(Path(*module.split(".")).with_suffix(".py"))
    if there is not None and (file := found.__file__) and not there.samefile(file):
        raise ConfigError(
            f"{kind} {name!r}: the module {module!r} is {file} in this process, not {there}; give one of "
            "them another name"
        )
    try:
        return getattr(found, attribute)
    except AttributeError:
        raise ConfigError(f"{kind} {name!r}: module {module!r} has no {attribute!r}") from None


@functools.cache
def normalise_name(name: str) -> str:
    """Reduce a name to what is compared of it."""
    plain = "".join(c for c in name.lower() if c not in " -_")
    return plain.removesuffix("partitioner")


def _origin(plugin: Any) -> str:
    return f"{plugin.__module__}.{plugin.__qualname__}"
