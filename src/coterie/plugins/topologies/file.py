"""A graph from a file, in one of networkx's formats; an edge i -> j means that i can ask j."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from coterie.core.errors import ConfigError, DataError
from coterie.core.graph import table
from coterie.core.own.home import beside
from coterie.core.registry import register
from coterie.core.streams import Stream

if TYPE_CHECKING:
    import networkx as nx

    Read = Callable[[Path, type[nx.Graph[Any]]], nx.Graph[Any]]

__all__ = ["File"]


@register("topology", "file")
@dataclass(frozen=True)
class File:
    """A graph from a file: .edgelist, .txt, .adjlist, .graphml, .gml or .json (node-link)."""

    path: Path
    """The graph has a node for each client. Nodes that are numbers are clients in ascending order,
    nodes with other names in the order of the file."""
    directed: bool = False
    """True if an edge or adjacency list is directed; the other formats say so themselves."""

    def neighbours(self, clients: int, stream: Stream) -> Tensor:
        graph = self._read()
        names = list(graph)
        if all(str(name).isdecimal() for name in names):
            names.sort(key=int)
        if len(names) != clients:
            raise ConfigError(
                f"topology file: {self.path} has {len(names)} nodes, but there are {clients} clients; "
                f"each client must be a node (a client without links can be one in any format but "
                f"an edge list)"
            )
        client = {name: i for i, name in enumerate(names)}
        return table([{client[n] for n in graph.adj[name]} - {i} for i, name in enumerate(names)])

    def _read(self) -> nx.Graph[Any]:
        import networkx as nx

        readers = _readers()
        if self.path.suffix not in readers:
            raise ConfigError(
                f"topology file: cannot tell the format of {self.path} by its suffix "
                f"{self.path.suffix!r}; known: {', '.join(readers)}"
            )
        try:
            return readers[self.path.suffix](
                beside(self.path) or self.path, nx.DiGraph if self.directed else nx.Graph
            )
        except OSError as error:
            raise DataError(f"topology file: cannot read {self.path}: {error.strerror or error}") from None
        except Exception as error:  # a parser raises whatever it stumbles on
            raise DataError(
                f"topology file: {self.path} is not a valid {self.path.suffix} graph: "
                f"{type(error).__name__}: {error}"
            ) from None


def _readers() -> Mapping[str, Read]:
    """Map each suffix to what reads such a file: `(path, type of graph) -> graph`."""
    import networkx as nx

    def edges(path: Path, kind: type[nx.Graph[Any]]) -> nx.Graph[Any]:
        return nx.read_edgelist(path, create_using=kind, data=False)

    return {
        ".edgelist": edges,
        ".txt": edges,
        ".adjlist": lambda path, kind: nx.read_adjlist(path, create_using=kind),
        ".graphml": lambda path, _: nx.read_graphml(path),
        ".gml": lambda path, _: nx.read_gml(path),
        ".json": _node_link,
    }


def _node_link(path: Path, kind: type[nx.Graph[Any]]) -> nx.Graph[Any]:
    """Read node-link data, whose edges older versions of networkx call links."""
    import networkx as nx

    data = json.loads(path.read_text("utf-8"))
    graph: nx.Graph[Any] = nx.DiGraph() if data["directed"] else nx.Graph()
    graph.add_nodes_from(node["id"] for node in data["nodes"])
    graph.add_edges_from((edge["source"], edge["target"]) for edge in data.get("edges", data.get("links")))
    return graph
