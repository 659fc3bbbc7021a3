"""The machine: its name, its memory, and its limit of client-steps per second.

On a CPU the limit is arithmetic: two operations for each multiplication by a weight, in the forward pass,
in the backward pass to the inputs and in that to the weights, at the rate of a large matrix product. On a
GPU it is memory: a step reads a client's parameters, writes and reads their gradient and writes them
back, at the rate of a large copy.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.simulator.workloads import Work, network
from coterie.runs.environment import environment
from coterie.storage.files import MARK

__all__ = ["Limit", "flops", "limit", "machine", "peak_memory", "synchronize", "traffic"]

TRIES = 5


class Limit(NamedTuple):
    """The rate of client-steps that the machine allows."""

    by: Literal["arithmetic", "memory"]
    rate: float
    """Operations or bytes a second, as measured."""
    cost: int
    """Operations or bytes of one client-step."""

    @property
    def client_steps(self) -> float:
        return self.rate / self.cost


def limit(work: Work, device: str) -> Limit:
    """Measure the limit now: the best of several tries."""
    if device.startswith("cuda"):
        return Limit("memory", copy_rate(device), traffic(work))
    return Limit("arithmetic", gemm_rate(), flops(work))


def flops(work: Work) -> int:
    """Count the operations of one client-step: 6 for each multiplication by a weight."""
    count = 0

    def weigh(layer: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal count
        if isinstance(layer, nn.Linear | nn.Conv2d):
            positions = output[0, 0].numel() if isinstance(layer, nn.Conv2d) else 1
            count += layer.weight.numel() * positions

    model = network(work).eval()
    for layer in model.modules():
        layer.register_forward_hook(weigh)
    model(torch.zeros(1, *work.inputs))
    return 6 * count * work.batch


def traffic(work: Work) -> int:
    """Count the bytes of one client-step: parameters and gradient, each read and written once at least."""
    return 4 * 4 * sum(p.numel() for p in network(work).parameters())


def gemm_rate(n: int = 2048) -> float:
    """Measure the operations a second of a large matrix product."""
    a, b = torch.ones(n, n), torch.ones(n, n)
    return 2 * n**3 / _fastest(lambda: a @ b, "cpu")


def copy_rate(device: str, size: int = 1 << 30) -> float:
    """Measure the bytes a second, read and written, of a large copy."""
    source = torch.ones(size, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source), device)


def _fastest(work: Callable[[], object], device: str) -> float:
    seconds = []
    for _ in range(TRIES):
        synchronize(device)
        began = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def synchronize(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def peak_memory(device: str = "cpu") -> int:
    """Give the most bytes that this process has had so far; on a GPU, those that torch allocated there."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    try:  # unlike getrusage's, this figure does not begin with that of the parent process
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def machine(device: str) -> dict[str, Any]:
    """Describe the machine and the software that a figure was measured with."""
    on_gpu = device.startswith("cuda")
    return {
        "generator": MARK,
        **environment(device),
        "torch": torch.__version__,  # with its build, which the package's version may leave out
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "compiler": next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "matmul": torch.get_float32_matmul_precision(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
