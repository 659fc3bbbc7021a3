"""Jobs on a Ray cluster, whose machines share no files: what a run wrote travels back as bytes.

A worker keeps its run folder with the checkpoints in its own temporary folder, so that a job which
comes back to the same machine goes on from there.
"""

from __future__ import annotations

import fcntl
import itertools
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from coterie.core.errors import ConfigError, RunError
from coterie.studies.sweep.versions import mismatch, prober
from coterie.studies.sweep.work import Event, Order, Outcome, Tell, carry_out, disagreement, machine

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
"""Seconds between two looks at how the jobs are getting on."""

Take: TypeAlias = Callable[[Outcome, Mapping[str, bytes]], None]
"""Given what came of a job and the files of its run folder."""


class _Returned(NamedTuple):
    """What comes back from a worker."""

    outcome: Outcome
    files: dict[str, bytes]


class _Board:
    """The one place that all workers can reach: events for the view, and whose data were first."""

    def __init__(self, data: Mapping[str, Mapping[str, str]]) -> None:
        self.events: list[Event] = []
        self.data = dict(data)

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def told(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def agree(self, key: str, fingerprint: str, where: str) -> str | None:
        first = self.data.setdefault(key, {"fingerprint": fingerprint, "where": where})
        return disagreement(first, fingerprint, where)


class Cluster:
    """A Ray cluster that this process is connected to, all of whose machines compute as this one does."""

    def __init__(self, ray: Any) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._on = ray, NodeAffinitySchedulingStrategy
        self._versions = prober()()
        self._nodes = [node for node in ray.nodes() if node["Alive"]]
        self._refuse_strangers()

    def refuse(self, devices: Iterable[str], cpus: int) -> None:
        """Jobs for which no machine is large enough would wait for ever."""
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
        self,
        orders: deque[Order],
        sweep: str,
        data: Mapping[str, Mapping[str, str]],
        tell: Tell,
        take: Take,
        stop: Callable[[], bool],
    ) -> Generator[Outcome, None, None]:
        """Carry out orders, also those that are added on the way, until all are done or `stop()`."""
        # On the machine of this process, which cannot be lost without losing the sweep anyway.
        home = self._on(self._ray.get_runtime_context().get_node_id(), soft=False)
        board = self._ray.remote(num_cpus=0, scheduling_strategy=home)(_Board).remote(data)
        running: dict[Any, Order] = {}
        try:
            while (orders or running) and not stop():
                while orders:
                    order = orders.popleft()
                    needs = _needs(order.experiment["device"], order.threads)
                    task = self._ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=0)(
                        _work
                    )
                    running[task.remote(order, sweep, self._versions, board)] = order
                ready, _ = self._ray.wait(list(running), timeout=TURN)
                self._show(board, tell)
                for ref in ready:
                    yield self._collected(ref, running.pop(ref), take)
        finally:
            for ref in running:
                self._ray.cancel(ref)  # Ctrl-C over there: the run saves a checkpoint
            if running:
                self._ray.wait(list(running), num_returns=len(running), timeout=SAVING)

    def _collected(self, ref: Any, order: Order, take: Take) -> Outcome:
        errors = self._ray.exceptions
        try:
            returned: _Returned = self._ray.get(ref)
        except errors.OutOfMemoryError as error:
            return Outcome(order.job, "no room", "", _first_line(error))
        except errors.RayTaskError as error:  # a mistake in code, ours or a plugin's
            return Outcome(order.job, "failed", "", str(error).strip().splitlines()[-1])
        except errors.RayError as error:
            return Outcome(order.job, "died", "", _first_line(error))
        if returned.outcome.state == "done":
            take(returned.outcome, returned.files)
        elif returned.outcome.state == "stopped":  # its machine is going down
            return returned.outcome._replace(state="died")
        return returned.outcome

    def _show(self, board: Any, tell: Tell) -> None:
        try:
            events: list[Event] = self._ray.get(board.told.remote(), timeout=ANSWER)
        except self._ray.exceptions.RayError:
            return  # slow, or gone; jobs do not need it to go on
        for event in events:
            tell(event)

    def _refuse_strangers(self) -> None:
        """Before anything is begun; a job on a machine that joins later is checked there again."""
        asked = {}
        for node in self._nodes:
            there = self._on(node["NodeID"], soft=False)
            probe = self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(prober())
            asked[probe.remote()] = node["NodeManagerHostname"]
        answered, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=PROBING)
        for ref in answered:
            try:
                versions = self._ray.get(ref)
            except self._ray.exceptions.RayError:
                continue  # it left just now
            if reason := mismatch(self._versions, versions, asked[ref]):
                raise RunError(reason)


def _needs(device: str, cpus: int) -> dict[str, int]:
    """What a job takes of its machine."""
    return {"CPU": 1, "GPU": 1} if device.startswith("cuda") else {"CPU": cpus, "GPU": 0}


def _work(order: Order, sweep: str, versions: dict[str, str], board: Any) -> _Returned:
    """One job, on the worker."""
    import ray

    where = f"{machine()} ({ray.get_runtime_context().get_node_id()[:6]})"
    if reason := mismatch(versions, prober()(), where):
        return _Returned(Outcome(order.job, "refused", where, reason), {})
    folder = Path(tempfile.gettempdir()) / f"coterie-sweep-{sweep}" / order.job
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{order.job}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until an earlier attempt, of a sweep that was killed, is gone

        def agree(key: str, fingerprint: str) -> str | None:
            try:
                answer: str | None = ray.get(board.agree.remote(key, fingerprint, where), timeout=WELCOME)
            except ray.exceptions.RayError:
                return None  # it is only to tell early: the sweep's folder has the last word
            return answer

        outcome = carry_out(order, folder, where, board.tell.remote, agree)
        files = {
            file.name: file.read_bytes()
            for file in (folder.iterdir() if outcome.state == "done" else ())
            if file.is_file() and not file.name.startswith((".", "checkpoint-"))
        }
    return _Returned(outcome._replace(where=f"{where} {folder}"), files)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster: auto, HOST:PORT, ray://HOST:PORT, or local for one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError("--ray needs Ray, which is not installed: pip install 'coterie[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    if address not in ("auto", "local"):
        _refuse_deaf(address)
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)  # Ray takes it over
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _no_answer(address, _first_line(error)) from None
        yield ray
    finally:
        ray.shutdown()
        if main:
            signal.signal(signal.SIGTERM, before)


def _refuse_deaf(address: str) -> None:
    """Ray itself would wait for minutes, and cannot be interrupted while it does."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--ray {address!r}: expected auto, local, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
    except OSError as error:
        raise _no_answer(address, error.strerror or str(error)) from None
    attempt = f"import ray; ray.init({address!r}, log_to_driver=False, logging_level='critical')"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", attempt], capture_output=True, text=True, timeout=WELCOME, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_answer(address, f"something is there, but not Ray: silent for {WELCOME:.0f} s") from None
    if tried.returncode:
        said = (tried.stderr.strip() or "it hung up").splitlines()[-1]
        raise _no_answer(address, said)


def _no_answer(address: str, reason: str) -> RunError:
    return RunError(
        f"no Ray cluster answers at {address!r}: {reason}; "
        "start one with `ray start --head`, or leave out --ray"
    )


def _first_line(error: BaseException) -> str:
    lines = itertools.chain(str(error).strip().splitlines(), [type(error).__name__])
    return next(lines)
