"""Ranks: the processes that carry one run together; as a rule there is one.

Each has its own share of every world's clients, and all go through the same events. The first of them, the
lead, writes the run folder and decides when to save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

from coterie.engine.checkpoint import Checkpoint
from coterie.engine.execution import Execution
from coterie.engine.final_models import Models
from coterie.engine.layout import Stack
from coterie.engine.memory_budget import device_memory
from coterie.engine.mixed import simulator_of
from coterie.engine.simulator import Simulator
from coterie.engine.sinks import Progress
from coterie.storage.tensors import Pieces

__all__ = ["ALONE", "AnySimulator", "Choose", "Ranks"]

T = TypeVar("T")
Choose: TypeAlias = Callable[[Stack], Execution]
"""Chooses the way of computing of a stack."""


class AnySimulator(Protocol):
    """A simulator of one stack, of several architectures, or of several processes."""

    stack: Stack

    @property
    def t(self) -> int: ...
    @property
    def stepped(self) -> int: ...
    @property
    def settled(self) -> bool: ...
    @property
    def parts(self) -> Sequence[Simulator]: ...
    def tensors(self) -> Mapping[str, Tensor | Pieces]: ...
    def restore(self, saved: Checkpoint) -> None: ...
    def step_to_next_event(self) -> list[dict[str, Any]]: ...
    def evaluation_due(self) -> bool: ...
    def evaluate(self) -> list[dict[str, Any]]: ...
    def last(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]: ...


class Ranks(Protocol):
    """The processes of a run, as one of them sees them; all of them make the same calls in the same order."""

    rank: int
    """This process, from 0."""
    count: int
    """Processes of the run."""

    @property
    def lead(self) -> bool:
        """Tell whether this process writes and shows what happens."""
        return self.rank == 0

    def agreed(self, value: T) -> T:
        """Return what the lead has for this: numbers, texts, None, and lists of them."""
        ...

    def same(self, what: str, value: str, remedy: str) -> None:
        """Refuse to go on if a value differs between processes."""
        ...

    def total(self, number: int) -> int:
        """Add up a number over all processes."""
        ...

    def most(self, number: int) -> int:
        """Find the largest number of all processes."""
        ...

    def device(self, name: str) -> str:
        """Name the device of this process, where the experiment names a kind."""
        ...

    def memory(self, device: torch.device) -> int:
        """Count the bytes that the process with least of them has."""
        ...

    def simulator(self, stack: Stack, choose: Choose, progress: Progress | None) -> AnySimulator:
        """Make the simulator of a stack."""
        ...

    def models(self, own: Models) -> Models:
        """Put the final models of all clients together, at the lead; `own`: of those in this process."""
        ...


class Alone(Ranks):
    """One process carries the whole run."""

    rank, count = 0, 1

    def agreed(self, value: T) -> T:
        return value

    def same(self, what: str, value: str, remedy: str) -> None:
        """Do nothing: there is nobody to differ from."""

    def total(self, number: int) -> int:
        return number

    def most(self, number: int) -> int:
        return number

    def device(self, name: str) -> str:
        return name

    def memory(self, device: torch.device) -> int:
        return device_memory(device)

    def simulator(self, stack: Stack, choose: Choose, progress: Progress | None) -> AnySimulator:
        return simulator_of(stack, choose, progress)

    def models(self, own: Models) -> Models:
        return own


ALONE = Alone()
