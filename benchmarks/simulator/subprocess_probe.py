"""Start-up and memory, in a process of their own: only there they are not mixed up with anything else.

python -m coterie.bench.alone '{"work": "W1", "clients": 20}'
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

__all__ = ["alone"]

_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "XDG_CACHE_HOME": "home"}


def alone(settings: Mapping[str, Any], caches: str | None = None) -> dict[str, float]:
    """Build the engine and go one round in a fresh process, with `settings` as `Engine` takes them.

    `caches` is a folder in which what was compiled is kept; empty, everything is compiled anew.
    """
    own = {name: os.path.join(caches, folder) for name, folder in _CACHES.items()} if caches else {}
    answer = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(dict(settings))],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        last = answer.stderr.strip().rpartition("\n")[2]
        reason = last or ("it was killed" if answer.returncode < 0 else f"exit code {answer.returncode}")
        raise RunError(f"a bench of {settings['clients']} clients did not get through: {reason}")
    found: dict[str, float] = json.loads(answer.stdout.rpartition("\n")[2] or answer.stdout)
    return found


def _measure(settings: dict[str, Any]) -> dict[str, float]:
    began = time.perf_counter()
    from coterie.bench.machine import synchronize
    from coterie.bench.ours import Engine
    from coterie.bench.work import WORKS

    work, device = WORKS[settings.pop("work")], settings.get("device", "cpu")
    imported = time.perf_counter()
    before = _peak(device)
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
        "memory": _peak(device),
        "models": 4 * engine.parameters * engine.clients,
    }


def _peak(device: str) -> int:
    """The most memory this process has had so far, in bytes."""
    import resource

    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    try:  # unlike getrusage's, this figure does not begin with that of the parent process
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    try:
        print("\n" + json.dumps(_measure(json.loads(sys.argv[1]))), end="")
    except CoterieError as error:
        sys.exit(str(error))
