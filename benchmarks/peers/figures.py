"""Figures of docs/peers.md, measured on this machine and printed as their table.

    python -m benchmarks.peers.figures [--pairs 5] [--repeat 9] [--only speed]

As root, which the partition needs (network namespaces); without, that row is left out. A quiet machine
gives better figures: what else it had to do is in the last line.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import script_parser
from benchmarks.peers.speed import compare
from benchmarks.peers.transport import transport
from benchmarks.simulator.machine import machine
from tests.threats.wire import NoMachinesError, Wire
from tests.threats.world import World

CROWD = 10
CUT = 15.0
"""Seconds of a partition, after which both sides take each other for dead."""
COMMAND = "python -m benchmarks.peers.figures"


class Row(NamedTuple):
    """One figure."""

    what: str
    asked: str
    got: str
    met: bool


def join(options: argparse.Namespace) -> Iterator[Row]:
    """Time peers that know one seed until each knows all others."""
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place), CROWD)
        try:
            world.start()
            world.agree(seconds=60)
            seen = time.time()
            ready = [
                datetime.fromisoformat(world.said(n, "ready")[0]["time"]).timestamp() for n in world.names
            ]
        finally:
            world.close()
    took = seen - max(ready)
    what = f"{CROWD} peers that know one seed know each other, after the last one is ready"
    yield Row(what, "5 s", f"{took:.1f} s", took <= 5)


def heal(options: argparse.Namespace) -> Iterator[Row]:
    """Time two halves that lost each other until all views agree again."""
    try:
        wire = Wire(CROWD)
    except NoMachinesError as error:
        print(f"no partition: {error}; run it as root", file=sys.stderr)
        return
    half = range(CROWD // 2), range(CROWD // 2, CROWD)
    with tempfile.TemporaryDirectory() as place:
        world = World(Path(place), CROWD, wire)
        try:
            world.start()
            world.agree(seconds=60)
            wire.part(*half)
            for side in half:
                world.agree(*(world.names[i] for i in side), seconds=60)
            time.sleep(CUT)
            wire.heal()
            took = world.agree(seconds=60)
        finally:
            world.close()
    yield Row(f"views of {CROWD} peers agree after a partition heals", "10 s", f"{took:.1f} s", took <= 10)


def move(options: argparse.Namespace) -> Iterator[Row]:
    """Time models between two processes."""
    small, large = transport([4, 100], options.repeat)
    for way in ("pull", "push"):
        median, least, most = small[f"{way}_ms"]
        got = f"{median:.0f} ms ({least:.0f} to {most:.0f})"
        yield Row(f"4 MB model, {way}", "100 ms", got, median < 100)
    for way in ("pull", "push"):
        median, least, most = (100e3 / ms for ms in large[f"{way}_ms"])
        got = f"{median:.0f} MB/s ({most:.0f} to {least:.0f})"
        yield Row(f"100 MB model, {way}", "200 MB/s", got, median >= 200)
    grown = max(most - base for base, most in (large["caller_MB"], large["answerer_MB"]))
    yield Row("memory for it, above the empty process", "400 MB", f"{grown} MB", grown <= 400)


def speed(options: argparse.Namespace) -> Iterator[Row]:
    """Compare steps with an exchange every 20 with steps alone."""
    for work, name, adoption in (
        ("W1", "MLP, 0.04 M parameters", "mix"),
        ("W1", "the same, no broadcasts (`ignore`)", "ignore"),
        ("W2", "CNN, 0.97 M parameters", "mix"),
        ("W2", "the same, no broadcasts (`ignore`)", "ignore"),
    ):
        found = compare(work, options.pairs, adoption=adoption)
        wall, cpu = (
            f"{m:.0%} ({low:.0%} to {high:.0%})" for m, low, high in (found["kept_wall"], found["kept_cpu"])
        )
        got = f"{wall}; by processor time {cpu}"
        yield Row(
            f"speed kept with an exchange every 20 steps: {name}", "80 %", got, found["kept_wall"][0] >= 0.8
        )


FIGURES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "join": join,
    "heal": heal,
    "move": move,
    "speed": speed,
}


def main() -> int:
    """Print the table, row by row."""
    parser = script_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument(
        "--pairs", type=int, default=5, help="turns of speed, each with and without exchanges"
    )
    parser.add_argument("--repeat", type=int, default=9, help="moves of a model")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    print("| | asked | measured | |\n| --- | --- | --- | --- |", flush=True)
    met = True
    for name in options.only:
        for row in FIGURES[name](options):
            met &= row.met
            print(f"| {row.what} | {row.asked} | {row.got} | {'✓' if row.met else '✗'} |", flush=True)
    m = machine("cpu")
    print(
        f"\n<sub>`{COMMAND}` on {m['date'][:10]}, commit {(m['commit'] or 'none')[:7]}, {m['cores']} cores, "
        f"{m['processor']}, Linux {platform.release().partition('-')[0]}; medians and ranges; load of the "
        f"machine before the start {before:.1f}.</sub>"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
