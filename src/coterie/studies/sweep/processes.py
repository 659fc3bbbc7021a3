"""Jobs side by side on this machine, each in a process of its own that ends with the one that started it.

A process reads its job from standard input and tells of it on standard output, a line of JSON each. Ctrl-C in
a terminal reaches the sweep only, which asks its processes to save a checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TypeAlias

import torch

from coterie.core.errors import ConfigError
from coterie.studies.sweep.worker import JobEvent, JobSpec, Outcome, Report, machine, run_job

__all__ = ["check_jobs", "run_child", "share_of_threads", "side_by_side"]

SAVING = 60.0
"""Seconds for running jobs to save a checkpoint when the sweep is stopped."""
TURN = 0.2
"""Seconds between two looks at whether the sweep is to stop."""
_START = f"from {__name__} import run_child; run_child()"

_Message: TypeAlias = JobEvent | Outcome
_MESSAGES: dict[str, type[_Message]] = {kind.__name__: kind for kind in (JobEvent, Outcome)}


def check_jobs(jobs: int, ray: str | None) -> None:
    """Refuse a number of jobs side by side that makes no sense."""
    if jobs < 1:
        raise ConfigError(f"jobs must be at least 1, got {jobs}")
    if jobs > 1 and ray is not None:
        raise ConfigError(
            f"--jobs {jobs} runs jobs side by side on this machine, but with --ray {ray} it is Ray that "
            "decides how many do; leave out one of the two"
        )


def share_of_threads(jobs: int, devices: Collection[str]) -> int:
    """Count the threads of each job: those that torch uses here, divided where jobs compute on the CPU."""
    return max(1, torch.get_num_threads() // (jobs if "cpu" in devices else 1))


def side_by_side(
    most: int,
    specs: deque[JobSpec],
    home: Callable[[str], Path],
    report: Report,
    stop: Callable[[], bool],
) -> Generator[Outcome, None, None]:
    """Run up to `most` jobs at once, also those that are added on the way, until all have ended or `stop()`.

    Jobs that must be alone are left in `specs`. `home` names the run folder of a job.
    """
    told: SimpleQueue[_Message] = SimpleQueue()
    running: dict[str, _Child] = {}
    try:
        while not stop():
            while len(running) < most and (spec := _next(specs)):
                running[spec.job] = _Child(spec, home(spec.job), told.put)
            if not running:
                return
            try:
                message = told.get(timeout=TURN)
            except Empty:
                continue
            if isinstance(message, JobEvent):
                report(message)
            else:
                del running[message.job]
                yield message
    finally:
        _end(running.values())


def _next(specs: deque[JobSpec]) -> JobSpec | None:
    """Take the first job that may run beside others."""
    found = next((spec for spec in specs if not spec.alone), None)
    if found:
        specs.remove(found)
    return found


class _Child:
    """A process that runs one job, and a thread that passes on what it tells; the last is the outcome."""

    def __init__(self, spec: JobSpec, folder: Path, tell: Callable[[_Message], None]) -> None:
        self._spec, self._folder, self._tell = spec, folder, tell
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - the thread closes it
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # which Ctrl-C in a terminal does not reach
        )
        self.thread = threading.Thread(target=self._follow, name=f"job {spec.job}")
        self.thread.start()

    def _follow(self) -> None:
        """Hand over the job, and pass on what comes of it."""
        outcome, process = None, self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._log:
            with suppress(BrokenPipeError), process:  # broken: it died before it had read everything
                process.stdin.write(json.dumps([self._spec._asdict(), str(self._folder)]).encode() + b"\n")
                process.stdin.flush()
                outcome = self._outcome(process.stdout)
                process.wait()  # before standard input is closed, which would end it
            self._tell(outcome or self._lost())

    def _outcome(self, lines: Iterable[bytes]) -> Outcome | None:
        """Pass on events up to the outcome; None if it never came."""
        for line in lines:
            if not line.endswith(b"\n"):  # killed in the middle of it
                break
            kind, *values = json.loads(line)
            message = _MESSAGES[kind](*values)
            if isinstance(message, Outcome):
                # Nobody asked for it here: somebody else did, who has no say in the sweep.
                return message._replace(state="died") if message.state == "stopped" else message
            self._tell(message)
        return None

    def _lost(self) -> Outcome:
        """Tell what came of a job whose process ended without a word: killed, or a mistake in code."""
        code = self.process.returncode
        if code < 0:
            return Outcome(self._spec.job, "died", machine(), f"its process was killed by signal {-code}")
        return Outcome(self._spec.job, "failed", machine(), _last_line(self._log) or f"exit code {code}")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace").strip().rpartition("\n")[2]


def _end(children: Collection[_Child]) -> None:
    """Let processes save a checkpoint and end; who takes too long is killed, and all at a second Ctrl-C."""
    for child in children:
        child.process.terminate()
    until = time.monotonic() + SAVING
    try:
        for child in children:
            child.thread.join(max(0.0, until - time.monotonic()))
    finally:
        for child in children:
            child.process.kill()
        for child in children:
            child.thread.join()


def run_child() -> None:
    """Run the job that standard input names, in this process, and tell of it on standard output."""
    spec, folder = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what a plugin prints is no message

        def tell(message: _Message) -> None:
            print(json.dumps([type(message).__name__, *message]), file=out, flush=True)

        tell(run_job(JobSpec(**spec), Path(folder), machine(), tell))


def _leave_with_parent() -> None:
    """End this process when standard input is closed: the sweep is gone, and may be resumed at once."""
    while os.read(0, 1):
        pass
    os._exit(1)
