"""From an experiment to its results by real peers, each a process, over mutual TLS on loopback."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from coterie.core.errors import RunError
from coterie.engine.simulate import described
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.runs import Run, RunFolder
from coterie.swarm import results
from coterie.swarm.plan import fit_for_peers, free_ports, lay_out, names, peer_settings, world_of
from coterie.swarm.process import PeerProcess, warm_up

__all__ = ["Progress", "swarm"]

LOOK = 0.5
"""Seconds between two looks at the peers."""
GOODBYE = 30.0
"""Seconds for a peer to leave."""


class Progress(Protocol):
    """Shows how a swarm is getting on."""

    def stage(self, text: str) -> None:
        """Something that takes a while begins."""
        ...

    def peers(self, processes: Sequence[PeerProcess], status: Sequence[dict[str, Any] | None]) -> None:
        """What all peers say of themselves; None: one does not answer."""
        ...


def swarm(
    experiment: Experiment,
    label: str,
    out: Path,
    *,
    data: Path | None = None,
    progress: Progress | None = None,
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
    warm_up()
    say("dealing the data")
    federation = Dealer(data).federation(world.experiment, world.seed)
    home = out / "peers"
    with RunFolder.create(out, experiment) as folder:
        try:
            folder.describe(*described([world], [federation]))
            say(f"making a CA, {m} keys and {m} certificates")
            ports = free_ports(2 * m)  # at once, so that no page takes the port of a peer yet to start
            limit = {"rate": rate} if rate else {}
            files = lay_out(home, peer_settings(world, ports[:m], ports[m:], **limit))
            processes = [PeerProcess(n, f, data) for n, f in zip(names(m), files, strict=True)]
            began = time.monotonic()
            folder.status("running", 0, iterations, 0.0)
            say(f"starting {m} processes")
            with _running(processes):
                finished = _watch(processes, progress, asked)
                say("saying goodbye")
            if not all(results.exist(process.state) for process in processes):
                raise RunError("stopped before all peers had begun to learn: there are no results")
        except BaseException:
            folder.status("failed", 0, iterations, 0.0)
            raise
        finally:
            for name in names(m):  # the federation is over: nobody needs its keys
                shutil.rmtree(home / name / "identity", ignore_errors=True)
        seconds = round(time.monotonic() - began, 3)
        journals = results.read([p.state for p in processes])
        numbers = {name: i for i, name in enumerate(names(m))}
        done = 0
        for row in results.metrics(journals):
            folder.metrics(row)
            done = row["t"]
        for row in results.exchanges(journals, numbers):
            folder.exchange(row)
        folder.status("done" if finished else "stopped", done, iterations, seconds)
        folder.summarize()
    found = Run(out)
    if plots and found.tracks:
        say("drawing the pictures")
        found.plot()
    return found


@contextlib.contextmanager
def _running(processes: Sequence[PeerProcess]) -> Iterator[None]:
    """All of them started; at the end all of them leave, politely if they can."""
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
        codes = {p.name: p.wait(GOODBYE) for p in processes if p.pid is not None}
    polite = 0, -signal.SIGTERM  # the latter: it had only begun to load
    if failed := {name: code for name, code in codes.items() if code not in polite}:
        raise RunError(
            f"some peers did not leave politely (exit codes {failed}); see the logs in their folders"
        )


def _watch(
    processes: Sequence[PeerProcess], progress: Progress | None, asked: threading.Event | None
) -> bool:
    """Until all have finished (True) or the user asks to stop (False)."""
    asked = asked or threading.Event()
    while not asked.wait(LOOK):
        for process in processes:
            process.check()
        status = [process.status() for process in processes]
        if progress:
            progress.peers(processes, status)
        if all(s is not None and s["state"] == "finished" for s in status):
            return True
    return False
