"""A random graph in which any two clients have a link with probability p, independently.

Erdős, Rényi: On random graphs I. Publicationes Mathematicae Debrecen 6, 1959.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.graph import SMALL, table
from coterie.core.registry import register
from coterie.core.streams import Stream
from coterie.plugins.topologies._many import edge_table, gnp_edges

__all__ = ["ErdosRenyi"]

_MOST = 1 << 30
"""Entries of a table of links."""


@register("topology", "erdos_renyi")
@dataclass(frozen=True)
class ErdosRenyi:
    """A random graph: any two clients have a link with probability p."""

    p: Annotated[float, Ge(0), Le(1)] = 0.2
    """Probability of each link."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor:
        if self.p * clients**2 > _MOST:
            raise ConfigError(
                f"topology erdos_renyi: p = {self.p} gives {clients:,} clients some {self.p * clients:,.0f} "
                f"links each, which is too many to keep; p = {5 / clients:.1g} gives five each"
            )
        if clients > SMALL:
            return edge_table(clients, gnp_edges(clients, self.p, stream))
        import networkx as nx

        graph = nx.fast_gnp_random_graph(clients, self.p, seed=int(stream.words(1)))
        return table([graph.adj[i] for i in range(clients)])
