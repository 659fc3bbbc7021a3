"""Launching of the processes of a run on this machine, and what they leave behind when one of them ends.

Ctrl-C reaches this process only, which passes it on to the lead; if this process is gone, so are the others.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, NamedTuple

from coterie.core.errors import RunError
from coterie.core.support.signals import stop_on_signal
from coterie.engine.distributed.environment import STORE
from coterie.engine.distributed.word import FOLDER, OUT, Word, read_word

__all__ = ["Ended", "again", "launch", "what_happened", "words_of"]

GRACE = 10.0
"""Seconds for the others to notice that one is gone."""
TURN = 0.2
"""Seconds between two looks at whether the run is to stop."""
INTERRUPTED = 130
"""The exit code of a run that was asked to stop and has saved itself."""
START = "from coterie.cli import main; main()"


def launch(words: Sequence[str], devices: int, *, quiet: bool = False) -> int:
    """Run `coterie` with these words in so many processes here, and wait for them.

    Returns the exit code: 0, or 130 if the run was asked to stop and has saved itself. `quiet`: of the lead,
    nothing is shown.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-ranks-") as name, stop_on_signal() as asked:
        folder, ends = Path(name), SimpleQueue[int]()
        ranks = [_Rank(rank, devices, words, folder, ends, quiet) for rank in range(devices)]
        try:
            _wait(ranks, ends, asked)
        finally:
            for one in ranks:
                one.end()
        if all(one.code == 0 for one in ranks):
            return 0
        if asked.is_set() or ranks[0].code == INTERRUPTED:
            return INTERRUPTED
        ended = {r.rank: Ended.of(r.code, folder, r.rank, r.log) for r in ranks if not r.killed}
        raise RunError(what_happened(ended, again(folder, devices)))


def words_of(options: Mapping[str, object]) -> list[str]:
    """Write options as words of the command line, but for those that are None.

    >>> words_of({"out": "runs/mine", "plots": False, "models": None, "resume": True})
    ['--out', 'runs/mine', '--no-plots', '--resume']
    """
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif value is not None:
            words += [f"--{name}", str(value)]
    return words


def again(folder: Path, devices: int) -> str | None:
    """Write the command that goes on with a run, if it had begun."""
    out = folder / OUT
    if not out.exists():
        return None
    return shlex.join(["coterie", "run", "--resume", "--out", out.read_text(), "--devices", str(devices)])


class _Rank:
    """One process of a run, and a thread that waits for its end."""

    def __init__(
        self, rank: int, count: int, words: Sequence[str], folder: Path, ended: SimpleQueue[int], quiet: bool
    ) -> None:
        self.rank, self.log = rank, folder / f"rank-{rank}.log"
        self.killed = False
        """Ended by us, because of another one."""
        output: IO[bytes] | None = None if rank == 0 and not quiet else self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, *words],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**_environment(rank, count, folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # which Ctrl-C in a terminal does not reach
        )
        if output:
            output.close()
        self._thread = threading.Thread(target=self._follow, args=[ended.put], name=f"rank {rank}")
        self._thread.start()

    @property
    def code(self) -> int:
        """The exit code, negative for a signal."""
        return self.process.returncode

    def end(self) -> None:
        """Kill the process if it is there still."""
        if self.process.poll() is None:
            self.killed = True
            self.process.kill()
        self._thread.join()
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()

    def _follow(self, tell: Callable[[int], None]) -> None:
        self.process.wait()
        tell(self.rank)


def _environment(rank: int, count: int, folder: Path) -> dict[str, str]:
    """Make the environment of a rank, as torchrun would; a file is where they find each other."""
    threads = max(1, (os.cpu_count() or 1) // count)
    own = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        STORE: str(folder / "store"),
        FOLDER: str(folder),
    }
    usual = {"OMP_NUM_THREADS": str(threads)}
    if sys.platform == "linux":
        usual["GLOO_SOCKET_IFNAME"] = "lo"  # nobody else may connect
    return {**usual, **os.environ, **own}


def _wait(ranks: Sequence[_Rank], ended: SimpleQueue[int], asked: threading.Event) -> None:
    """Wait for all, or, once one has failed, for as long as others may take to notice."""
    left, passed_on, patience = len(ranks), False, float("inf")
    while left and patience > 0:
        try:
            rank = ended.get(timeout=TURN)
        except Empty:
            patience -= TURN
        else:
            left -= 1
            if ranks[rank].code:
                patience = min(patience, GRACE)
        if asked.is_set() and not passed_on:
            ranks[0].process.send_signal(signal.SIGTERM)
            passed_on = True


class Ended(NamedTuple):
    """End of one process of a run."""

    code: int
    """Exit code, negative for a signal."""
    word: Word | None
    """The word that it left."""
    last: str
    """The last line that it printed."""

    @classmethod
    def of(cls, code: int, folder: Path, rank: int, log: Path) -> Ended:
        """Read what a process left behind."""
        last = log.read_text(errors="replace").strip().rpartition("\n")[2] if log.exists() else ""
        return cls(code, read_word(folder, rank), last)


def what_happened(ended: Mapping[int, Ended], again: str | None) -> str:
    """Say which process failed first and why; those that only missed another one come last.

    `again`: the command that goes on, if there is something to go on from.
    """
    failed = {rank: one for rank, one in ended.items() if one.code}
    rank = min(failed, key=lambda rank: (bool((word := failed[rank].word) and word.lost), rank))
    code, word, last = failed[rank]
    if word:
        text = word.text if rank == 0 else f"rank {rank} failed: {word.text}"
    elif code < 0:
        text = f"rank {rank} was killed by signal {-code}"
    else:
        text = f"rank {rank} ended with exit code {code}: {last}"
    if again is None:
        return text
    return f"{text}; all up to the last checkpoint is saved; go on, on any number of devices, with: {again}"
