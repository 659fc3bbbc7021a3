"""Cost of an abusive member: a peer's learning speed under each attack, against the same peer left alone.

A real peer with mutual TLS on one core, and on another core a process with a member's key. Calm, attack,
calm, attack ... in turns; when it is calm the same process dials where nobody listens, so that what it takes
from the machine is no difference. Each attack is by another member, which has not earned anything yet.

Speed is steps by the clock; and the part of the core that the other threads leave to the one that learns,
which can be told on a machine that others use.

    python -m benchmarks.peers.abuse [--attacks calls reconnect idle] [--pairs 3] [--seconds 5] [--rate 500]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import script_parser
from benchmarks.peers.speed import pinned
from benchmarks.simulator.timing import spread
from coterie.peer.identity.identity import Identity
from coterie.peer.transport.grpc_common import SERVICE, grpc
from coterie.swarm.plan import free_ports
from tests.peer.loopback import raw_channel
from tests.threats.world import World

__all__ = ["ATTACKS", "compare"]

WARM = 2.0
"""Seconds of each turn before the clock starts."""


async def calls(identity: Identity, address: str, until: float, rate: float) -> int:
    """Make malformed calls over one channel; gRPC connects again whenever it is cut off."""
    made = 0
    async with raw_channel(identity, "p0", address) as channel:
        hello = channel.unary_unary(f"/{SERVICE}/Hello")

        async def one() -> None:
            with suppress(grpc.aio.AioRpcError):
                await hello(b"\xff", timeout=2)

        began, under_way = time.monotonic(), set[asyncio.Task[None]]()
        while time.monotonic() < until:
            while made < (time.monotonic() - began) * rate and len(under_way) < 64:
                task = asyncio.ensure_future(one())
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                made += 1
            await asyncio.sleep(0.002)
    return made


async def reconnect(identity: Identity, address: str, until: float, rate: float) -> int:
    """Make each malformed call over a channel of its own."""
    made, began = 0, time.monotonic()
    while time.monotonic() < until:
        async with raw_channel(identity, "p0", address) as channel:
            with suppress(grpc.aio.AioRpcError):
                await channel.unary_unary(f"/{SERVICE}/Hello")(b"\xff", timeout=2)
        made += 1
        await asyncio.sleep(max(0.0, began + made / rate - time.monotonic()))
    return made


async def idle(identity: Identity, address: str, until: float, rate: float) -> int:
    """Open connections on which nothing is said, and keep them."""
    context = ssl.create_default_context(cafile=str(identity.folder / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(identity.folder / "peer.pem", identity.folder / "peer.key")
    host, _, port = address.partition(":")
    kept, began = [], time.monotonic()
    while time.monotonic() < until:
        with suppress(OSError):
            kept.append(await asyncio.open_connection(host, int(port), ssl=context))
        await asyncio.sleep(max(0.0, began + len(kept) / rate - time.monotonic()))
    for _, writer in kept:
        writer.transport.abort()
    return len(kept)


ATTACKS = {attack.__name__: attack for attack in (calls, reconnect, idle)}


def _attack(name: str, folder: Path, address: str, core: int, seconds: float, rate: float) -> None:
    pinned(core)
    identity = Identity.load(folder)
    made = asyncio.run(ATTACKS[name](identity, address, time.monotonic() + seconds, rate))
    print(json.dumps({"attack": name, "made_s": round(made / seconds, 1)}), flush=True)


def _speed(world: World, seconds: float) -> tuple[float, float]:
    """Measure p0: steps a second, and the part of a core that other threads leave to the one that learns."""
    time.sleep(WARM)
    began, before, t = time.monotonic(), _threads(world), world.t("p0")
    time.sleep(seconds)
    steps, after = world.t("p0") - t, _threads(world)
    used = sorted(ns - before.get(thread, 0) for thread, ns in after.items())
    clock = time.monotonic() - began
    return steps / clock, 1 - 1e-9 * sum(used[:-1]) / clock


def _threads(world: World) -> dict[str, int]:
    """Read the processor time of each thread of p0, in nanoseconds; the one that learns has most of it."""
    tasks = Path(f"/proc/{world.processes['p0'].pid}/task")
    found = {}
    for task in tasks.iterdir():
        with suppress(OSError):  # it has ended
            found[task.name] = int((task / "schedstat").read_text().split()[0])
    return found


def compare(attack: str, pairs: int, seconds: float, rate: float) -> dict[str, Any]:
    """Let calm and attack take turns on one peer; give the ratios of the pairs."""
    ours, theirs = (sorted(os.sched_getaffinity(0)) * 2)[:2]
    context = multiprocessing.get_context("spawn")
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory() as place:
        world = World(
            Path(place), 1, prepare={0: partial(pinned, ours)}, rate=None, exchange={"every": 10**9}
        )
        turns = []
        try:
            world.start()
            world.learned_on()
            for number in range(pairs):
                folder = Path(place, f"m{number}")
                world.enrol(f"m{number}", folder)
                speeds = []
                for address in (nowhere, world.addresses[0]):
                    given = attack, folder, address, theirs, seconds + 2 * WARM, rate
                    enemy = context.Process(target=_attack, args=given)
                    enemy.start()
                    speeds.append(_speed(world, seconds))
                    enemy.join()
                turns.append((speeds[0], speeds[1]))
            refusals = (world.status("p0") or {})["refusals"]
            world.leave()
        finally:
            world.close()
    wall, cpu = (spread([b[i] / a[i] for a, b in turns]) for i in (0, 1))
    return {
        "attack": attack,
        "rate": rate,
        "calm_steps_s": round(statistics.median(a[0] for a, _ in turns), 1),
        "attacked_steps_s": round(statistics.median(b[0] for _, b in turns), 1),
        "kept_wall": wall.rounded(3),
        "kept_cpu": cpu.rounded(3),
        "core_left": [round(statistics.median(x[i][1] for x in turns), 3) for i in (0, 1)],
        "refusals": refusals,
    }


def main() -> None:
    """Measure the attacks, one after the other."""
    parser = script_parser(__doc__)
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=list(ATTACKS))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=500.0, help="calls or connections a second")
    args = parser.parse_args()
    for attack in args.attacks:
        print(json.dumps(compare(attack, args.pairs, args.seconds, args.rate)), flush=True)


if __name__ == "__main__":
    main()
