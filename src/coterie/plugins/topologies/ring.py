r"""A ring, on which each client has links to the k nearest on each side.

$\mathcal{N}_i = \{\, i \pm 1, \dots, i \pm k \,\} \pmod M$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["Ring"]


@register("topology", "ring")
@dataclass(frozen=True)
class Ring:
    """A ring: links to the k nearest clients on each side."""

    k: Annotated[int, Ge(1)] = 1
    """Nearest clients on each side that are linked."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor:
        # A set, because on a small ring both ways round lead to the same client.
        steps = {step % clients for step in range(-self.k, self.k + 1)} - {0}
        return (torch.arange(clients)[:, None] + torch.tensor(sorted(steps))) % clients
