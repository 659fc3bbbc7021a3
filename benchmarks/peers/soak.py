"""Peers under the nemesis for an hour: nothing corrupt or stale is taken, memory and descriptors stay flat.

`python -m benchmarks.peers.soak --minutes 60 --peers 10 --seed 0 --out runs/soak` (`make soak`), as root,
which network namespaces need. Writes report.md and report.json; exit code 1 if something was wrong.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import markdown_table, script_parser
from coterie.replay import replay
from tests.threats.checker import Breach, check, disagreements
from tests.threats.nemesis import Nemesis
from tests.threats.wire import NoMachinesError, Wire
from tests.threats.world import World

HEAL = 10.0
"""Seconds within which views must agree again."""
LONGEST = 30.0
"""Seconds of one harm."""
CALM = 15.0
"""Seconds between two harms."""
FLAT_FILES, FLAT_MEMORY = 3, 24_000
"""Descriptors and kilobytes that a peer may hold more in the last third than in the second."""
PEERS: dict[str, Any] = {
    "save": 5.0,
    "rate": 5,
    "exchange": {"every": 5},
    # Once or twice an hour something that ReLU cuts off at zero is nearer to it than float32 can tell: the
    # next step of a peer and of its twin then differ by more than rounding.
    "dtype": "float64",
}


class Sample(NamedTuple):
    """Descriptors and memory of one process at one moment of its life."""

    peer: str
    pid: int
    seconds: float
    files: int
    kilobytes: int


class Soak:
    """One run under the nemesis."""

    def __init__(self, out: Path, peers: int, seed: int) -> None:
        self.world = World(out / "peers", peers, Wire(peers, seed), **PEERS)
        self.samples: list[Sample] = []
        self.heals: list[tuple[str, float | None]] = []
        self.began = self._sampled = time.monotonic()
        self.nemesis = Nemesis(self.world, seed, LONGEST, self._sample)

    def run(self, minutes: float) -> None:
        """Do harm after harm, each mended and healed."""
        self.world.start()
        self.world.agree(seconds=60)
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            harm = self.nemesis.strike()
            self.world.until(lambda: all(self.world.t(name) >= 0 for name in self.world.names), 60)
            try:
                took: float | None = round(self.world.agree(seconds=HEAL), 1)
            except AssertionError:
                took = None
            self.heals.append((harm.what, took))
            passed = (time.monotonic() - self.began) / 60
            print(f"{passed:6.1f} min  {harm.what:15s} {harm.seconds:5.1f} s  healed in {took} s", flush=True)
            calm = time.monotonic() + min(CALM, max(0.0, until - time.monotonic()))
            while time.monotonic() < calm:
                self._sample()
                time.sleep(0.5)

    def report(self, again: bool) -> dict[str, Any]:
        """Give the verdict, after everybody has left."""
        views = {name: self.world.alive(name) for name in self.world.names}
        status = [self.world.status(name) or {} for name in self.world.names]
        refusals = sum((Counter(one.get("refusals", {})) for one in status), Counter[str]())
        self.world.leave()
        histories = {name: self.world.rows(name) for name in self.world.names}
        breaches = check(histories, self.world.names) + disagreements(views)
        breaches += [b for name in self.world.names for b in self._growth(name)]
        rows = [row for history in histories.values() for row in history]
        taken = sum(len(row["heard"]) if row["kind"] == "mix" else row["kind"] == "adopt" for row in rows)
        errors = [
            line for name in self.world.names for line in self.world.said(name) if line["level"] == "error"
        ]
        unhealed = [what for what, took in self.heals if took is None]
        heals = [took for _, took in self.heals if took is not None]
        found = replay(self.world.states()) if again else []
        differ = [f"{one.peer}: {one.parted}" for one in found if not one.agrees]
        return {
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            "peers": len(self.world.names),
            "harms": dict(Counter(harm.what for harm in self.nemesis.log)),
            "longest heal (s)": max(heals, default=None),
            "not healed in time": unhealed,
            "models taken": taken,
            "refusals of the last lives": dict(refusals),
            "breaches": [breach._asdict() for breach in breaches],
            "errors in logs": [line.get("why", line["what"]) for line in errors],
            "replay, largest difference": max((max(one.model, one.graph) for one in found), default=None),
            "replay differs": differ,
            "sound": not (breaches or unhealed or errors or differ),
        }

    def _sample(self) -> None:
        now = time.monotonic()
        if now - self._sampled < 2.0:
            return
        self._sampled = now
        for name in self.world.running():
            try:
                files, memory = self.world.held(name)
            except (OSError, StopIteration):  # it is gone by now
                continue
            pid = self.world.processes[name].pid or 0
            self.samples.append(Sample(name, pid, round(now - self.began, 1), files, memory))

    def _growth(self, name: str) -> list[Breach]:
        """Compare the last third of a peer's longest life with the second."""
        life = max(_lives(self.samples, name), key=len, default=[])
        if len(life) < 60:
            return []
        third = len(life) // 3
        middle, last = life[third : 2 * third], life[2 * third :]
        found = []
        for what, allowed in (("files", FLAT_FILES), ("kilobytes", FLAT_MEMORY)):
            before, after = (statistics.median(getattr(s, what) for s in part) for part in (middle, last))
            if after > before + allowed:
                found.append(Breach("flat", name, 0, f"{what} grew from {before} to {after}"))
        return found


