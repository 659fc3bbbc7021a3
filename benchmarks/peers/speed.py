"""Cost of exchanging: a peer's learning speed with an exchange every 20 steps, against learning alone.

Two real peers on loopback with mutual TLS, one thread and one core each, in turns: exchanging, alone,
exchanging, alone ... Steps are counted by the wall clock, and by the processor time that the whole process
took for them, which tells the same on a machine that others use.

    python -m benchmarks.peers.speed [--works W1 W2] [--pairs 5] [--seconds 5] [--every 20]
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.common import script_parser
from benchmarks.simulator.timing import spread
from benchmarks.simulator.workloads import WORKS, samples
from coterie.peer.config import PeerConfig
from coterie.swarm.plan import free_ports, names, write_peer_folders
from coterie.swarm.process import PeerProcess

__all__ = ["Speed", "compare", "data", "measure", "pinned"]

NEVER = 10**9
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 60.0
"""Seconds for two peers to meet."""
WARM = 1.0
"""Seconds before the clock starts."""


class Speed(NamedTuple):
    """Speed of both peers together."""

    steps: float
    """Steps of one peer in a second."""
    cpu: float
    """Seconds of processor time, for one step."""
    exchanges: int


def data(work: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Load the samples of a work, of which each peer gets 64; a data set by this function's name."""
    return samples(WORKS[work])


def _settings(work: str, every: int | None, options: Mapping[str, Any], ports: list[int]) -> list[PeerConfig]:
    """Configure two peers that exchange, or do not know each other."""
    w = WORKS[work]
    common: dict[str, Any] = {
        "model": w.model,
        "data": {
            "set": {"name": f"{__spec__.name}:data", "work": work},
            "clients": len(ports),
            "sizes": [w.owned, w.owned],
            "test": 20,
            "validation": 0.0,
        },
        "train": {"batch": w.batch, "lr": 0.01},
        "method": {"name": "KD-PDFL", "adoption": options["adoption"]},
        "exchange": {"every": every or NEVER, "probe": options["probe"]},
        "evaluate": {"every": NEVER, "uniform": 2 * w.classes},
        "quorum": 0 if every is None else len(ports) - 1,
    }
    seed = f"{names(1)[0]}@127.0.0.1:{ports[0]}"
    return [
        PeerConfig.parse(
            {**common, "address": f"127.0.0.1:{p}", "client": i, "seeds": [seed] if i and every else []}
        )
        for i, p in enumerate(ports)
    ]


def measure(
    folder: Path, work: str, every: int | None, seconds: float, options: Mapping[str, Any], peers: int = 2
) -> Speed:
    """Measure one turn; with `every` None each peer learns alone."""
    files = write_peer_folders(folder, _settings(work, every, options, free_ports(peers)))
    cores = sorted(os.sched_getaffinity(0))
    running = [
        PeerProcess(name, file, prepare=partial(pinned, cores[i % len(cores)]))
        for i, (name, file) in enumerate(zip(names(peers), files, strict=True))
    ]
    try:
        for peer in running:
            peer.start()
        began = _learning(running)
        while time.monotonic() < began + WARM:
            time.sleep(0.05)
        before = [_seen(peer) for peer in running]
        time.sleep(seconds)
        after = [_seen(peer) for peer in running]
    finally:
        for peer in running:
            peer.signal(signal.SIGTERM)
        for peer in running:
            if peer.pid:
                peer.wait(10)
    spans = [[b - a for a, b in zip(*both, strict=True)] for both in zip(before, after, strict=True)]
    return Speed(
        statistics.mean(steps / clock for clock, _, steps, _ in spans),
        sum(cpu for _, cpu, _, _ in spans) / sum(steps for _, _, steps, _ in spans),
        round(sum(exchanges for *_, exchanges in spans)),
    )


def pinned(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})


def _learning(peers: list[PeerProcess]) -> float:
    until = time.monotonic() + PATIENCE
    while not all((status := p.status()) and status["t"] > 0 for p in peers):
        for peer in peers:
            peer.check()
        if time.monotonic() > until:
            raise SystemExit("the peers do not begin; see their logs")
        time.sleep(0.05)
    return time.monotonic()


def _seen(peer: PeerProcess) -> tuple[float, float, int, int]:
    """Read the clock, the processor time so far, iterations and exchanges."""
    status = peer.status()
    assert status is not None
    fields = Path(f"/proc/{peer.pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / TICKS
    return time.monotonic(), cpu, status["t"], status["exchanges"]


def compare(
    work: str, pairs: int = 5, seconds: float = 5.0, every: int = 20, **options: Any
) -> dict[str, Any]:
    """Let both kinds take turns; give the ratios of the pairs."""
    options = {"adoption": "ignore", "probe": "all", **options}
    turns: list[tuple[Speed, Speed]] = []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as place:
            plain = measure(Path(place, "alone"), work, None, seconds, options)
            turns.append((plain, measure(Path(place, "exchanging"), work, every, seconds, options)))
    return {
        "work": work,
        "every": every,
        **options,
        "alone_steps_s": round(statistics.median(a.steps for a, _ in turns), 1),
        "exchanging_steps_s": round(statistics.median(b.steps for _, b in turns), 1),
        "exchanges_s": round(statistics.median(b.exchanges for _, b in turns) / seconds / 2, 1),
        "kept_wall": spread([b.steps / a.steps for a, b in turns]).rounded(3),
        "kept_cpu": spread([a.cpu / b.cpu for a, b in turns]).rounded(3),
        "cpu_ms_step": [round(1e3 * statistics.median(x[i].cpu for x in turns), 3) for i in (0, 1)],
    }


def _probe(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def main() -> None:
    """Measure the works, one after the other."""
    parser = script_parser(__doc__)
    parser.add_argument("--works", nargs="+", default=list(WORKS), choices=list(WORKS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--adoption", default="ignore", help="what becomes of broadcasts")
    parser.add_argument("--probe", type=_probe, default="all", help="samples with which it looks at models")
    args = parser.parse_args()
    for work in args.works:
        print(
            json.dumps(
                compare(work, args.pairs, args.seconds, args.every, adoption=args.adoption, probe=args.probe)
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
