"""Everything that coterie raises on purpose, as one tree.

    CoterieError
    ├── ConfigError          a value, name or combination that cannot be run
    │   ├── UnknownNameError no plugin of that name
    │   └── NoRoomError      more than memory holds
    ├── DataError            a data file or a split that cannot be had
    ├── ModelError           a model that cannot be trained or used here
    └── RunError             a run folder that cannot be used
        └── CheckpointError  a checkpoint that is damaged or of another experiment

A message is one sentence or two: what, where, expected, got, remedy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = [
    "CheckpointError",
    "ConfigError",
    "CoterieError",
    "DataError",
    "ModelError",
    "NoRoomError",
    "RunError",
    "UnknownNameError",
    "out_of_memory",
]


class CoterieError(Exception):
    """A mistake that the user can mend; the command line shows it without a traceback."""


class ConfigError(CoterieError):
    """A value, name or combination of settings that cannot be run."""


class UnknownNameError(ConfigError):
    """No plugin, key or preset of that name; lists the known ones and suggests the nearest.

    `notes`: sentences about why the name may be missing.
    """

    def __init__(self, what: str, name: str, known: Iterable[str], notes: Sequence[str] = ()) -> None:
        names = sorted(known, key=str.lower)
        folded = {n.lower(): n for n in names}
        near = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        hint = f" Did you mean {folded[near[0]]!r}?" if near else ""
        told = "".join(f" Note: {note}" for note in notes)
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(names) or 'none'}.{hint}{told}")
        self._given = (what, name, names, notes)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, list[str], Sequence[str]]]:
        return type(self), self._given  # so that it can cross to another process


class NoRoomError(ConfigError):
    """More clients, models or samples than memory holds."""


class DataError(CoterieError):
    """A data file that cannot be read, or a split that the data cannot give."""


class ModelError(CoterieError):
    """A model that cannot be trained or used here: a layer, a shape, a label range, a file."""


class RunError(CoterieError):
    """A run folder that is in use, missing, or not writable."""


class CheckpointError(RunError):
    """A checkpoint that is damaged or belongs to another experiment."""


def out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out: by a class, or in words, as torch does on the processor."""
    if isinstance(error, RuntimeError):
        return re.search("allocate|out of memory", str(error)) is not None
    return isinstance(error, MemoryError)
