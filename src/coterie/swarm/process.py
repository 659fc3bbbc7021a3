"""Process of one peer: started, watched, stopped.

Peers are forked from a process that has loaded everything and done nothing (`multiprocessing`'s fork
server), so that eight of them start in a second and not in half a minute. Each does what `coterie peer
run PEER.toml` does, and leaves when the swarm is gone, however that ended.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.process
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coterie.core.errors import CoterieError
from coterie.peer.errors import PeerError, Unreachable
from coterie.peer.observability import status_client

__all__ = ["PeerProcess", "start_forkserver"]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["coterie.swarm.preload"])


def start_forkserver() -> None:
    """Begin to load what peers need, while something else is done."""
    with _one_thread_each(), _deaf_to_ctrl_c():
        multiprocessing.forkserver.ensure_running()


class PeerProcess:
    """`coterie peer run PEER.toml`, with its log beside that file."""

    def __init__(
        self, name: str, file: Path, data: Path | None = None, prepare: Callable[[], None] | None = None
    ) -> None:
        """`prepare`: called in the new process before anything else; it must be fit for pickling."""
        self.name, self.file, self.data, self.prepare = name, file.resolve(), data, prepare
        self.log = self.file.parent / "log.jsonl"
        self.state = self.file.parent / "state"
        self.stuck = False
        """True if it did not leave when it should have, and was killed."""
        self._process: multiprocessing.process.BaseProcess | None = None

    def start(self) -> None:
        """Start, or start again."""
        with contextlib.suppress(FileNotFoundError):  # left by one that was killed
            (self.state / status_client.ADDRESS).unlink()
        self.log.touch(0o600)
        given = self.file, self.data and self.data.resolve(), self.log, Path.cwd(), self.prepare
        self._process = _context.Process(target=_run, args=given, name=self.name)
        with _one_thread_each():
            self._process.start()

    @property
    def pid(self) -> int | None:
        """Process id; None: it was not started."""
        return self._process.pid if self._process else None

    @property
    def code(self) -> int | None:
        """Exit code; None: it has not ended."""
        return self._process.exitcode if self._process else None

    @property
    def end(self) -> str | None:
        """End in words, if not a polite one; None: it was, or it has not ended."""
        if self.stuck:
            return "stood still"
        if self.code in (None, 0, -signal.SIGTERM):  # the latter: it had only begun to load
            return None
        if self.code < 0:
            return f"was killed by signal {-self.code}"
        return f"ended with exit code {self.code} ({self._last_words()[:200]})"

    def status(self) -> dict[str, Any] | None:
        """Fetch what the peer says of itself; None: it does not answer yet, or any more."""
        if not (self.state / status_client.ADDRESS).exists():
            return None
        try:
            return status_client.status(str(self.state))
        except Unreachable:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal: SIGTERM to leave politely, SIGKILL, SIGSTOP, SIGCONT."""
        if self._process and self._process.exitcode is None and self._process.pid:
            os.kill(self._process.pid, number)

    def wait(self, seconds: float) -> int:
        """Wait for the exit code; a peer that takes longer is killed."""
        assert self._process is not None
        self._process.join(seconds)
        if self._process.exitcode is None:
            self.stuck = True
            self._process.kill()
            self._process.join()
        return self._process.exitcode or 0

    def check(self) -> None:
        """Raise if the peer has ended by itself."""
        if self.code is not None:
            raise PeerError(
                f"the peer {self.name} ended by itself with exit code {self.code}: "
                f"{self._last_words()[:500]} (its log: {self.log})"
            )

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _run(file: Path, data: Path | None, log: Path, folder: Path, prepare: Callable[[], None] | None) -> None:
    """Run the peer, in the new process."""
    if prepare is not None:
        prepare()
    from coterie.peer.app import run

    os.setsid()  # Ctrl-C is for the swarm, which tells its peers
    os.chdir(folder)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(written, stream)
    os.close(written)
    threading.Thread(target=_leave_with_the_swarm, daemon=True).start()
    try:
        run(file, data)
    except CoterieError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)


def _leave_with_the_swarm() -> None:
    swarm = multiprocessing.parent_process()
    if swarm is not None:
        swarm.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C for the fork server, which a terminal would tell, too, while it is loading."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give the fork server, which starts with the first peer, one thread: all peers share the machine."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
