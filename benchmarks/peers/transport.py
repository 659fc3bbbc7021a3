"""Speed of a model between two peers: two processes on loopback, mutual TLS, every check.

A 4 MB model must move in under 100 ms, a 100 MB one at 200 MB/s or more, and each process may take at
most twice the model and 200 MB of memory. The median of the repetitions is given, and the extremes.

    python -m benchmarks.peers.transport [--megabytes 4 100] [--repeat 9] [--chunk 1048576] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import script_parser
from benchmarks.simulator.machine import peak_memory
from benchmarks.simulator.timing import spread
from coterie.core.types import Message
from coterie.peer.identity.authority import Authority, request
from coterie.peer.identity.identity import Identity
from coterie.peer.transport import codec
from coterie.peer.transport.base import ModelEnvelope, Version
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.grpc_server import GrpcServer
from coterie.peer.transport.limits import Limits
from coterie.peer.transport.schema import Schema

LAYERS = 20
"""A model is a stack of equal layers, so that chunks and tensors do not coincide."""


def model(megabytes: int) -> Message:
    """Make a model of that size, with values that no compression could shorten."""
    size = megabytes * 1_000_000 // (4 * LAYERS)
    return {f"layer{i}.weight": torch.randn(size, generator=torch.manual_seed(i)) for i in range(LAYERS)}


class Store:
    """A peer that answers with one model and takes whatever is sound."""

    def __init__(self, letter: ModelEnvelope) -> None:
        self.letter = letter

    async def reply(self, asker: str, question: ModelEnvelope | None = None) -> ModelEnvelope:
        return self.letter

    async def deliver(self, letter: ModelEnvelope) -> bool:
        return True

    async def gossip(self, sender: str, packet: bytes) -> bytes:
        return packet


async def serve(folder: Path, megabytes: int, limits: Limits) -> None:
    """Be the answering process: print the address first, and memory, before and at most, last."""
    base = peak_memory()
    message = model(megabytes)
    schema = Schema.of(message)
    letter = codec.seal(schema, "b", "bench", Version(1, 1), message)
    server = GrpcServer(Identity.load(folder), schema, "bench", "none", Store(letter), limits=limits)
    print(await server.start("127.0.0.1:0"), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(_megabytes(base, peak_memory())), flush=True)
    await server.stop()


async def measure(folder: Path, address: str, megabytes: int, repeat: int, limits: Limits) -> dict[str, Any]:
    """Be the calling process: time pulls, pushes and gossip."""
    base = peak_memory()
    message = model(megabytes)
    schema = Schema.of(message)
    letter = codec.seal(schema, "a", "bench", Version(1, 1), message)
    transport = GrpcTransport(Identity.load(folder), schema, "bench", "none", limits=limits)

    async def times(work: Callable[[], Awaitable[object]]) -> list[float]:
        await work()  # the handshake, and what is paid once
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            await work()
            seconds.append(time.perf_counter() - start)
        return seconds

    pull = await times(lambda: transport.pull("b", address))
    push = await times(lambda: transport.push("b", address, letter))
    gossip = await times(lambda: transport.gossip("b", address, b"x" * 1000))
    await transport.close()
    return {
        "megabytes": megabytes,
        **{
            f"{name}_ms": spread([1e3 * s for s in seconds]).rounded(2)
            for name, seconds in (("pull", pull), ("push", push), ("gossip", gossip))
        },
        "pull_MB_s": round(megabytes / statistics.median(pull)),
        "push_MB_s": round(megabytes / statistics.median(push)),
        "caller_MB": _megabytes(base, peak_memory()),
    }


def _megabytes(*sizes: int) -> list[int]:
    return [round(size / 1e6) for size in sizes]


def main() -> None:
    """Measure, or be one of the two processes."""
    parser = script_parser(__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[4, 100])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--chunk", type=int, default=Limits().chunk)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    limits = Limits(chunk=args.chunk)
    if args.serve:
        asyncio.run(serve(args.serve, args.megabytes[0], limits))
        return
    if args.call:
        folder, address = args.call
        result = asyncio.run(measure(Path(folder), address, args.megabytes[0], args.repeat, limits))
        print(json.dumps(result))
        return
    for result in transport(args.megabytes, args.repeat, args.chunk):
        print(json.dumps(result) if args.json else report(result), flush=True)


def transport(sizes: Sequence[int], repeat: int, chunk: int = Limits().chunk) -> Iterator[dict[str, Any]]:
    """Start both processes, for one size after the other."""
    with tempfile.TemporaryDirectory() as place:
        authority = Authority.create(Path(place, "ca"), "bench")
        for name in ("a", "b"):
            request(Path(place, name), name)
            authority.issue(Path(place, name, "peer.csr").read_bytes(), Path(place, name))
        for megabytes in sizes:
            common = [sys.executable, "-m", "benchmarks.peers.transport", "--megabytes", str(megabytes)]
            common += ["--repeat", str(repeat), "--chunk", str(chunk)]
            with subprocess.Popen(
                [*common, "--serve", f"{place}/b"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as server:
                assert server.stdin is not None
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                call = [*common, "--call", f"{place}/a", address]
                result = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
                server.stdin.write("\n")
                server.stdin.flush()
                result["answerer_MB"] = json.loads(server.stdout.readline())
            yield result


def report(result: dict[str, Any]) -> str:
    """Write a result for people."""
    lines = [f"{result['megabytes']} MB model"]
    for name in ("pull", "push", "gossip"):
        median, least, most = result[f"{name}_ms"]
        rate = f", {result[f'{name}_MB_s']} MB/s" if f"{name}_MB_s" in result else ""
        lines.append(f"  {name:8} {median:8.1f} ms ({least:.1f} to {most:.1f}){rate}")
    for name in ("caller", "answerer"):
        base, most = result[f"{name}_MB"]
        lines.append(f"  {name:8} {most} MB at most, {most - base} MB above the empty process")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
