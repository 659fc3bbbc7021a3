"""Turns of a framework: it calls `done` after each of its rounds, and waits there while others run.

Client-steps are counted where they happen, by a hook on every `optimizer.step()` in this process; a
framework that steps in other processes says how many there were.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Client

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.simulator.workloads import WORKS, Work, deal, network, samples

__all__ = ["Turns", "asked", "epoch", "kept", "loss_of", "owned"]


def asked() -> tuple[Work, int]:
    """Read the work and the number of clients that this process was started for."""
    return WORKS[sys.argv[1]], int(sys.argv[2])


def owned(work: Work, clients: int) -> tuple[Tensor, Tensor]:
    """Take the samples of every client, `[M, 64, ...]` and `[M, 64]`."""
    x, y = samples(work)
    rows = deal(work, clients)
    return x[rows], y[rows]


@cache
def kept(work: Work, clients: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Make a model and the samples of all clients, once in a process."""
    return network(work), *owned(work, clients)


def epoch(work: Work, clients: int) -> tuple[Tensor, Tensor]:
    """Repeat the samples until one epoch is as many mini-batches as a round has local steps."""
    x, y = owned(work, clients)
    rows = torch.arange(work.local_steps * work.batch) % work.owned
    return x[:, rows], y[:, rows]


@torch.no_grad()
def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Compute the loss of one model on the samples of all clients, with the statistics of each."""
    was = model.training
    model.train()
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    losses = [nn.functional.cross_entropy(model(a), b) for a, b in zip(x, y, strict=True)]
    model.load_state_dict(kept)
    model.train(was)
    return float(torch.stack(losses).mean())


class Turns:
    """The framework's side of the line to `run.py`."""

    def __init__(self, loss: Callable[[], float]) -> None:
        self.loss, self.steps, self.until, self.began = loss, 0, -1.0, 0.0
        self.line = Client(os.environ["COTERIE_TURNS"], "AF_UNIX")
        register_optimizer_step_post_hook(self._count)

    def _count(self, *_: object) -> None:
        self.steps += 1

    def done(self, elsewhere: int = 0) -> None:
        """End a round; `elsewhere`: the client-steps that other processes took in that round."""
        self.steps += elsewhere
        spent = time.perf_counter() - self.began
        if self.until < 0:
            self.line.send({"loss": self.loss()})
        elif spent < self.until:
            return
        else:
            self.line.send({"steps": self.steps, "seconds": spent})
        wanted = self.line.recv()
        if wanted is None:
            self.line.send({"loss": self.loss()})
            self.line.close()
            sys.stdout.flush()
            os._exit(0)  # frameworks have no way to leave a simulation in the middle
        self.until, self.steps, self.began = wanted, 0, time.perf_counter()
