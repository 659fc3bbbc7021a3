"""Workloads W1 and W2, two models of the paper that learn and exchange in rounds, W0, and the plain loop.

A round is a number of local SGD steps of every client, and one exchange: a star and about five neighbours
take the mean of their models. This file needs torch and nothing else, so that other frameworks can be
given the very same work in an environment of their own.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from coterie.core.streams import Stream

__all__ = ["WORKS", "Loop", "Work", "deal", "learn", "mean_state", "network", "samples"]

POOL = 2000
"""Samples that all clients draw theirs from."""


@dataclass(frozen=True)
class Work:
    """One model, its samples and its round."""

    name: str
    title: str
    model: str
    inputs: tuple[int, ...]
    classes: int
    local_steps: int
    """Steps of every client between two exchanges."""
    paper_every: int
    """T_ex in the paper."""
    owned: int = 64
    """Samples of a client."""
    batch: int = 16
    lr: float = 0.05
    neighbours: int = 5


WORKS = {
    "W0": Work("W0", "digits MLP", "mlp", (64,), 10, local_steps=18, paper_every=20),
    "W1": Work("W1", "IoT MLP", "iot_mlp", (296,), 9, local_steps=18, paper_every=20),
    "W2": Work("W2", "EMNIST CNN", "emnist_cnn", (1, 28, 28), 47, local_steps=4, paper_every=5),
}


def network(work: Work) -> nn.Module:
    """Build the model as one would write it down, from the same seed every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if work.name == "W0":
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, work.classes))
        if work.name == "W1":
            return nn.Sequential(
                nn.BatchNorm1d(296), nn.Linear(296, 128), nn.ReLU(), nn.Linear(128, work.classes)
            )
        return nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(1024, 857), nn.ReLU(), nn.Linear(857, work.classes),
        )  # fmt: skip


@cache
def samples(work: Work) -> tuple[Tensor, Tensor]:
    """Draw inputs `[P, ...]` from a normal distribution, and let a linear teacher give them labels `[P]`."""
    size = math.prod(work.inputs)
    x = Stream(0, "bench inputs").normal(size, client=torch.arange(POOL)).float()
    teacher = Stream(0, "bench teacher").normal(work.classes, client=torch.arange(size)).float()
    return x.view(POOL, *work.inputs), (x @ teacher).argmax(dim=1)


def deal(work: Work, clients: int) -> Tensor:
    """Draw which samples each client has, `[M, 64]`."""
    return Stream(0, "bench deal").integers(work.owned, client=torch.arange(clients), high=POOL)


def learn(
    work: Work,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    draws: torch.Generator | None = None,
) -> Tensor:
    """Take one local step on a mini-batch of a client's samples; give the loss."""
    rows = torch.randint(0, len(x), (work.batch,), generator=draws, device=x.device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def mean_state(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Take the mean of some models."""
    return {k: torch.stack([s[k].float() for s in states]).mean(dim=0) for k in states[0]}


class Loop:
    """The loop one would write first: each client has a model and an optimiser, one steps after the other."""

    def __init__(self, work: Work, clients: int, device: str = "cpu") -> None:
        self.work, self.clients = work, clients
        model = network(work).to(device)
        self.models = [copy.deepcopy(model) for _ in range(clients)]
        self.optimizers = [torch.optim.SGD(m.parameters(), lr=work.lr) for m in self.models]
        x, y = samples(work)
        rows = deal(work, clients)
        self.x, self.y = x[rows].to(device), y[rows].to(device)
        self.draws = torch.Generator(device).manual_seed(0)

    def round(self) -> int:
        """Take everybody's local steps, then one exchange; give the number of client-steps."""
        for _ in range(self.work.local_steps):
            for i, (model, optimizer) in enumerate(zip(self.models, self.optimizers, strict=True)):
                learn(self.work, model, optimizer, self.x[i], self.y[i], self.draws)
        order = torch.randperm(self.clients, generator=self.draws, device=self.x.device)
        meeting = order[: self.work.neighbours + 1].tolist()
        mean = mean_state([self.models[i].state_dict() for i in meeting])
        for i in meeting:
            self.models[i].load_state_dict(mean)
        return self.work.local_steps * self.clients

    @torch.no_grad()
    def loss(self) -> float:
        """Compute the mean loss of all clients on their own samples, as of now."""
        losses = [
            nn.functional.cross_entropy(m(x), y) for m, x, y in zip(self.models, self.x, self.y, strict=True)
        ]
        return float(torch.stack(losses).mean())
