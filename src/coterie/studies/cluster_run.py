"""One run on several devices of a Ray cluster: Ray finds machines for its processes and starts them.

The first of them, the lead, computes on the machine of this process, where the run folder is. Machines share
no files; data sets must lie on each of them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from coterie.api import Stopped
from coterie.core.errors import ConfigError, RunError
from coterie.core.support.signals import stop_on_signal
from coterie.core.support.toml import dumps
from coterie.core.support.versions import installed
from coterie.engine.distributed.launch import (
    GRACE,
    INTERRUPTED,
    START,
    TURN,
    Ended,
    again,
    what_happened,
    words_of,
)
from coterie.engine.distributed.word import FOLDER, OUT
from coterie.experiment import Experiment
from coterie.runs import Run, free_name
from coterie.studies.sweep.cluster import Cluster, connected

__all__ = ["run_on_cluster"]

LOG, PID = "lead.log", "pid"
"""Files by which the lead tells this process what it shows, and how to ask it to stop."""


def run_on_cluster(
    address: str,
    experiment: Experiment,
    devices: int | None,
    out: Path | None = None,
    resume: bool = False,
    words: Sequence[str] = (),
    **options: object,
) -> Run:
    """Run an experiment in so many processes of a cluster, as `coterie.run` does here.

    `words` and `options`: those of `coterie run`, by their names. What the lead says of its progress goes to
    standard error.
    """
    if devices is None or devices < 2:
        raise ConfigError("--ray takes devices from a cluster: say how many, with --devices N")
    if address.startswith("ray://"):
        raise ConfigError(
            f"--ray {address}: the run folder is written by a process of the cluster on this machine; call "
            "coterie run on a machine of the cluster, with its HOST:PORT or auto"
        )
    default = Path("runs") / experiment.name
    path = (out or (default if resume else free_name(default))).absolute()
    data = options.get("data")
    texts = {"out": path, **options, "data": data and Path(str(data)).absolute(), "resume": resume or None}
    every = ["--json", *words, *words_of(texts)]
    with connected(address) as ray, stop_on_signal() as asked, tempfile.TemporaryDirectory() as name:
        Cluster(ray, installed()).check_room([experiment.device], 1)
        tasks = _begun(ray, experiment, every, devices, Path(name))
        ended = _awaited(ray, tasks, Path(name), asked)
        if len(ended) == devices and not any(one.code for one in ended.values()):
            return Run(path)
        if asked.is_set() or (0 in ended and ended[0].code == INTERRUPTED):
            status = Run(path).status
            raise Stopped(path, status["t"], status["iterations"])
        raise RunError(what_happened(ended, again(Path(name), devices)))


def _awaited(ray: Any, tasks: Mapping[int, Any], home: Path, asked: threading.Event) -> dict[int, Ended]:
    """Wait for all, or, once one has failed, for as long as others may take to notice."""
    ended: dict[int, Ended] = {}
    patience, shown, passed_on = float("inf"), 0, False
    while len(ended) < len(tasks) and patience > 0:
        ready, _ = ray.wait([task for rank, task in tasks.items() if rank not in ended], timeout=TURN)
        for rank in [rank for rank, task in tasks.items() if task in ready]:
            ended[rank] = _result(ray, tasks[rank])
            patience = min(patience, GRACE if ended[rank].code else patience)
        patience -= 0 if ready else TURN
        text = log.read_bytes() if (log := home / LOG).exists() else b""
        print(text[shown:].decode(errors="replace"), end="", file=sys.stderr, flush=True)
        shown = len(text)
        if asked.is_set() and not passed_on and (pid := home / PID).exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)
            passed_on = True
    for rank, task in tasks.items():
        if rank not in ended:
            ray.cancel(task, force=True)
    return ended


def _begun(
    ray: Any, experiment: Experiment, words: Sequence[str], devices: int, home: Path
) -> dict[int, Any]:
    """Start a task for each rank; the lead's on this machine."""
    from ray.util import get_node_ip_address
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    host = str(get_node_ip_address())  # type: ignore[no-untyped-call]
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    here = ray.get_runtime_context().get_node_id()
    gpus = int(experiment.device == "cuda")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    what, needed = ("GPU", devices) if gpus else ("CPU", devices - 1)
    have = int(sum(node["Resources"].get(what, 0) for node in nodes))
    if have < needed:
        raise ConfigError(
            f"--devices {devices} needs {needed} {what}s, but the Ray cluster has {have}; use --devices "
            f"{have + devices - needed}"
        )
    if gpus and not next(node for node in nodes if node["NodeID"] == here)["Resources"].get("GPU"):
        raise ConfigError(
            "this machine of the Ray cluster has no GPU, but the first rank, which writes the run folder, "
            "computes here; call coterie run on one that has, or use device = 'cpu'"
        )
    shared = {"WORLD_SIZE": str(devices), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
    tasks = {}
    for rank in range(devices):
        own = {**shared, "RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        lead = {"scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False), "num_cpus": 0}
        how = {"num_gpus": gpus, "max_retries": 0, **({"num_cpus": 1} if rank else lead)}
        given = dumps(experiment.plain()), list(words), own, None if rank else str(home)
        tasks[rank] = ray.remote(**how)(_rank).remote(*given)
    return tasks


def _result(ray: Any, task: Any) -> Ended:
    try:
        return Ended(*ray.get(task))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().partition("\n")[0]
        return Ended(1, None, f"its worker is gone: {reason}")


def _rank(
    text: str, words: Sequence[str], environment: Mapping[str, str], home: str | None
) -> tuple[Any, ...]:
    """Run one process on this machine and tell how it ended; `home`: the folder of the lead's caller."""
    with tempfile.TemporaryDirectory(prefix="coterie-rank-") as name:
        folder = Path(name)
        file, log = folder / "experiment.toml", Path(home or name) / LOG
        file.write_text(text)
        output: IO[bytes]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, "run", str(file), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # the results, which are in the run folder
                stderr=output,
                env={
                    **os.environ,
                    **environment,
                    FOLDER: name,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
            )
        try:
            if home:
                (Path(home) / PID).write_text(str(process.pid))
            code = process.wait()
        finally:
            process.kill()
            process.communicate()
        if home and (out := folder / OUT).exists():
            with suppress(OSError):
                (Path(home) / OUT).write_text(out.read_text())
        return tuple(Ended.of(code, folder, int(environment["RANK"]), log))
