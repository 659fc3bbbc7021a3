"""A swarm, from an experiment to its results: real peers, each a process, over mutual TLS on loopback."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import RunError
from coterie.engine.runner import described
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.runs import Run, RunFolder
from coterie.swarm import results
from coterie.swarm.monitor import SwarmProgress, monitor
from coterie.swarm.plan import fit_for_peers, free_ports, names, peer_configs, world_of, write_peer_folders
from coterie.swarm.process import PeerProcess, start_forkserver

__all__ = ["SwarmProgress", "swarm"]

GOODBYE = 30.0
"""Seconds for the peers to leave."""


def swarm(
    experiment: Experiment,
    label: str,
    out: Path,
    *,
    data: Path | None = None,
    progress: SwarmProgress | None = None,
    asked: threading.Event | None = None,
    rate: float | None = None,
    plots: bool = True,
) -> Run:
    """Run one method of an experiment, first seed, without its grid, by real peers, into a run folder.

    `rate`: at most so many iterations a second. `asked`: set to stop early, with the results up to then.
    """
    experiment = experiment.only(label)
    fit_for_peers(experiment)
    world = world_of(experiment, label)
    m, iterations = experiment.data.clients, experiment.train.iterations
    say: Callable[[str], None] = progress.stage if progress else lambda text: None
    start_forkserver()
    say("dealing the data")
    federation = Dealer(data).of(world)
    home = out / "peers"
    with RunFolder.create(out, experiment) as folder:
        try:
            facts = experiment.task_kind.facts(experiment.task.name)
            folder.describe(*described([world], [federation]), facts)
            say(f"making a CA, {m} keys and {m} certificates")
            ports = free_ports(2 * m)  # at once, so that no page takes the port of a peer yet to start
            limit = {"rate": rate} if rate else {}
            files = write_peer_folders(home, peer_configs(world, ports[:m], ports[m:], **limit))
            processes = [PeerProcess(n, f, data) for n, f in zip(names(m), files, strict=True)]
            began = time.monotonic()
            folder.status("running", 0, iterations, 0.0)
            say(f"starting {m} processes")
            with _running(processes):
                finished = monitor(processes, progress, asked or threading.Event())
                say("saying goodbye")
            journals = results.read(p.state for p in processes)
            lost = _missing(processes, journals, iterations if finished else 0)
            if not all(journals[i] for i in range(m) if i not in lost):
                raise RunError("stopped before all peers had begun to learn: there are no results")
        except BaseException:
            folder.status("failed", 0, iterations, 0.0)
            raise
        finally:
            for name in names(m):  # the federation is over: nobody needs its keys
                shutil.rmtree(home / name / "identity", ignore_errors=True)
        seconds = round(time.monotonic() - began, 3)
        numbers = {name: i for i, name in enumerate(names(m))}
        done = 0
        for row in results.metrics(journals, lost):
            folder.metrics(row)
            done = row["t"]
        for row in results.exchanges(journals, numbers):
            folder.exchange(row)
        state = "failed" if len(lost) == m else "done" if finished else "stopped"
        missing = {"missing": list(lost.values())} if lost else {}
        folder.status(state, done, iterations, seconds, **missing)
        folder.summarize()
        if state == "failed":
            processes[0].check()
    found = Run(out)
    if plots and found.tracks:
        say("drawing the pictures")
        found.plot()
    return found


@contextlib.contextmanager
def _running(processes: Sequence[PeerProcess]) -> Iterator[None]:
    """Start all of them; at the end all of them leave, politely if they can."""
    try:
        for process in processes:
            process.start()
        yield
    except BaseException:
        for process in processes:
            process.signal(signal.SIGKILL)
        raise
    finally:
        for process in processes:
            process.signal(signal.SIGTERM)
        until = time.monotonic() + GOODBYE
        for process in processes:
            if process.pid is not None:
                process.wait(max(0.0, until - time.monotonic()))


def _missing(
    processes: Sequence[PeerProcess], journals: Sequence[results.Rows], iterations: int
) -> dict[int, dict[str, Any]]:
    """Find those who did not come to the last iteration, or did not leave politely, by client."""
    found = {}
    for client, (process, rows) in enumerate(zip(processes, journals, strict=True)):
        t = results.reached(rows)
        if why := process.end or ("left" if t < iterations else None):
            found[client] = {"client": client, "peer": process.name, "t": t, "why": why}
    return found
