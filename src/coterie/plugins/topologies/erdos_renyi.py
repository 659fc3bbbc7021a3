"""A random graph in which any two clients have a link with probability p, independently.

Erdős, Rényi: On random graphs I. Publicationes Mathematicae Debrecen 6, 1959.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.graph import table
from coterie.core.registry import register
from coterie.core.streams import Stream

__all__ = ["ErdosRenyi"]


@register("topology", "erdos_renyi")
@dataclass(frozen=True)
class ErdosRenyi:
    """A random graph: any two clients have a link with probability p."""

    p: Annotated[float, Ge(0), Le(1)] = 0.2
    """Probability of each link."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor:
        import networkx as nx

        graph = nx.fast_gnp_random_graph(clients, self.p, seed=int(stream.words(1)))
        return table([graph.adj[i] for i in range(clients)])
