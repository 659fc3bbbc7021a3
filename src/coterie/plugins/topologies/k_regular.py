"""A random graph on which every client has exactly k links.

Steger, Wormald: Generating random regular graphs quickly. Combinatorics, Probability and
Computing 8, 1999.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.graph import SMALL, table
from coterie.core.registry import register
from coterie.core.streams import Stream
from coterie.plugins.topologies._many import edge_table, regular_edges

__all__ = ["KRegular"]


@register("topology", "k_regular")
@dataclass(frozen=True)
class KRegular:
    """A random graph on which every client has exactly k links."""

    k: Annotated[int, Ge(1)] = 4
    """Links of every client."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor:
        if self.k >= clients:
            raise ConfigError(
                f"topology k_regular: k = {self.k} links for each of {clients} clients are too many; "
                f"k can be {clients - 1} at most"
            )
        if self.k * clients % 2:
            raise ConfigError(
                f"topology k_regular: k x clients must be even, as every link has two ends, "
                f"got {self.k} x {clients} = {self.k * clients}; change k or the number of clients by one"
            )
        if clients > SMALL:
            return edge_table(clients, regular_edges(clients, self.k, stream))
        import networkx as nx

        graph = nx.random_regular_graph(self.k, clients, seed=int(stream.words(1)))
        return table([graph.adj[i] for i in range(clients)])
