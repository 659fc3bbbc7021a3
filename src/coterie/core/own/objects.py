"""Objects of Python in the place of names: what they are called, a fingerprint of each, and where they are
held.

What a module of the user's own has at its top level is called by its path, `mine:MyNet`, and is plain text
from then on. Anything else is called `object NAME FINGERPRINT`, and held for as long as an experiment needs
it: another process that reads the name knows what it was, but does not have it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from coterie.core.errors import ConfigError
from coterie.core.support.toml import texts

__all__ = ["Held", "digest", "hold", "import_path", "is_object", "keep", "recall"]

_OBJECT = "object "
"""Beginning of the name of what has no path."""


class Held:
    """One object; it is known by its name for as long as somebody has this."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __reduce__(self) -> NoReturn:
        raise ConfigError(f"{self.name!r} lives in the process that made it and cannot be sent to another")

    def __deepcopy__(self, memo: dict[int, Any]) -> Held:
        return self


_held: WeakValueDictionary[str, Held] = WeakValueDictionary()


def hold(called: str, value: Any, fingerprint: str) -> Held:
    """Hold an object under a name of its own; the same content is held once."""
    name = f"{_OBJECT}{called} {fingerprint}"
    return _held.setdefault(name, Held(name, value))


def is_object(name: str) -> bool:
    """Tell whether a name stands for an object without a path."""
    return name.startswith(_OBJECT)


def keep(values: Any) -> tuple[Held, ...]:
    """Collect what is held of the objects that nested tables and lists name."""
    names = {text for text in texts(values) if is_object(text)}
    return tuple(held for name in sorted(names) if (held := _held.get(name)) is not None)


def recall(name: str) -> Any:
    """Return the object of that name."""
    if (held := _held.get(name)) is None:
        _, called, fingerprint = name.split(" ", 2) if name.count(" ") > 1 else (name, name, "?")
        raise ConfigError(
            f"{called!r} (fingerprint {fingerprint}) was given as an object of Python, which this process "
            "does not have. In the script or notebook that has it, go on with run(experiment, out, "
            "resume=True) or take a trained model out with Run(out).export(...); commands need it in a "
            "module, and its name there"
        )
    return held.value


def import_path(value: Any) -> str | None:
    """Name a class or function by module and name, if another process can import it by that."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    there = sys.modules.get(module) if isinstance(module, str) and module != "__main__" else None
    return f"{module}:{name}" if there is not None and getattr(there, name, None) is value else None


def digest(value: Any) -> str:
    """Hash what an object is made of: numbers, settings, and the code of its own, not of what that calls."""
    sha = hashlib.sha256()
    for piece in _pieces(value, set()):
        sha.update(len(piece).to_bytes(8, "little"))
        sha.update(piece)
    return sha.hexdigest()[:16]


def _pieces(value: Any, seen: set[int]) -> Iterator[bytes]:
    if value is None or isinstance(
        value, bool | int | float | complex | str | bytes | Path | types.EllipsisType
    ):
        yield f"{type(value).__name__} {value!r}".encode()
        return
    if id(value) in seen:
        return
    seen = {*seen, id(value)}
    if inspect.isclass(value):
        yield f"{value.__module__} {value.__qualname__}".encode()
        own = {} if import_path(value) else {k: v for k, v in vars(value).items() if _matters(k, v)}
        parts: Any = (value.__bases__ if own else (), own)
    elif hasattr(value, "state_dict") and hasattr(value, "named_modules"):  # a model
        yield repr(value).encode()
        parts = (type(value), dict(value.state_dict()))
    elif hasattr(value, "detach") and hasattr(value, "numpy"):  # a tensor
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        from torch import uint8  # which has loaded long ago, where there is a tensor

        yield value.detach().cpu().contiguous().flatten().view(uint8).numpy().tobytes()
        return
    elif hasattr(value, "__array_interface__") and hasattr(value, "dtype"):  # an array
        yield f"{value.dtype} {value.shape}".encode()
        if value.dtype != object:
            yield value.tobytes()
            return
        parts = tuple(value.ravel().tolist())
    elif isinstance(value, Mapping):
        parts = tuple((str(k), v) for k, v in value.items())
    elif isinstance(value, list | tuple):
        yield f"{len(value)}".encode()
        for part in value:
            yield from _pieces(part, seen)
        return
    elif isinstance(value, set | frozenset):
        parts = tuple(sorted(map(repr, value)))
    elif isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
    elif isinstance(value, types.FunctionType):
        yield _code(value)
        cells = (value.__closure__ or (), value.__defaults__, value.__kwdefaults__)
        parts = ([_contents(cell) for cell in cells[0]], *cells[1:])
    elif dataclasses.is_dataclass(value):
        parts = (type(value), {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    elif isinstance(value, types.ModuleType):
        parts = value.__name__
    else:
        parts = type(value) if not isinstance(value, staticmethod | classmethod) else value.__func__
    yield from _pieces(parts, seen)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _matters(name: str, value: Any) -> bool:
    """Tell whether something of a class was written by its author, and does not change with use."""
    plain = isinstance(value, bool | int | float | str | list | tuple | dict | staticmethod | classmethod)
    written = isinstance(value, types.FunctionType) and value.__code__.co_filename != "<string>"
    return written or (plain and not (name.startswith("__") and name.endswith("__")))


def _code(function: types.FunctionType) -> bytes:
    """Take the source of a function; of one that has none, or shares its lines, the code it became."""
    if function.__name__ != "<lambda>":
        try:
            return textwrap.dedent(inspect.getsource(function)).encode()
        except (OSError, TypeError):
            pass
    return b"".join(_compiled(function.__code__))


def _compiled(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _compiled(constant)
        else:
            yield repr(constant).encode()
