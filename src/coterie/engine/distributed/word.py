"""Word that a process of a run leaves for the one that launched it: its mistake, and the run folder."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from coterie.core.errors import CoterieError

__all__ = ["FOLDER", "OUT", "Word", "begun", "read_word", "told"]

FOLDER = "COTERIE_LAUNCHED"
"""Environment: the folder in which processes leave word."""
OUT = "out"
FAILED = 2


class Word(NamedTuple):
    """The word of a process about its mistake."""

    text: str
    lost: bool
    """True if it only missed another process."""


def read_word(folder: Path, rank: int) -> Word | None:
    """Read the word that a process left."""
    file = _file(folder, rank)
    return Word(*json.loads(file.read_text())) if file.exists() else None


@contextmanager
def told() -> Iterator[None]:
    """Leave word of an error, and end, in a process that was launched; it ends with the one that did so."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        yield
        return
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        yield
    except (CoterieError, MemoryError, RuntimeError) as error:
        text = str(error) if isinstance(error, CoterieError) else f"{type(error).__name__}: {error}"
        word = Word(text.strip().partition("\n")[0], type(error).__name__ == "RankLostError")
        _file(Path(folder), int(os.environ["RANK"])).write_text(json.dumps(word))
        sys.exit(FAILED)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def begun(out: Path) -> None:
    """Leave word of the run folder, from which the run can be resumed from now on."""
    if FOLDER in os.environ:
        (Path(os.environ[FOLDER]) / OUT).write_text(str(out))


def _leave_with_parent() -> None:
    """End this process when standard input is closed: the one that launched it is gone."""
    while os.read(0, 1):
        pass
    os._exit(1)
