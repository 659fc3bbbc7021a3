"""Start-up and memory of the engine in a process of its own, where nothing else adds to either.

python -m benchmarks.simulator.subprocess_probe '{"work": "W1", "clients": 20}'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.core.errors import CoterieError, RunError

__all__ = ["probe"]

ROOT = Path(__file__).parents[2]
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "XDG_CACHE_HOME": "home"}


def probe(settings: Mapping[str, Any], caches: str | None = None) -> dict[str, float]:
    """Build the engine and go one round in a fresh process, with `settings` as `Engine` takes them.

    `caches` is a folder for compiled code; with an empty one, everything is compiled anew.
    """
    own = {name: os.path.join(caches, folder) for name, folder in _CACHES.items()} if caches else {}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.simulator.subprocess_probe", json.dumps(dict(settings))],
        env={**os.environ, **own, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        last = answer.stderr.strip().rpartition("\n")[2]
        reason = last or ("it was killed" if answer.returncode < 0 else f"exit code {answer.returncode}")
        raise RunError(f"a bench of {settings['clients']} clients did not get through: {reason}")
    found: dict[str, float] = json.loads(answer.stdout.rpartition("\n")[2])
    return found


def _measure(settings: dict[str, Any]) -> dict[str, float]:
    """Give the seconds of each stage, and the bytes before there were clients and at most."""
    began = time.perf_counter()
    from benchmarks.simulator.engine_contender import Engine
    from benchmarks.simulator.machine import peak_memory, synchronize
    from benchmarks.simulator.workloads import WORKS

    work, device = WORKS[settings.pop("work")], settings.get("device", "cpu")
    imported = time.perf_counter()
    before = peak_memory(device)
    engine = Engine(work, **settings)
    prepared = time.perf_counter()
    engine.round()
    synchronize(device)
    first = time.perf_counter()
    engine.round()
    synchronize(device)
    second = time.perf_counter()
    return {
        "import_s": imported - began,
        "prepare_s": prepared - imported,
        "compile_s": max(0.0, (first - prepared) - (second - first)),
        "ready_s": first - began,
        "memory_before": before,
        "memory": peak_memory(device),
        "models": 4 * engine.parameters * engine.clients,
    }


if __name__ == "__main__":
    try:
        print("\n" + json.dumps(_measure(json.loads(sys.argv[1]))), end="")
    except CoterieError as error:
        sys.exit(str(error))
