"""Validate what algorithms and attacks return, which may be anybody's code; errors name the tensor.

`what` says whose it is. All are tensors of one client, which under `vmap` stand for those of many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.errors import ConfigError, ModelError
from coterie.core.ingredients.feedback import Feedback, take_feedback
from coterie.core.registry import describe_type, user_code
from coterie.core.tasks.measuring import measure_client
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_kind import TaskKind
from coterie.core.types import Batch, Context, Inbox, Info, Message, Probe, Reachable, Start, State, Tensors

__all__ = [
    "ValidatingAlgorithm",
    "is_finite",
    "refuse_without_classes",
    "same_tensors",
    "validate_outputs",
]

_TAKEN = ("world", "t", "kind", "client", "neighbours")
"""Names in a row of `exchanges.jsonl` beside those that an algorithm reports."""


@dataclass(frozen=True, kw_only=True)
class ValidatingAlgorithm(Algorithm):
    """An algorithm of which every return value is checked, for a dry run."""

    inner: Algorithm
    its: str
    """Name of its settings, `methods.KD-PDFL`."""
    where: str = ""
    """Words about how it is run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "crosses", self.inner.crosses)  # a class has it, and this one has many

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        given: Any = self.inner.init(task, start, ctx)
        usual = Algorithm.init(self, task, start, ctx)
        if isinstance(given, State):
            usual = usual._replace(memory=given.memory, rows=given.rows)  # which may be anything
        state, slots = _same_state(f"{self.its}: init", given, usual), len(start.row)
        for name, tensor in state.rows.items():
            if not tensor.dim() or len(tensor) != slots:
                raise ConfigError(
                    f"{self.its}: init: rows: {name!r} must have one entry for each of the {slots} slots on "
                    f"its first axis, got {describe_type(tensor)}; what is not of one neighbour "
                    "belongs in memory"
                )
        return state

    def lr_scale(self, t: int) -> float:
        with user_code(f"{self.its}: lr_scale failed at iteration {t}"):
            scale = self.inner.lr_scale(t)
        if not is_finite(scale):
            raise ConfigError(
                f"{self.its}: lr_scale must give a finite number, got {scale!r} at iteration {t}"
            )
        return scale

    def local(self, task: Task, state: State, batch: Batch, ctx: Context) -> tuple[State, Info]:
        what = f"{self.its}: local"
        new, info = _pair(what, self.inner.local(task, state, batch, ctx), state)
        if "loss" not in info:
            raise ConfigError(f"{what} must report the 'loss', got {', '.join(map(str, info)) or 'nothing'}")
        _of_shape(what, info, "loss", [])
        return new, info

    def close(self, task: Task, state: State, ctx: Context) -> State:
        what, given = f"{self.its}: close", self.inner.close(task, state, ctx)
        memory = given.memory if isinstance(given, State) else {}
        return _same_state(what, given, state._replace(memory=_dict(f"{what}: memory", memory)))

    def settle(self, task: Task, state: State, ctx: Context) -> State:
        return _same_state(f"{self.its}: settle", self.inner.settle(task, state, ctx), state)

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        given: Any = self.inner.ask(task, state, reachable, ctx)
        return _like(f"{self.its}: ask", given, reachable.mask, "one for each neighbour in reach")

    @property
    def answers(self) -> bool:
        return self.inner.answers

    @property
    def feeds_back(self) -> bool:
        return self.inner.feeds_back

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self._message("question", self.inner.question(task, state, probe, ctx))

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Message:
        given = self._message("reply", self.inner.reply(task, state, question, probe, ctx))
        if not given:
            raise ConfigError(f"{self.its}: reply must give tensors to a star that asks, got none")
        return given

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return self._message("offer", self.inner.offer(task, state, probe, ctx))

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self._exchange("mix", task, state, inbox, probe, ctx)

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return self._exchange("adopt", task, state, inbox, probe, ctx)

    def model(self, state: State) -> tuple[Tensors, Tensors]:
        given: Any = self.inner.model(state)
        if not (isinstance(given, tuple) and len(given) == 2):
            raise ConfigError(
                f"{self.its}: model must give parameters and buffers, got {describe_type(given)}"
            )
        for part, found, wanted in zip(("parameters", "buffers"), given, state, strict=False):
            same_tensors(f"{self.its}: model: {part}", found, wanted)
        return given

    def predict(self, task: Task, state: State, x: Tensor, probe: Probe) -> Tensor:
        self.model(state)
        given: Any = self.inner.predict(task, state, x, probe)
        return _like(f"{self.its}: predict", given, task.logits(state, x), "a score for each label")

    def _message(self, call: str, given: Any) -> Message:
        for name, tensor in _dict(f"{self.its}: {call}", given).items():
            if not (isinstance(tensor, Tensor) and tensor.is_floating_point()):
                raise ConfigError(
                    f"{self.its}: {call} must give floating-point tensors, but {name!r} is "
                    f"{describe_type(tensor)}"
                )
        weight = self.inner.wire_bytes(given)
        if not (isinstance(weight, int) and weight >= 0):
            raise ConfigError(f"{self.its}: wire_bytes must give a number of bytes, got {weight!r}")
        message: Message = given
        return message

    def _exchange(
        self, act: str, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
    ) -> tuple[State, Info]:
        what, senders = f"{self.its}: {act}", inbox.heard.shape[-1]
        messages = f"{senders} message{'s'[: senders > 1]}"
        with user_code(f"{what} of {type(self.inner).__name__} failed on {messages}{self.where}"):
            given = getattr(self.inner, act)(task, state, inbox, probe, ctx)
        new, info = _pair(what, given, state)
        for name in info:
            if name in _TAKEN:
                raise ConfigError(f"{what} reports {name!r}, a name that is taken; use another")
        for name in ("weight", "distance", "heard"):
            _of_shape(what, info, name, [senders])
        _of_shape(what, info, "confidence", [])
        self._validate_feedback(what, act == "mix" and self.inner.feeds_back, inbox, info)
        return new, info

    def _validate_feedback(self, what: str, wanted: bool, inbox: Inbox, info: Info) -> None:
        """Raise unless what goes back has the names and shapes of what was heard, or is not there."""
        found = take_feedback(info)[1]
        heard: Feedback = {"own": inbox.messages, **dict(enumerate(f.messages for f in inbox.foreign))}
        for way, messages in heard.items():
            back = found.get(way, {})
            same_tensors(f"{what}: feedback (`feeds_back` is {wanted})", back, messages if wanted else {})


