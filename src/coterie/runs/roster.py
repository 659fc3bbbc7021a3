"""The clients of one world as a run folder has them: all of them, or a sample recorded one by one.

A client has a number in its world, which files and pages call it by, and a place among those recorded, which
arrays `[M]` are indexed by. Where all are recorded the two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.core.errors import RunError

__all__ = ["Roster"]


@dataclass(frozen=True, eq=False)
class Roster:
    """Who is recorded, and the true group of everybody."""

    total: int
    """Clients of the world."""
    numbers: NDArray[np.int64]
    """`[M]`: the recorded clients, ascending."""
    group: NDArray[np.int64]
    """`[R]`: the true groups of clients that follow each other ..."""
    end: NDArray[np.int64]
    """`[R]`: ... and the first number after them."""

    @classmethod
    def all(cls, group: ArrayLike) -> Roster:
        """Record everybody, of these groups."""
        every = np.asarray(group, dtype=np.int64)
        numbers = np.arange(len(every))
        return cls(len(every), numbers, every, numbers + 1)

    @classmethod
    def parse(cls, clients: Mapping[str, Any]) -> Roster:
        """Read an entry of clients.json."""
        if "sample" not in clients:
            return cls.all(clients["group"])
        group, size = np.array(clients["groups"], dtype=np.int64).T
        found = cls(clients["clients"], np.array(clients["sample"], dtype=np.int64), group, size.cumsum())
        if found.end[-1] != found.total or not (found.places(found.numbers) == np.arange(len(found))).all():
            raise ValueError("the sample of clients does not fit the groups")
        return found

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def sampled(self) -> bool:
        """True if not everybody is recorded."""
        return len(self.numbers) < self.total

    def places(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Find clients among the recorded ones; -1 for those who are not."""
        wanted = np.asarray(numbers, dtype=np.int64)
        at = np.searchsorted(self.numbers, wanted).clip(max=len(self.numbers) - 1)
        return np.where(self.numbers[at] == wanted, at, -1)

    def place(self, number: int, where: object) -> int:
        """Find one client, which must be recorded in the run `where`."""
        if not 0 <= number < self.total:
            raise RunError(f"{where} has no client {number}; there are 0 to {self.total - 1}")
        place = int(self.places(number))
        if place < 0:
            after = int(np.searchsorted(self.numbers, number))
            near = " and ".join(str(n) for n in self.numbers[max(0, after - 1) : after + 1])
            raise RunError(f"{where} has {self.said()}, and client {number} is none of them; near it: {near}")
        return place

    def groups(self, numbers: ArrayLike) -> NDArray[np.int64]:
        """Look up the true groups of any clients."""
        return self.group[np.searchsorted(self.end, np.asarray(numbers, dtype=np.int64), side="right")]

    def said(self) -> str:
        """Say who is recorded."""
        if not self.sampled:
            return f"all {self.total:,} clients one by one"
        return f"a sample of {len(self):,} of {self.total:,} clients one by one"
