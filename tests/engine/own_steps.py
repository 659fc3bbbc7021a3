"""Algorithms with a local step of their own, found as `"tests.engine.own_steps:Ditto"`."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.core.algorithm import Algorithm
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Info, Start, State, Tensors
from coterie.plugins.algorithms.fedavg import FedAvg

__all__ = ["Ditto", "FedRep"]


@dataclass(frozen=True)
class Ditto(FedAvg):
    """A personal model, pulled at by a second one that learns on its own (Li et al., ICML 2021)."""

    strength: float = 0.5

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        return state._replace(memory=_named("shared.", {**start.params, **start.buffers, **state.optim}))

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        params, buffers, optim = ({k: state.memory[f"shared.{k}"] for k in part} for part in state[:3])
        other, _ = task.step(State(params, buffers, optim, {}, {}), batch)
        new, info = task.step(state, batch, pull=(params, self.strength))
        return new._replace(memory=_named("shared.", {**other.params, **other.buffers, **other.optim})), info


@dataclass(frozen=True)
class FedRep(FedAvg):
    """The head learns for half of the steps, then the base (Collins et al., ICML 2021)."""

    every: int = 4

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        return Algorithm.init(self, task, start, ctx)._replace(memory={"steps": start.row.new_zeros(())})

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        steps = state.memory["steps"]
        head = (steps % self.every < self.every / 2).to(batch.lr.dtype)
        scale = dict.fromkeys(task.names("head"), head) | dict.fromkeys(task.names("base"), 1 - head)
        new, info = task.step(state, batch, scale=scale)
        return new._replace(memory={"steps": steps + 1}), info


def _named(prefix: str, tensors: Tensors) -> Tensors:
    return {prefix + k: v for k, v in tensors.items()}
