"""Word that a process of a run leaves for the one that launched it: its mistake, and the run folder."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.core.errors import CoterieError

__all__ = ["FOLDER", "OUT", "begun", "told", "word_file"]

FOLDER = "COTERIE_LAUNCHED"
"""Environment: the folder in which processes leave word."""
OUT = "out"
FAILED = 2


def word_file(folder: Path, rank: int) -> Path:
    """Name the file in which a process leaves word of its mistake."""
    return folder / f"rank-{rank}.json"


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
        word = {"text": text.strip().partition("\n")[0], "lost": type(error).__name__ == "RankLostError"}
        word_file(Path(folder), int(os.environ["RANK"])).write_text(json.dumps(word))
        sys.exit(FAILED)


def begun(out: Path) -> None:
    """Leave word of the run folder, from which the run can be resumed from now on."""
    if FOLDER in os.environ:
        (Path(os.environ[FOLDER]) / OUT).write_text(str(out))


def _leave_with_parent() -> None:
    """End this process when standard input is closed: the one that launched it is gone."""
    while os.read(0, 1):
        pass
    os._exit(1)
