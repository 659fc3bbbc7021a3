"""Topologies: by hand where they are fixed, by their degrees where they are random."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.graph import Graph, Topology, table
from coterie.core.registry import build, registered
from coterie.core.streams import Stream
from coterie.plugins.topologies._many import _pairs, edge_table, gnp_edges, regular_edges
from coterie.plugins.topologies.all import All
from coterie.plugins.topologies.erdos_renyi import ErdosRenyi
from coterie.plugins.topologies.k_regular import KRegular
from coterie.plugins.topologies.ring import Ring

STREAM = Stream(5, "topology")


def matrix(neighbours: Tensor) -> Tensor:
    """The adjacency matrix `[M, M]`."""
    clients = len(neighbours)
    links = torch.zeros(clients, clients + 1, dtype=torch.int64)
    return links.scatter_add(1, neighbours % (clients + 1), (neighbours >= 0).long())[:, :clients]


def test_registry() -> None:
    assert list(registered("topology")) == ["all", "erdos_renyi", "file", "k_regular", "ring"]
    for name in registered("topology"):
        options = {"path": "g.gml"} if name == "file" else {}
        assert isinstance(build("topology", name, options, "exchange.topology"), Topology)


def test_table_is_in_order_and_padded() -> None:
    assert table([[2, 1], [], {0}]).tolist() == [[1, 2], [-1, -1], [0, -1]]
    assert table([[], []]).shape == (2, 0)


def test_all_needs_no_table() -> None:
    assert All().neighbours(10_000, STREAM) is None
    graph = Graph(4, None)
    assert graph.candidates(torch.tensor([1, 3])).tolist() == [[0, -1, 2, 3], [0, 1, 2, -1]]
    assert graph.degree().tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("clients", "k", "first", "last"),
    [
        (5, 1, {1, 4}, {0, 3}),
        (6, 2, {1, 2, 4, 5}, {0, 1, 3, 4}),
        (4, 2, {1, 2, 3}, {0, 1, 2}),
        (3, 7, {1, 2}, {0, 1}),
        (2, 1, {1}, {0}),
    ],
)
def test_ring_by_hand(clients: int, k: int, first: set[int], last: set[int]) -> None:
    neighbours = Ring(k).neighbours(clients, STREAM)
    assert neighbours.shape == (clients, len(first))
    assert (set(neighbours[0].tolist()), set(neighbours[-1].tolist())) == (first, last)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_edges_drawn_by_their_gaps(p: float) -> None:
    """Each pair has an edge as often as told, whatever the others."""
    n, runs = 7, 500
    links = torch.zeros(n, n)
    shared = 0
    for seed in range(runs):
        found = matrix(edge_table(n, gnp_edges(n, p, Stream(seed, "topology"))))
        assert torch.equal(found, found.T)
        links += found
        shared += int(found[0, 1] * found[5, 6])
    off = links[~torch.eye(n, dtype=torch.bool)] / runs
    error = 4.5 * math.sqrt(p * (1 - p) / runs)
    assert off.tolist() == pytest.approx([p] * n * (n - 1), abs=error)
    assert not links.diagonal().any()
    assert shared / runs == pytest.approx(p**2, abs=4.5 * math.sqrt(p**2 * (1 - p**2) / runs))


@pytest.mark.parametrize(("n", "k"), [(6, 3), (4, 1)])
def test_edges_paired_at_random_are_those_of_networkx(n: int, k: int) -> None:
    """Each of all such graphs as often as there."""
    import networkx as nx

    runs = 500
    ours, theirs = Counter[str](), Counter[str]()
    for seed in range(runs):
        found = matrix(edge_table(n, regular_edges(n, k, Stream(seed, "topology"))))
        assert (found.sum(dim=1) == k).all()
        assert torch.equal(found, found.T)
        ours[str(found.tolist())] += 1
        graph = nx.random_regular_graph(k, n, seed=seed)
        theirs[str(matrix(table([graph.adj[i] for i in range(n)])).tolist())] += 1
    assert set(ours) == set(theirs)
    chi = sum((ours[g] - theirs[g]) ** 2 / (ours[g] + theirs[g]) for g in theirs)
    assert chi <= len(theirs) + 4 * math.sqrt(2 * len(theirs))


def test_numbers_of_pairs() -> None:
    assert _pairs(torch.arange(6)).tolist() == [[1, 0], [2, 0], [2, 1], [3, 0], [3, 1], [3, 2]]
    last = 10**7 * (10**7 - 1) // 2
    assert _pairs(torch.tensor([last - 1, last])).tolist() == [[10**7 - 1, 10**7 - 2], [10**7, 0]]


@pytest.mark.parametrize("topology", [KRegular(4), ErdosRenyi(4e-5), Ring(2)])
def test_a_hundred_thousand_clients(topology: Topology) -> None:
    n = 100_000
    neighbours = topology.neighbours(n, STREAM)
    assert neighbours is not None
    degree = (neighbours >= 0).sum(dim=1)
    assert float(degree.double().mean()) == pytest.approx(4, abs=0.05)
    i, place = (neighbours >= 0).nonzero(as_tuple=True)
    j = neighbours[i, place]
    assert torch.equal((i * n + j).sort().values, (j * n + i).sort().values)
    assert (i != j).all()
    assert len(torch.unique(i * n + j)) == len(i)


@given(clients=st.integers(2, 30), k=st.integers(1, 29), seed=st.integers(0, 2**40))
@settings(deadline=None, max_examples=30)
def test_k_regular_degrees(clients: int, k: int, seed: int) -> None:
    if k >= clients or k * clients % 2:
        with pytest.raises(ConfigError):
            KRegular(k).neighbours(clients, Stream(seed, "topology"))
        return
    links = matrix(KRegular(k).neighbours(clients, Stream(seed, "topology")))
    assert (links.sum(dim=1) == k).all()
    assert (links == links.T).all()
    assert (links <= 1).all()
    assert (links.diagonal() == 0).all()


@pytest.mark.parametrize(
    ("clients", "k", "message"),
    [
        (4, 4, r"k = 4 links for each of 4 clients are too many; k can be 3 at most"),
        (5, 3, r"must be even, .* got 3 x 5 = 15"),
    ],
)
def test_k_regular_that_cannot_be(clients: int, k: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KRegular(k).neighbours(clients, STREAM)


def test_erdos_renyi() -> None:
    links = matrix(ErdosRenyi(0.3).neighbours(100, STREAM))
    pairs = 100 * 99 / 2
    assert float(links.sum()) / 2 == pytest.approx(0.3 * pairs, abs=4 * math.sqrt(pairs * 0.3 * 0.7))
    assert (links == links.T).all()
    assert (links.diagonal() == 0).all()


@pytest.mark.parametrize(("p", "degree"), [(0.0, 0), (1.0, 4)])
def test_erdos_renyi_extremes(p: float, degree: int) -> None:
    assert Graph(5, ErdosRenyi(p).neighbours(5, STREAM)).degree().tolist() == [degree] * 5


@pytest.mark.parametrize("topology", [KRegular(4), ErdosRenyi(0.3)])
def test_random_graphs_depend_on_the_stream_alone(topology: KRegular | ErdosRenyi) -> None:
    one, again, other = (topology.neighbours(40, Stream(seed, "topology")) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(matrix(one), matrix(other))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ring", {"k": 0}, r"exchange\.topology\.k: .* greater than or equal to 1, got 0"),
        ("erdos_renyi", {"p": 1.1}, r"exchange\.topology\.p: .* less than or equal to 1, got 1\.1"),
        ("file", {}, r"exchange\.topology\.path: field required"),
        ("star", {}, "unknown topology 'star'; known: all, erdos_renyi, file, k_regular, ring"),
    ],
)
def test_mistakes(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("topology", name, options, "exchange.topology")


def test_more_links_than_can_be_kept() -> None:
    with pytest.raises(ConfigError, match=r"gives 1,000,000 clients some 200,000 links.*p = 5e-06 gives"):
        ErdosRenyi(0.2).neighbours(1_000_000, STREAM)
