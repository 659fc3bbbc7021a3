"""Everything that coterie raises on purpose, as one tree.

    CoterieError
    ├── ConfigError          a value, name or combination that cannot be run
    │   ├── UnknownNameError no plugin of that name
    │   └── NoRoomError      more than memory holds
    ├── DataError            a data file or a split that cannot be had
    ├── ModelError           a model that cannot be trained or used here
    └── RunError             a run folder that cannot be used
        └── CheckpointError  a checkpoint that is damaged or of another experiment

A message is one sentence or two: what, where, expected, got, remedy. What can be done about a kind of error
besides is in the docstring of its class: `coterie explain ConfigError`, and the page of errors in the
documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

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

LISTED = 60
"""Most known names that an error lists."""


class CoterieError(Exception):
    """A mistake that the user can mend; the command line shows it without a traceback.

    Remedy: what the sentence itself says. `except coterie.CoterieError` catches all that coterie raises
    on purpose; anything else with a traceback into coterie is a defect, please report it.
    """


class ConfigError(CoterieError):
    """A value, name or combination of settings that cannot be run.

    Remedy: change the key that the sentence names, in the TOML file, with `--set KEY=VALUE`, or in
    `Experiment(...)`. `coterie new mine` writes a file with every key, its default and its meaning;
    `coterie check mine.toml` tries settings, data and one step of each method before you wait for a run.
    """


class UnknownNameError(ConfigError):
    """No plugin, key or preset of that name; lists the known ones and suggests the nearest.

    `notes`: sentences about why the name may be missing; `path`: what stands before the name where it was
    found, such as `train.`; `of`: what it would belong to.

    Remedy: take one of the names in the sentence; `coterie ls` lists all, `coterie ls algorithms kd-pdfl`
    the options of one. Something of your own is named "file:Class", and is looked for beside the TOML
    file and then in the working folder.
    """

    def __init__(
        self,
        what: str,
        name: str,
        known: Iterable[str],
        notes: Sequence[str] = (),
        path: str = "",
        of: str = "",
    ) -> None:
        names = sorted(known, key=str.lower)
        folded = {n.lower(): n for n in names}
        near = get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
        hint = f" Did you mean {folded[near[0]]!r}?" if near else ""
        told = "".join(f" Note: {note}" for note in notes)
        whose = f" of {of}" if of else ""
        rest = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
        listed = f"{', '.join(names[:LISTED]) or 'none'}{rest}"
        super().__init__(f"unknown {what} {path + name!r}{whose}; known: {listed}.{hint}{told}")
        self._given = (what, name, names, notes, path, of)

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[Any, ...]]:
        return type(self), self._given  # so that it can cross to another process


class NoRoomError(ConfigError):
    """More clients, models or samples than memory holds.

    Remedy: fewer or smaller `data.clients`, `data.sizes`, `model`, methods or seeds; seeds one after the
    other need less than all at once. `coterie check` says beforehand what an experiment takes, `coterie
    doctor` what there is.
    """


class DataError(CoterieError):
    """A data file that cannot be read, or a split that the data cannot give.

    Remedy: `coterie data ls` shows which data sets are here and where they are looked for (`--data`,
    $COTERIE_DATA), `coterie data fetch NAME` gets one, `coterie data verify` finds damaged files. For a
    file of your own: numbers in every column but the labels, no gaps, and enough samples for every
    client.
    """


class ModelError(CoterieError):
    """A model that cannot be trained or used here: a layer, a shape, a label range, a file.

    Remedy: the sentence names the layer, and the line of your own code if it raised something. A model
    takes inputs `[batch, ...]`, puts out one number for each class (or what the task needs) and draws
    nothing at random outside dropout; `coterie check` tries it in a second.
    """


class RunError(CoterieError):
    """A run folder that is in use, missing, damaged, or not writable.

    Remedy: `coterie ls runs` lists the runs there are. A folder that has a run is never overwritten:
    continue it with `coterie run --resume --out FOLDER`, choose another `--out`, or delete it yourself.
    """


class CheckpointError(RunError):
    """A checkpoint that is damaged or belongs to another experiment.

    Remedy: resume with the experiment, the data and the version of coterie that began the run. A damaged
    checkpoint cannot be mended: run the experiment again into another folder; the same seeds give the
    same run.
    """


def out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out: by a class, or in words, as torch does on the processor."""
    if isinstance(error, RuntimeError):
        return re.search("allocate|out of memory", str(error)) is not None
    return isinstance(error, MemoryError)
