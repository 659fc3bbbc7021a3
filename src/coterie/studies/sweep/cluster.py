"""Jobs on a Ray cluster, whose machines share no files: what a run wrote travels back as bytes.

A worker keeps its run folder with the checkpoints in its own temporary folder, so that a job which
comes back to the same machine goes on from there.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from coterie.core.errors import ConfigError, RunError
from coterie.core.support.versions import installed
from coterie.studies.sweep.worker import JobSpec, Outcome, Report, first_line, machine, run_job

__all__ = ["Cluster", "connected"]

ANSWER = 5.0
"""Seconds for a machine to answer at all."""
WELCOME = 30.0
"""Seconds for Ray to answer."""
PROBING = 120.0
"""Seconds for all machines to tell their versions: the first task on a machine waits for Python to start."""
SAVING = 60.0
"""Seconds for running jobs to save a checkpoint when the sweep is stopped."""
TURN = 0.2
"""Seconds between two looks at the jobs."""

Take: TypeAlias = Callable[[Outcome, Mapping[str, bytes]], None]
"""Take what came of a job, and the files of its run folder."""


class Cluster:
    """A Ray cluster that this process is connected to, all of whose machines compute as this one does."""

    def __init__(self, ray: Any, versions: dict[str, str]) -> None:
        """Refuse machines with other versions before anything is begun."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._on, self._versions = ray, NodeAffinitySchedulingStrategy, versions
        self._nodes = [node for node in ray.nodes() if node["Alive"]]
        self._check_versions()

    def check_room(self, devices: Iterable[str], cpus: int) -> None:
        """Refuse jobs for which no machine is large enough: they would wait for ever."""
        for device in devices:
            if device not in ("cpu", "cuda"):
                raise ConfigError(
                    f"device {device!r} cannot be had on a Ray cluster, which gives every job a device of "
                    "its own; use device = 'cuda'"
                )
            for what, count in _needs(device, cpus).items():
                most = int(max(node["Resources"].get(what, 0) for node in self._nodes))
                if most < count:
                    remedy = "use a smaller --cpus" if what == "CPU" else "use device = 'cpu'"
                    raise ConfigError(
                        f"a job takes {count} {what}, but no machine of the Ray cluster has more than "
                        f"{most}; {remedy}"
                    )

    def outcomes(
        self, specs: deque[JobSpec], sweep: str, report: Report, take: Take, stop: Callable[[], bool]
    ) -> Generator[Outcome, None, None]:
        """Run jobs, also those that are added on the way, until all have ended or `stop()`."""
        from ray.util.queue import Queue

        # On the machine of this process, which cannot be lost without losing the sweep anyway.
        home = self._on(self._ray.get_runtime_context().get_node_id(), soft=False)
        events = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": home})
        running: dict[Any, str] = {}
        try:
            while (specs or running) and not stop():
                while specs:
                    spec = specs.popleft()
                    needs = _needs(spec.experiment["device"], spec.threads)
                    # No retries by Ray: a job that was too large would come back as it was.
                    how = {"num_cpus": needs["CPU"], "num_gpus": needs["GPU"], "max_retries": 0}
                    task = self._ray.remote(**how)(_work).remote(spec, sweep, self._versions, events)
                    running[task] = spec.job
                ready, _ = self._ray.wait(list(running), timeout=TURN)
                with suppress(self._ray.exceptions.RayError):  # slow, or gone: jobs go on without events
                    for event in events.get_nowait_batch(events.qsize()):
                        report(event)
                for task in ready:
                    yield self._collected(task, running.pop(task), take)
        finally:
            for task in running:
                self._ray.cancel(task)  # Ctrl-C over there: the run saves a checkpoint
            if running:
                self._ray.wait(list(running), num_returns=len(running), timeout=SAVING)

    def _collected(self, task: Any, job: str, take: Take) -> Outcome:
        errors = self._ray.exceptions
        try:
            returned: tuple[Outcome, dict[str, bytes]] = self._ray.get(task)
        except errors.OutOfMemoryError as error:
            return Outcome(job, "no room", "", first_line(error))
        except errors.RayTaskError as error:
            if isinstance(error.cause, RunError):  # a machine that cannot take part
                raise error.cause from None
            return Outcome(job, "failed", "", str(error).strip().splitlines()[-1])  # a mistake in code
        except errors.RayError as error:
            return Outcome(job, "died", "", first_line(error))
        outcome, files = returned
        if outcome.state == "done":
            take(outcome, files)
        # What stops by itself is on a machine that is going down.
        return outcome._replace(state="died") if outcome.state == "stopped" else outcome

    def _check_versions(self) -> None:
        """Ask all machines that are there now; one that joins later is checked by its first job."""
        # By value, so that it can also be called where coterie is not installed, or is another one.
        for name in (__name__, installed.__module__):
            self._ray.cloudpickle.register_pickle_by_value(sys.modules[name])
        asked = {}
        for node in self._nodes:
            there = self._on(node["NodeID"], soft=False)
            probe = self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(installed)
            asked[probe.remote()] = node["NodeManagerHostname"]
        answered, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=PROBING)
        for answer in answered:
            with suppress(self._ray.exceptions.RayError):  # it left just now
                _check_alike(self._versions, self._ray.get(answer), asked[answer])


