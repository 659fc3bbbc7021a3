"""The engine against a plain PyTorch loop over clients, on one machine in one run.

Work: the IoT MLP (39,769 parameters, BatchNorm with running statistics), 64 samples a client,
batch 16, SGD; a round is 18 local steps and one FedAvg exchange with about five neighbours.
Unit: client-steps per second = clients x local steps / wall seconds, exchanges included, after
warm-up. Loop and engine alternate; the median ratio and its range are reported, since machines
are noisy. The limit is the arithmetic of the dense layers at the rate of a large matrix product.

    python benchmarks/engine.py [--clients 40 500] [--pairs 5] [--json]
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from coterie.engine.execution import Stacked
from coterie.engine.preparation import prepare
from coterie.engine.simulator import Simulator
from coterie.experiment import Experiment

FEATURES, CLASSES, SAMPLES, BATCH, LR, T_EX, NEIGHBOURS = 296, 9, 64, 16, 0.05, 20, 5
LOCAL_STEPS = T_EX - 2
FLOPS = 6 * (FEATURES * 128 + 128 * CLASSES) * BATCH
"""Of one client-step: forward, and backward to inputs and weights, two for each multiplication."""


class Engine:
    """The stacked simulator, a round at a time."""

    def __init__(self, clients: int, compiled: bool) -> None:
        experiment = Experiment.parse(
            {
                "name": "bench",
                "seeds": 1,
                "methods": ["FedAvg"],
                "model": "iot_mlp",
                "data": {
                    "set": {
                        "name": "synthetic",
                        "features": FEATURES,
                        "classes": CLASSES,
                        "groups": 1,
                        "samples": 2000,
                    },
                    "clients": clients,
                    "sizes": [SAMPLES, SAMPLES],
                },
                "train": {"iterations": 10**9, "batch": BATCH, "lr": LR},
                "exchange": {"every": T_EX, "channel": {"name": "rayleigh", "neighbours": NEIGHBOURS}},
                "evaluate": {"every": 10**9},
            }
        )
        (stack,) = prepare(experiment).stacks
        self.simulator = Simulator(stack, Stacked(stack.task, compiled))

    def round(self) -> None:
        goal = self.simulator.t + T_EX
        while self.simulator.t < goal:
            self.simulator.advance()


class Loop:
    """What one would write first: a model and an optimiser for each client, one after the other."""

    def __init__(self, clients: int) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, CLASSES)
        )
        self.models = [copy.deepcopy(model) for _ in range(clients)]
        self.optimizers = [torch.optim.SGD(m.parameters(), lr=LR) for m in self.models]
        self.x = torch.randn(clients, SAMPLES, FEATURES)
        self.y = torch.randint(0, CLASSES, (clients, SAMPLES))

    def round(self) -> None:
        for _ in range(LOCAL_STEPS):
            for i, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
                rows = torch.randint(0, SAMPLES, (BATCH,))
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(self.x[i, rows]), self.y[i, rows]).backward()
                optimizer.step()
        star, *neighbours = torch.randperm(len(self.models))[: NEIGHBOURS + 1].tolist()
        states = [self.models[i].state_dict() for i in (star, *neighbours)]
        mean = {k: torch.stack([s[k].float() for s in states]).mean(dim=0) for k in states[0]}
        for i in (star, *neighbours):
            self.models[i].load_state_dict(mean)


def rate(clients: int, round_: Callable[[], None], seconds: float = 1.0) -> float:
    """Client-steps per second over at least so many seconds."""
    rounds, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds or not rounds:
        round_()
        rounds += 1
    return rounds * LOCAL_STEPS * clients / spent


def gemm_flops() -> float:
    """The machine's rate on a large matrix product, best of several."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = 0.0
    for _ in range(8):
        began = time.perf_counter()
        a @ b
        best = max(best, 2 * 2048**3 / (time.perf_counter() - began))
    return best


def measure(clients: int, pairs: int, compiled: bool) -> dict[str, float]:
    """Loop and engine in turn."""
    began = time.perf_counter()
    engine, loop = Engine(clients, compiled), Loop(clients)
    for _ in range(3):
        engine.round()
    ready = time.perf_counter() - began
    loop.round()
    loops, engines, limits = [], [], []
    for _ in range(pairs):
        limits.append(gemm_flops() / FLOPS)
        loops.append(rate(clients, loop.round))
        engines.append(rate(clients, engine.round))
    ratios = [e / n for e, n in zip(engines, loops, strict=True)]
    return {
        "clients": clients,
        "loop": statistics.median(loops),
        "engine": statistics.median(engines),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "limit": max(limits),
        "ready_s": ready,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[40, 500])
    parser.add_argument("--pairs", type=int, default=5, help="alternations of loop and engine")
    parser.add_argument("--eager", action="store_true", help="do not compile the local step")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(n, options.pairs, not options.eager) for n in options.clients]
    limit = max(r["limit"] for r in rows)
    for r in rows:
        r |= {"limit": limit, "loop_share": r["loop"] / limit, "engine_share": r["engine"] / limit}
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        f"IoT MLP, batch {BATCH}, on {os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}"
    )
    print("client-steps per second; share of the limit set by the machine's matrix product\n")
    print(
        f"{'clients':>8} {'loop':>16} {'engine':>16} {'ratio (range)':>20} {'limit':>10} {'ready after':>12}"
    )
    for r in rows:
        print(
            f"{r['clients']:>8} {r['loop']:>9,.0f} {r['loop_share']:>6.1%} {r['engine']:>9,.0f} "
            f"{r['engine_share']:>6.1%} {r['ratio']:>7.1f}x ({r['ratio_min']:.1f}-{r['ratio_max']:.1f})"
            f" {r['limit']:>11,.0f} {r['ready_s']:>10.1f} s"
        )


if __name__ == "__main__":
    main()