def _lives(samples: list[Sample], name: str) -> list[list[Sample]]:
    """Part the samples of one peer by its processes."""
    lives: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.peer == name:
            lives.setdefault(sample.pid, []).append(sample)
    return list(lives.values())


def _markdown(report: dict[str, Any], samples: list[Sample]) -> str:
    verdict = "nothing was wrong" if report["sound"] else "something was wrong, see below"
    facts = [(key, str(value)) for key, value in report.items() if key != "breaches"]
    breaches = [f"- {breach}" for breach in report["breaches"]]
    parts = ["# Soak", f"Verdict: {verdict}.", markdown_table(("", " "), facts), *breaches]
    return "\n\n".join([*parts, _by_peer(samples), _by_minute(samples)]) + "\n"


def _by_peer(samples: list[Sample]) -> str:
    """Table what each peer held in the thirds of its longest life."""
    rows = []
    for name in sorted({sample.peer for sample in samples}):
        lives = _lives(samples, name)
        life = max(lives, key=len)
        third = max(1, len(life) // 3)
        parts = [part for k in range(3) if (part := life[k * third : (k + 1) * third])]
        files = ", ".join(f"{statistics.median(s.files for s in part):.0f}" for part in parts)
        memory = ", ".join(f"{statistics.median(s.kilobytes for s in part) / 1000:.0f}" for part in parts)
        minutes = (life[-1].seconds - life[0].seconds) / 60
        rows.append((name, str(len(lives)), f"{minutes:.1f}", files, memory))
    columns = ("peer", "lives", "the longest, minutes", "descriptors, by thirds", "memory in MB, by thirds")
    return markdown_table(columns, rows)


def _by_minute(samples: list[Sample]) -> str:
    """Table what all peers held as time went by, in a dozen rows at most."""
    rows, at = [], 0.0
    step = max(60.0, samples[-1].seconds / 12) if samples else 60.0
    while samples and at < samples[-1].seconds:
        if part := [s for s in samples if at <= s.seconds < at + step]:
            files, memory = [s.files for s in part], [s.kilobytes / 1000 for s in part]
            descriptors = f"{statistics.median(files):.0f}, {max(files)}"
            rows.append(
                (f"{at / 60:.0f}", descriptors, f"{statistics.median(memory):.0f}, {max(memory):.0f}")
            )
        at += step
    return markdown_table(("minute", "descriptors, median, most", "memory in MB, median, most"), rows)


def main() -> int:
    """Soak, report, and give the exit code."""
    parser = script_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--peers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    parser.add_argument("--no-replay", action="store_true", help="do not compute the models again")
    options = parser.parse_args()
    if options.out.exists():
        print(f"error: {options.out} exists; name another folder with --out", file=sys.stderr)
        return 2
    try:
        soak = Soak(options.out, options.peers, options.seed)
    except NoMachinesError as error:
        print(f"error: {error}; run it as root", file=sys.stderr)
        return 2
    try:
        soak.run(options.minutes)
        report = soak.report(again=not options.no_replay)
    finally:
        soak.world.close()
    text = _markdown(report, soak.samples)
    (options.out / "report.md").write_text(text)
    (options.out / "report.json").write_text(
        json.dumps({**report, "samples": [s._asdict() for s in soak.samples]}) + "\n"
    )
    print(text)
    return 0 if report["sound"] else 1


if __name__ == "__main__":
    sys.exit(main())
