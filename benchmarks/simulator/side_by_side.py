"""Many methods side by side in one run: seconds by phase, with what is repeated recorded on the GPU or not.

    python -m benchmarks.simulator.side_by_side --device cuda --iterations 1000 --seeds 8

Methods that differ in structure share no launch, so here the host is what is measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict

import torch

from coterie.core.registry import registered
from coterie.engine.plan import choose_execution, prepare, tf32
from coterie.engine.simulator import Simulator
from coterie.experiment import Experiment

__all__ = ["seconds"]


def seconds(experiment: Experiment, *, record: bool) -> dict[str, float]:
    """Run an experiment to its end without writing anything; seconds by phase, `prepare` among them."""
    taken: dict[str, float] = defaultdict(float)
    begun = time.perf_counter()
    with tf32(experiment.tf32):
        (stack,) = prepare(experiment).stacks
        simulator = Simulator(stack, choose_execution(stack, None), record=record)
        taken["prepare"] = time.perf_counter() - begun
        while simulator.t < stack.iterations:
            since, phase = time.perf_counter(), stack.members[0].schedule.phase(simulator.t + 1)
            simulator.step_to_next_event()
            _wait(stack.device)
            taken[phase] += time.perf_counter() - since
            if simulator.evaluation_due():
                since = time.perf_counter()
                simulator.evaluate()
                taken["evaluate"] += time.perf_counter() - since
    return {**taken, "all": time.perf_counter() - begun}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Print one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--methods", nargs="*", default=sorted(registered("algorithm")))
    parser.add_argument("--plain", action="store_true", help="Measure without recording, too.")
    given = parser.parse_args()
    experiment = Experiment.parse(
        {
            "methods": given.methods,
            "seeds": list(range(given.seeds)),
            "data": {"clients": given.clients},
            "train": {"iterations": given.iterations},
            "device": given.device,
        }
    )
    for record in (True, False) if given.plain else (True,):
        found = seconds(experiment, record=record)
        print(json.dumps({"record": record, "methods": len(given.methods), **found}), flush=True)


if __name__ == "__main__":
    main()