def _check_alike(here: Mapping[str, str], there: Mapping[str, str], where: str) -> None:
    """Refuse a machine that has other versions: the same bits come from the same code only."""
    if different := [package for package in here if there.get(package) != here[package]]:
        have = ", ".join(f"{package} {there.get(package, 'none')}" for package in different)
        want = ", ".join(f"{package} {here[package]}" for package in different)
        raise RunError(
            f"worker {where} has {have}, but this machine has {want}; install the same on all of them"
        )


def _needs(device: str, cpus: int) -> dict[str, int]:
    """Count what a job takes of its machine."""
    return {"CPU": 1, "GPU": 1} if device.startswith("cuda") else {"CPU": cpus, "GPU": 0}


def _work(
    spec: JobSpec, sweep: str, expected: dict[str, str], events: Any
) -> tuple[Outcome, dict[str, bytes]]:
    """Run one job on the worker, and return what came of it with the files of its run folder."""
    import ray

    where = f"{machine()} ({ray.get_runtime_context().get_node_id()[:6]})"
    _check_alike(expected, installed(), where)
    folder = Path(tempfile.gettempdir()) / f"coterie-sweep-{sweep}" / spec.job
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{spec.job}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until an earlier attempt, of a sweep that was killed, is gone
        outcome = run_job(spec, folder, where, events.actor.put_nowait.remote)
        files = {
            file.name: file.read_bytes()
            for file in (folder.iterdir() if outcome.state == "done" else ())
            if file.is_file() and not file.name.startswith((".", "checkpoint-"))
        }
    return outcome._replace(where=f"{where} {folder}"), files


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect Ray to a cluster: auto, HOST:PORT, ray://HOST:PORT, or local for one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("--ray needs Ray, which is not installed: pip install 'coterie[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    if address not in ("auto", "local"):
        _check_reachable(address)
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)  # Ray takes it over
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _no_answer(address, first_line(error)) from None
        yield ray
    finally:
        ray.shutdown()
        if main:
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Refuse an address where no Ray is: Ray would wait for minutes, and cannot be interrupted meanwhile."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--ray {address!r}: expected auto, local, HOST:PORT or ray://HOST:PORT")
    attempt = f"import ray; ray.init({address!r}, log_to_driver=False, logging_level='critical')"
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        tried = subprocess.run(
            [sys.executable, "-c", attempt], capture_output=True, text=True, timeout=WELCOME, check=False
        )
    except OSError as error:
        raise _no_answer(address, error.strerror or str(error)) from None
    except subprocess.TimeoutExpired:
        raise _no_answer(address, f"something is there, but not Ray: silent for {WELCOME:.0f} s") from None
    if tried.returncode:
        raise _no_answer(address, (tried.stderr.strip() or "it hung up").splitlines()[-1])


def _no_answer(address: str, reason: str) -> RunError:
    return RunError(
        f"no Ray cluster answers at {address!r}: {reason}; "
        "start one with `ray start --head`, or leave out --ray"
    )