def same_tensors(what: str, given: Any, wanted: Tensors) -> Tensors:
    """Return the given tensors if they have the names, shapes and types of those that are wanted."""
    found = _dict(what, given)
    for name in [*wanted, *found]:
        if (name in found) != (name in wanted):
            odd = "is missing" if name in wanted else "is new"
            raise ConfigError(f"{what}: {name!r} {odd}; expected the same tensors as it was given")
    for name, tensor in wanted.items():
        if describe_type(found[name]) != describe_type(tensor):
            raise ConfigError(
                f"{what}: {name!r} must be {describe_type(tensor)}, got {describe_type(found[name])}"
            )
    return found


def refuse_without_classes(algorithm: Algorithm, its: str, kind: TaskKind, name: str) -> None:
    """Raise if an algorithm needs labels, but targets are not one class each; `name`: of the task."""
    if algorithm.needs_classes and not kind.predicts_classes:
        raise ConfigError(
            f"{its}: {type(algorithm).__name__} needs labels, but the targets of the task {name!r} are no "
            "classes; choose another method"
        )


def validate_outputs(
    task: Task, model: State, outputs: Any, x: Tensor, y: Tensor, names: Sequence[str]
) -> None:
    """Raise if what a model puts out for samples does not fit the task, or the task's loss or metrics fail.

    `names`: of the classes, targets or tokens.
    """
    kind, n = task.kind, len(x)
    wanted = (n, *kind.shape(tuple(x.shape[1:]), tuple(names)))
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != wanted:
        classes = wanted == (n, len(names)) and kind.has_classes
        whose = "labels" if classes else "targets"
        why = f": one number for each of {len(names)} classes" if classes else ""
        raise ModelError(
            f"model {type(task.model).__name__} puts out {shape} for {n} samples, but the {whose} "
            f"need {wanted}{why}"
        )
    loss = kind.mean_loss(outputs, kind.targets(x, y))
    if loss.shape != () or not loss.is_floating_point() or not bool(torch.isfinite(loss)):
        raise ConfigError(
            "task: the loss must be one finite number, floating point of shape [], got "
            f"{float(loss) if loss.shape == () else describe_type(loss)} on the first mini-batch"
        )
    measured = measure_client(task, model, outputs, (x, y), (x, y))
    if missing := [m.name for m in kind.metrics if not _is_number(measured.get(m.name))]:
        raise ConfigError(
            f"task: measure must give {missing[0]!r} as a tensor of shape [], for each of its metrics"
        )


def _is_number(given: Any) -> bool:
    return isinstance(given, Tensor) and given.shape == ()


def is_finite(given: Any) -> bool:
    """Tell whether something is a number that can be computed with."""
    try:
        return not isinstance(given, str) and math.isfinite(given)
    except (TypeError, ValueError, RuntimeError):
        return False


def _like(what: str, given: Any, wanted: Tensor, words: str) -> Tensor:
    """Return the given tensor if it has the shape and type of the one that is wanted."""
    if describe_type(given) != describe_type(wanted):
        raise ConfigError(f"{what} must give {describe_type(wanted)}, {words}, got {describe_type(given)}")
    found: Tensor = given
    return found


def _dict(what: str, given: Any) -> Tensors:
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must give a dict of tensors, got {describe_type(given)}")
    return given


def _pair(what: str, given: Any, state: State) -> tuple[State, Info]:
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict)):
        raise ConfigError(
            f"{what} must give a State and a dict of what to report, got {describe_type(given)}"
        )
    for name, value in given[1].items():
        if not isinstance(value, Tensor):
            raise ConfigError(f"{what} must report tensors, but {name!r} is {describe_type(value)}")
    return _same_state(what, given[0], state), given[1]


def _same_state(what: str, given: Any, wanted: State) -> State:
    if not isinstance(given, State):
        raise ConfigError(f"{what} must give a State, got {describe_type(given)}")
    for part, new, old in zip(State._fields, given, wanted, strict=True):
        same_tensors(f"{what}: {part}", new, old)
    return given


def _of_shape(what: str, info: Info, name: str, shape: list[int]) -> None:
    if name in info and list(info[name].shape) != shape:
        each = f"{shape}, one number for each message" if shape else "[], one number"
        raise ConfigError(f"{what} must report {name!r} of shape {each}, got {list(info[name].shape)}")
