"""Processes that carry runs together, started once for many tests."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.core.errors import CoterieError
from coterie.engine.distributed.environment import STORE
from coterie.engine.ranks import Ranks

__all__ = ["Group", "started"]


class Group:
    """Some processes that make the same calls at the same time."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
        self.processes, self.folder = processes, folder
        self._calls = 0

    def call(self, function: str, *given: Any, each: Sequence[Any] = ()) -> list[Any]:
        """What `module:function(ranks, *given)` gives in each; `each`: what is given to one process only.

        An error that coterie raises is given back, not raised.
        """
        self._calls += 1
        files = [self.folder / f"call-{self._calls}-{rank}" for rank in range(len(self.processes))]
        for rank, (process, file) in enumerate(zip(self.processes, files, strict=True)):
            file.write_bytes(pickle.dumps((function, [*given, *each[rank : rank + 1]])))
            assert process.stdin
            process.stdin.write(f"{file}\n".encode())
            process.stdin.flush()
        for process in self.processes:
            assert process.stdout
            assert process.stdout.readline(), "a process ended"
        return [pickle.loads(file.read_bytes()) for file in files]


@contextmanager
def started(count: int, folder: Path) -> Iterator[Group]:
    """So many processes of one thread each, which end with the block."""
    own = {"WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1", STORE: str(folder / "store")}
    path = os.pathsep.join(filter(None, sys.path))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own, "RANK": str(rank), "PYTHONPATH": path},
        )
        for rank in range(count)
    ]
    try:
        yield Group(processes, folder)
    finally:
        for process in processes:
            process.communicate()  # closes its standard input, at which it ends


def serve() -> None:
    """Do what the files say that standard input names, with the other processes."""
    from coterie.engine.distributed.joined import joined

    with joined("cpu", "tests") as ranks:
        for line in sys.stdin:
            file = Path(line.strip())
            file.write_bytes(pickle.dumps(_answer(ranks, *pickle.loads(file.read_bytes()))))
            print(flush=True)


def _answer(ranks: Ranks, function: str, given: Sequence[Any]) -> Any:
    module, _, name = function.partition(":")
    try:
        return getattr(importlib.import_module(module), name)(ranks, *given)
    except CoterieError as error:
        return error
