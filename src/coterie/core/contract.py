"""What a method or an attack gives, if it is what a runtime can go on with; else what is wrong with it.

`what` says whose it is. All are tensors of one client, which under `vmap` stand for those of many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from coterie.core.algorithm import Algorithm
from coterie.core.errors import ConfigError
from coterie.core.registry import kind_of, own_code
from coterie.core.task import Task
from coterie.core.types import Batch, Inbox, Info, Message, Probe, Start, State, Tensors

__all__ = ["Checked", "finite", "same_tensors"]

_TAKEN = ("world", "t", "kind", "client", "neighbours")
"""What a row of `exchanges.jsonl` says beside what a method reports."""


@dataclass(frozen=True, kw_only=True)
class Checked(Algorithm):
    """A method of which every answer is looked at, for a trial."""

    method: Algorithm
    its: str
    """How its settings are called, `methods.KD-PDFL`."""
    where: str = ""
    """Words about how it is run."""

    def init(self, task: Task, start: Start) -> State:
        given: Any = self.method.init(task, start)
        usual = Algorithm.init(self, task, start)
        if isinstance(given, State):
            usual = usual._replace(memory=given.memory, rows=given.rows)  # which may be anything
        state, slots = _same_state(f"{self.its}: init", given, usual), len(start.row)
        for name, tensor in state.rows.items():
            if not tensor.dim() or len(tensor) != slots:
                raise ConfigError(
                    f"{self.its}: init: rows: {name!r} must have one entry for each of the {slots} slots on "
                    f"its first axis, got {kind_of(tensor)}; what is not of one neighbour belongs in memory"
                )
        return state

    def pace(self, t: int) -> float:
        return self.method.pace(t)

    def local(self, task: Task, state: State, batch: Batch) -> tuple[State, Info]:
        what = f"{self.its}: local"
        new, info = _pair(what, self.method.local(task, state, batch), state)
        if "loss" not in info:
            raise ConfigError(f"{what} must report the 'loss', got {', '.join(map(str, info)) or 'nothing'}")
        _of_shape(what, info, "loss", [])
        return new, info

    def offer(self, task: Task, state: State) -> Message:
        what = f"{self.its}: offer"
        given = _dict(what, self.method.offer(task, state))
        for name, tensor in given.items():
            if not (isinstance(tensor, Tensor) and tensor.is_floating_point()):
                raise ConfigError(
                    f"{what} must give floating-point tensors, but {name!r} is {kind_of(tensor)}"
                )
        return given

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        return self._exchange("mix", task, state, inbox, probe)

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        return self._exchange("adopt", task, state, inbox, probe)

    def _exchange(self, act: str, task: Task, state: State, inbox: Inbox, probe: Probe) -> tuple[State, Info]:
        what, senders = f"{self.its}: {act}", inbox.heard.shape[-1]
        messages = f"{senders} message{'s'[: senders > 1]}"
        with own_code(f"{what} of {type(self.method).__name__} failed on {messages}{self.where}"):
            given = getattr(self.method, act)(task, state, inbox, probe)
        new, info = _pair(what, given, state)
        for name in info:
            if name in _TAKEN:
                raise ConfigError(f"{what} reports {name!r}, a name that is taken; use another")
        for name in ("weight", "distance", "heard"):
            _of_shape(what, info, name, [senders])
        _of_shape(what, info, "confidence", [])
        return new, info


def same_tensors(what: str, given: Any, wanted: Tensors) -> Tensors:
    """Tensors with the names, shapes and types of those that are wanted."""
    found = _dict(what, given)
    for name in [*wanted, *found]:
        if (name in found) != (name in wanted):
            odd = "is missing" if name in wanted else "is new"
            raise ConfigError(f"{what}: {name!r} {odd}; expected the same tensors as it was given")
    for name, tensor in wanted.items():
        if kind_of(found[name]) != kind_of(tensor):
            raise ConfigError(f"{what}: {name!r} must be {kind_of(tensor)}, got {kind_of(found[name])}")
    return found


def finite(given: Any) -> bool:
    """Whether something is a number that can be computed with."""
    try:
        return not isinstance(given, str) and math.isfinite(given)
    except (TypeError, ValueError, RuntimeError):
        return False


def _dict(what: str, given: Any) -> Tensors:
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must give a dict of tensors, got {kind_of(given)}")
    return given


def _pair(what: str, given: Any, state: State) -> tuple[State, Info]:
    if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict)):
        raise ConfigError(f"{what} must give a State and a dict of what to report, got {kind_of(given)}")
    for name, value in given[1].items():
        if not isinstance(value, Tensor):
            raise ConfigError(f"{what} must report tensors, but {name!r} is {kind_of(value)}")
    return _same_state(what, given[0], state), given[1]


def _same_state(what: str, given: Any, wanted: State) -> State:
    if not isinstance(given, State):
        raise ConfigError(f"{what} must give a State, got {kind_of(given)}")
    for part, new, old in zip(State._fields, given, wanted, strict=True):
        same_tensors(f"{what}: {part}", new, old)
    return given


def _of_shape(what: str, info: Info, name: str, shape: list[int]) -> None:
    if name in info and list(info[name].shape) != shape:
        each = f"{shape}, one number for each message" if shape else "[], one number"
        raise ConfigError(f"{what} must report {name!r} of shape {each}, got {list(info[name].shape)}")
