"""The same work in other frameworks, each in an environment of its own, in turn with coterie.

    python -m benchmarks.frameworks.run [--only flower,fluke] [--work W1,W2] [--clients 20,100] [--pairs 5]

Environments are made once, under build/frameworks/. Every framework is one file here, `with_NAME.py`, and one
entry of frameworks.toml; it runs as a process of its own and waits while another has its turn. The result is
one table, as Markdown and as JSON with all versions. What cannot be installed, does not get through a round
or does not learn is in the table too, with the reason. Run it with the Python that has coterie.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

from benchmarks.common import markdown_table, script_parser
from benchmarks.simulator.machine import machine
from benchmarks.simulator.timing import Spread, spread

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLIENTS = {"W1": (20, 100), "W2": (10,)}


class Failure(Exception):  # noqa: N818
    """A framework cannot be measured; the reason is a result."""


def environment(name: str, framework: dict[str, Any], folder: Path, constraints: Path) -> Path:
    """Give the Python of a framework's environment; make the environment if there is none yet."""
    if "requires" not in framework:
        return Path(sys.executable)
    home = folder / name
    python, mark = home / "bin" / "python", home / "installed"
    if mark.exists():
        return python
    print(f"{name}: installing {' '.join(framework['requires'])} into {home}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    # Only torch is held to our version, so that all have the same; the rest is the framework's business.
    torch = next(line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    only = home / "constraints.txt"
    only.write_text(torch + "\n")
    answer = subprocess.run(
        [python, "-m", "pip", "install", "-c", only, "torch", *framework["requires"]],
        capture_output=True,
        text=True,
        check=False,
    )
    (home / "install.log").write_text(answer.stdout + answer.stderr)
    if answer.returncode:
        errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise Failure(f"pip cannot install it: {(errors or ['see install.log'])[-1].removeprefix('ERROR: ')}")
    mark.touch()
    return python


def version(python: Path, package: str) -> str:
    """Give the installed version of a package; empty if there is none."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


class Process:
    """A framework that waits for its turn; whatever it starts is ended with it."""

    def __init__(
        self, name: str, python: Path, work: str, clients: int, patience: float, folder: Path
    ) -> None:
        self.patience = patience
        self.log = folder / f"{name}-{work}-{clients}.log"
        self.place = tempfile.TemporaryDirectory()
        self.listener = Listener(f"{self.place.name}/turns", "AF_UNIX")
        self.began = time.perf_counter()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python, HERE / f"with_{name}.py", work, str(clients)],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.place.name,
                env={
                    "GOMP_SPINCOUNT": "5000",  # as the command `coterie` has it; the same for all
                    **os.environ,
                    "COTERIE_TURNS": f"{self.place.name}/turns",
                    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
                },
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in family(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.listener.close()
        self.place.cleanup()

    def ready(self) -> tuple[float, float]:
        """Wait for the first round; give the loss after it, and the seconds since the start."""
        socket: Any = self.listener._listener._socket  # type: ignore[attr-defined]  # has no other timeout
        socket.settimeout(1)
        while time.perf_counter() - self.began < self.patience and self.process.poll() is None:
            with contextlib.suppress(TimeoutError):
                self.line = self.listener.accept()
                return self._answer()["loss"], time.perf_counter() - self.began
        raise Failure(self._reason("it did not get ready"))

    def turn(self, seconds: float) -> float:
        """Let the framework run for a turn; give its client-steps per second."""
        self.line.send(seconds)
        answer = self._answer()
        return answer["steps"] / answer["seconds"]

    def stop(self) -> float:
        """End the framework; give its last loss."""
        self.line.send(None)
        return self._answer()["loss"]

    def memory(self) -> int:
        """Count the bytes that the process and its descendants have to themselves."""
        return sum(_own_bytes(pid) for pid in family(self.process.pid))

    def _answer(self) -> dict[str, float]:
        try:
            if self.line.poll(self.patience):
                answer: dict[str, float] = self.line.recv()
                return answer
        except (EOFError, ConnectionError):
            pass
        raise Failure(self._reason("no round was finished"))

    def _reason(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [line.strip() for line in lines if re.match(r"\s*[\w.]*(Error|Exception)\b", line)]
        waited = f" within {self.patience:.0f} s" if self.process.poll() is None else ""
        return f"{what}{waited}{': ' + errors[-1][:160] if errors else ''}"


def family(pid: int) -> list[int]:
    """List a process and all its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _own_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return 1024 * int(rollup.partition("\nPss:")[2].split()[0])
    return 0


def measure(
    name: str, python: Path, ours: Process, work: str, clients: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure one framework in turn with ours."""
    with Process(name, python, work, clients, options.patience, options.envs) as process:
        first, ready = process.ready()
        rates = [(process.turn(options.seconds), ours.turn(options.seconds)) for _ in range(options.pairs)]
        memory = process.memory()
        last = process.stop()
    if not last < first:
        raise Failure(f"it does not learn: the loss went from {first:.3f} to {last:.3f}")
    return {
        "rate": spread([theirs for theirs, _ in rates])._asdict(),
        "ours": spread([mine for _, mine in rates])._asdict(),
        "ratio": spread([mine / theirs for theirs, mine in rates])._asdict(),
        "ready_s": ready,
        "memory": memory,
        "loss": [first, last],
    }


def markdown(result: dict[str, Any]) -> str:
    """Write one table, and below it the frameworks that were not measured."""
    columns = (
        "work", "clients", "framework", "client-steps/s", "coterie is", "ready after s", "memory GB",
        "exchange",
    )  # fmt: skip
    rows, frameworks = [], result["frameworks"]
    for r in result["rows"]:
        framework = frameworks[r["framework"]]
        rows.append(
            (
                r["work"],
                str(r["clients"]),
                f"{framework['title']} {framework['version']}",
                f"{r['rate']['median']:,.0f}",
                _faster(Spread(**r["ratio"])) if "ratio" in r else "–",
                f"{r['ready_s']:.0f}",
                f"{r['memory'] / 1e9:.1f}",
                framework["exchange"],
            )
        )
    failed = [
        f"- {frameworks[f['framework']]['title']} ({f['work']}, {f['clients']} clients): {f['reason']}"
        for f in result["failures"]
    ]
    m = result["machine"]
    where = f"{m['processor']}, {m['cores']} cores, torch {m['torch']}, {m['date'][:10]}"
    table = markdown_table(columns, rows, words=("work", "framework", "exchange"))
    return "\n".join([where, "", table, "", *(["Not measured:", "", *failed] if failed else [])]) + "\n"


def _faster(ratio: Spread) -> str:
    tie = " tie" if ratio.verdict() == "tie" else ""
    return f"{ratio.median:.2g}x ({ratio.low:.2g}-{ratio.high:.2g}){tie}"


def prepare(table: dict[str, Any], names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Make the environments; describe each framework, with its Python or the reason why there is none."""
    found = {}
    for name in names:
        facts = {"title": name, **table[name], "version": "", "torch": ""}
        try:
            python = environment(name, facts, options.envs, options.constraints)
            facts |= {"version": version(python, facts["package"]), "torch": version(python, "torch")}
            facts["python"] = str(python)
        except Failure as failure:
            facts["broken"] = str(failure)
        found[name] = facts
    return found


def compare(work: str, clients: int, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Measure all frameworks on one size of a work; add rows and failures to the result."""
    settings = (work, clients, options.patience, options.envs)
    place = {"work": work, "clients": clients}
    with Process("coterie", Path(sys.executable), *settings) as own:
        _, ready = own.ready()
        rows = []
        for name, facts in result["frameworks"].items():
            if name == "coterie":
                continue
            print(f"{work}, {clients} clients: {name}", flush=True)
            try:
                if "broken" in facts:
                    raise Failure(facts["broken"])
                found = measure(name, Path(facts["python"]), own, work, clients, options)
                rows.append({**place, "framework": name, **found})
            except Failure as failure:
                result["failures"].append({**place, "framework": name, "reason": str(failure)})
                print(f"  {failure}", flush=True)
        rates = [r["ours"]["median"] for r in rows] or [own.turn(options.seconds)]
        facts = {"rate": spread(rates)._asdict(), "ready_s": ready, "memory": own.memory()}
        result["rows"] += [{**place, "framework": "coterie", **facts}, *rows]


def main() -> None:
    """Measure every framework in turn with coterie, and write the result after each size of a work."""
    parser = script_parser(__doc__)
    parser.add_argument("--only", help="names from frameworks.toml, such as loop,flower")
    parser.add_argument("--work", default="W1,W2")
    parser.add_argument("--clients", help="such as 20,100; by default what suits the work")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="the shortest turn; it is at least one round"
    )
    parser.add_argument("--patience", type=float, default=300, help="seconds until a framework is given up")
    parser.add_argument("--envs", type=Path, default=ROOT / "build/frameworks", help="where environments lie")
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument(
        "--out", type=Path, help="a .json file; by default frameworks.json beside the environments"
    )
    options = parser.parse_args()
    table = tomllib.loads((HERE / "frameworks.toml").read_text())
    ours = {**table.pop("coterie"), "title": "coterie", "version": version(Path(sys.executable), "coterie")}
    names = options.only.split(",") if options.only else list(table)
    if unknown := [name for name in names if name not in table]:
        parser.error(f"no such framework: {unknown[0]}; there are {', '.join(table)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    options.envs.mkdir(parents=True, exist_ok=True)
    out = options.out or options.envs / "frameworks.json"
    result: dict[str, Any] = {
        "bench": "frameworks",
        "format": 2,
        "machine": machine("cpu"),
        "pairs": options.pairs,
        "frameworks": {"coterie": ours, **prepare(table, names, options)},
        "rows": [],
        "failures": [],
    }
    for work in options.work.split(","):
        for clients in map(int, options.clients.split(",")) if options.clients else CLIENTS[work]:
            compare(work, clients, result, options)
            out.write_text(json.dumps(result, indent=2) + "\n")
            out.with_suffix(".md").write_text(markdown(result))
    print(f"\n{markdown(result)}\nwritten   {out}\nwritten   {out.with_suffix('.md')}")


if __name__ == "__main__":
    main()
