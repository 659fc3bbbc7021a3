"""Graphs from files: what networkx writes is what clients get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coterie.core.errors import ConfigError, DataError
from coterie.core.streams import Stream
from coterie.plugins.topologies.file import File

STREAM = Stream(0, "topology")


def write(graph: nx.Graph[Any], path: Path) -> Path:
    if path.suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    elif path.suffix == ".adjlist":
        nx.write_adjlist(graph, path)
    elif path.suffix == ".graphml":
        nx.write_graphml_xml(graph, path)
    elif path.suffix == ".gml":
        nx.write_gml(graph, path)
    else:
        nx.write_edgelist(graph, path)
    return path


def read(path: Path, clients: int, directed: bool = False) -> list[set[int]]:
    """The neighbours of each client."""
    rows = File(path, directed).neighbours(clients, STREAM)
    return [set(row) - {-1} for row in rows.tolist()]


SUFFIXES = (".edgelist", ".txt", ".adjlist", ".graphml", ".gml", ".json")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path: Path, suffix: str) -> None:
    # Twelve nodes in a random order of the file: 10 must come after 9, not after 1.
    graph = nx.relabel_nodes(nx.cycle_graph(12), {i: (5 * i) % 12 for i in range(12)})
    expected = [set(graph.adj[i]) for i in range(12)]
    assert read(write(graph, tmp_path / f"graph{suffix}"), 12) == expected
    assert expected[0] == {5, 7}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_edge_of_a_directed_graph_says_who_asks_whom(tmp_path: Path, suffix: str) -> None:
    graph = nx.DiGraph([(0, 1), (2, 1), (1, 2)])
    assert read(write(graph, tmp_path / f"graph{suffix}"), 3, directed=True) == [{1}, {2}, {1}]


@pytest.mark.parametrize("suffix", [".adjlist", ".graphml", ".gml", ".json"])
def test_a_client_without_links(tmp_path: Path, suffix: str) -> None:
    graph = nx.Graph([(0, 2)])
    graph.add_node(1)
    assert read(write(graph, tmp_path / f"graph{suffix}"), 3) == [{2}, set(), {0}]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_named_nodes_are_clients_in_the_order_of_the_file(tmp_path: Path, suffix: str) -> None:
    graph = nx.Graph([("porto", "athens"), ("athens", "lyon")])
    assert read(write(graph, tmp_path / f"graph{suffix}"), 3) == [{1}, {0, 2}, {1}]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("weights.edgelist", "0 1 0.5\n1 2 0.25\n", [{1}, {0, 2}, {1}]),
        ("from_one.txt", "# a comment\n3 1\n1 2\n", [{1, 2}, {0}, {0}]),
        ("loops.txt", "0 0\n0 1\n1 0\n1 2\n", [{1}, {0, 2}, {1}]),
        (
            "older.json",
            '{"directed": false, "nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}',
            [{1}, {0}],
        ),
    ],
)
def test_files_as_people_write_them(tmp_path: Path, name: str, text: str, expected: list[set[int]]) -> None:
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name, len(expected)) == expected


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("there_is_none.gml", None, DataError, r"cannot read .*there_is_none\.gml: No such file"),
        ("graph.xyz", b"0 1\n", ConfigError, r"by its suffix '\.xyz'; known: \.edgelist, \.txt"),
        ("few.txt", b"0 1\n", ConfigError, r"few\.txt has 2 nodes, but there are 3 clients"),
        ("empty.txt", b"", ConfigError, r"empty\.txt has 0 nodes, but there are 3 clients"),
        ("broken.json", b'{"nodes": [', DataError, r"broken\.json is not a valid \.json graph"),
        ("list.json", b"[1, 2]", DataError, r"list\.json is not a valid \.json graph"),
        ("no_edges.json", b'{"directed": false, "nodes": []}', DataError, "not a valid .json graph"),
        ("broken.graphml", b"<graphml><gra", DataError, r"broken\.graphml is not a valid \.graphml graph"),
        ("broken.gml", b"graph [ node [", DataError, r"broken\.gml is not a valid \.gml graph"),
        ("binary.edgelist", b"\xff\xfe\x00\x81", DataError, r"not a valid \.edgelist graph"),
    ],
)
def test_mistakes(
    tmp_path: Path, name: str, content: bytes | None, error: type[Exception], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        read(tmp_path / name, 3)
