"""Methods, attacks and distances as a user may get them wrong, found as `"tests.engine.wrong:Method"`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.attack import Attack
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Context, Inbox, Message, Probe, Reachable, Start, State


@dataclass(frozen=True)
class Method(Algorithm):
    """Keeps its own model, and does one thing wrong."""

    how: str = ""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        state = Algorithm.init(self, task, start, ctx)
        wrong: dict[str, dict[str, Any]] = {
            "init": {"optim": {"velocity": start.row}},
            "rows": {"rows": {"second": start.row[1:]}},
            "a number for a row": {"rows": {"count": start.row.sum()}},
        }
        return state._replace(**wrong.get(self.how, {}))

    def lr_scale(self, t: int) -> Any:
        if self.how == "lr_scale raises" and t > 7:
            raise ZeroDivisionError("oops")
        return "slow" if self.how == "lr_scale" else 1.0

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Any]:
        new, info = task.step(state, batch)
        if self.how == "loss of each":
            return new, {"loss": info["loss"].expand(4)}
        return new, {} if self.how == "no loss" else info

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Any:
        if self.how == "offer":
            return list(state.params.values())
        return {"count": torch.ones(2).long()} if self.how == "integers" else task.select(state)

    @property
    def answers(self) -> bool:
        return self.how in ("question", "reply", "reply of integers")

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Any:
        return None if self.how == "question" else {}

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Any:
        return {"count": torch.ones(2).long()} if self.how == "reply of integers" else {}

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Any:
        return reachable.slot if self.how == "ask" else reachable.mask

    def model(self, state: State) -> Any:
        wrong = {"model": state.params, "half a model": ({}, state.buffers)}
        return wrong.get(self.how, (state.params, state.buffers))

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Any:
        scores = task.logits(state, x)
        return scores.argmax(dim=-1) if self.how == "predict" else scores

    def wire_bytes(self, message: Message) -> Any:
        return 0.5 if self.how == "wire_bytes" else 1

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> Any:
        first = next(iter(state.params))
        one = inbox.messages.get(first, state.params[first])
        changed = {
            "extra axis": lambda: task.merge(state, inbox.messages),
            "other type": lambda: state._replace(params={k: v.half() for k, v in state.params.items()}),
            "missing": lambda: state._replace(params={}),
            "new": lambda: state._replace(memory={"a": torch.zeros(())}),
            "one message": lambda: task.merge(state, {first: one.reshape(state.params[first].shape)}),
        }.get(self.how, lambda: state)()
        heard = inbox.heard.double()
        infos: dict[str, dict[str, Any]] = {
            "scalar": {"weight": heard.sum()},
            "matrix": {"distance": heard[:, None]},
            "number": {"weight": 1.0},
            "taken": {"neighbours": heard},
        }
        return changed if self.how == "no pair" else (changed, infos.get(self.how, {}))


@dataclass(frozen=True)
class Lie(Attack):
    """Sends its honest model, and does one thing wrong."""

    how: str = ""

    @property
    def trains(self) -> Any:
        return (lambda: False) if self.how == "trains" else True

    def labels(self, y: Tensor, classes: int) -> Any:
        if self.how == "labels raise":
            raise KeyError("label")
        return {"outside": y + classes, "short": y[1:], "floats": y.double(), "none": None}.get(self.how, y)

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Any:
        if self.how == "raises":
            raise ValueError("my attack")
        if self.how == "shape":
            return {k: m.flatten()[:1] for k, m in honest.items()}
        return {} if self.how == "keys" else honest


def scalar(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).square().mean()


def pooled(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).square().sum(dim=(-1, -2))


def of_each_label(p: Tensor, q: Tensor) -> Tensor:
    return (p - q).square()


def raises(p: Tensor, q: Tensor) -> Tensor:
    raise ValueError("bad distance")


five = 5
