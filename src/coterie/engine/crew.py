"""Blocks of clients side by side, one thread each.

A convolution of one client does not fill several cores; several of them at once do. So every thread
of the crew takes a block of its own through its steps, with one core to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

__all__ = ["Crew"]


class Crew:
    """As many threads as torch has cores, if there are cores to share and the work may be shared."""

    def __init__(self, device: torch.device, side_by_side: bool) -> None:
        self.hands = torch.get_num_threads() if side_by_side and device.type == "cpu" else 1
        self._pool = ThreadPoolExecutor(self.hands, "coterie", _alone) if self.hands > 1 else None

    def each(self, work: Callable[[slice], None], blocks: Iterable[slice]) -> None:
        """Do the work on every block; the blocks share nothing that changes."""
        if self._pool:
            list(self._pool.map(work, blocks))
        else:
            for block in blocks:
                work(block)


def _alone() -> None:
    torch.set_num_threads(1)
