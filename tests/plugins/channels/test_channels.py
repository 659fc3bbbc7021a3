"""Channels: hand-made draws, and the expected number of neighbours."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from coterie.core.errors import ConfigError
from coterie.core.graph import Channel, Graph, table
from coterie.core.registry import build, registered
from coterie.core.streams import Stream
from coterie.plugins.channels._cells import Cells
from coterie.plugins.channels.bernoulli import Bernoulli
from coterie.plugins.channels.ideal import Ideal
from coterie.plugins.channels.path_loss import PathLoss
from coterie.plugins.channels.rayleigh import Rayleigh
from coterie.plugins.topologies.erdos_renyi import ErdosRenyi

STREAM = Stream(3, "channel")


def gains(channel: Channel, graph: Graph, u: Tensor, star: Tensor) -> Tensor:
    return channel.links(graph, STREAM)(u, star, graph.candidates(star))


def mean_neighbours(channel: Channel, graph: Graph, draws: int) -> float:
    """Links up, averaged over all clients and many exchanges."""
    star = torch.arange(graph.clients)
    candidate, links = graph.candidates(star), channel.links(graph, STREAM)
    up = 0
    for t in range(draws):
        u = Stream(11, "gain").uniform(candidate.shape[1], t, star)
        up += int(((links(u, star, candidate) > 0) & (candidate >= 0)).sum())
    return up / graph.clients / draws


def test_registry() -> None:
    assert list(registered("channel")) == ["bernoulli", "ideal", "path_loss", "rayleigh"]
    for name in registered("channel"):
        assert isinstance(build("channel", name, {}, "exchange.channel"), Channel)


def test_rayleigh_by_hand() -> None:
    # 11 clients, so 10 links each: k̄ = 5 means up iff gain >= ln 2, that is u <= 1/2.
    u = torch.tensor([[0.5, 0.5 + 1e-9, 0.25, 0.9] + [0.99] * 7], dtype=torch.float64)
    gain = gains(Rayleigh(5.0), Graph(11, None), u, torch.tensor([10]))
    expected = [math.log(2), 0.0, math.log(4), 0.0] + [0.0] * 7
    torch.testing.assert_close(gain, torch.tensor([expected], dtype=torch.float64), rtol=1e-15, atol=0)


def test_rayleigh_threshold_follows_the_degree_of_each_client() -> None:
    graph = Graph(5, table([[1, 2, 3, 4], [0, 2], [0, 1], [0], [0]]))
    u = torch.full((5, 4), 0.75, dtype=torch.float64)
    # k̄/deg = 1/2 for client 0, 1 for clients 1 and 2, clipped to 1 for the others.
    assert (gains(Rayleigh(2.0), graph, u, torch.arange(5)) > 0)[:, 0].tolist() == [
        False,
        True,
        True,
        True,
        True,
    ]


@given(k=st.floats(4.0, 1e6), u=st.floats(2.0**-33, 1 - 2.0**-33))
@settings(deadline=None)
def test_rayleigh_reaches_everybody_if_asked_for_as_many(k: float, u: float) -> None:
    gain = gains(Rayleigh(k), Graph(5, None), torch.full((1, 5), u, dtype=torch.float64), torch.tensor([0]))
    assert (gain > 0).all()


@pytest.mark.parametrize("k", [0.5, 5.0, 30.0])
def test_rayleigh_expected_neighbours(k: float) -> None:
    n = 50 * 100
    error = math.sqrt(k * (1 - k / 49) / n)
    assert mean_neighbours(Rayleigh(k), Graph(50, None), 100) == pytest.approx(k, abs=4 * error)


@pytest.mark.parametrize(("clients", "k"), [(20, 5.0), (60, 2.0)])
@pytest.mark.parametrize("exponent", [2.0, 3.5])
def test_path_loss_expected_neighbours(clients: int, k: float, exponent: float) -> None:
    n = clients * 200
    found = mean_neighbours(PathLoss(k, exponent), Graph(clients, None), 200)
    assert found == pytest.approx(k, abs=4 * math.sqrt(k / n) + 1e-3)


def test_path_loss_over_a_graph() -> None:
    graph = Graph(60, ErdosRenyi(0.3).neighbours(60, STREAM))
    assert mean_neighbours(PathLoss(4.0), graph, 200) == pytest.approx(4.0, abs=4 * math.sqrt(4 / 12000))


def test_path_loss_of_thousands_is_solved_on_a_part_of_them() -> None:
    graph, star = Graph(5000, None), torch.arange(4800, 5000)  # none of them in that part
    candidate = graph.candidates(star)
    u = Stream(11, "gain").uniform(5000, 1, star)
    gain = PathLoss(5.0).links(graph, STREAM)(u, star, candidate)
    # The clients' places let the mean of 200 of them vary by about 0.13, their fading by 0.16.
    assert float(((gain > 0) & (candidate >= 0)).sum()) / 200 == pytest.approx(5.0, abs=0.8)


@pytest.mark.parametrize("clients", [1, 2, 40, 700])
@pytest.mark.parametrize("radius", [1e-4, 0.01, 0.03, 0.2, 0.7, 1.5])
@pytest.mark.parametrize("crowded", [False, True])
def test_the_most_near_clients_are_found_without_looking_at_everybody(
    clients: int, radius: float, crowded: bool
) -> None:
    """As by all distances; on a grid many are exactly as far apart as the radius."""
    place = Stream(clients, "place").uniform(2, client=torch.arange(clients))
    place = (place * 20).round() / 20 if crowded else place
    apart = torch.hypot(*(place[:, None] - place[None]).unbind(-1))
    near = int((apart <= radius).sum(dim=1).max()) - 1
    assert Cells(place, radius).most() == near


def test_path_loss_favours_the_near() -> None:
    graph, star = Graph(30, None), torch.tensor([4])
    place = STREAM.uniform(2, client=torch.arange(30))
    gain = gains(PathLoss(5.0), graph, torch.full((1, 30), 1e-3, dtype=torch.float64), star)[0]
    distance = (place - place[4]).norm(dim=1)
    others = torch.arange(30) != 4
    nearest = others.nonzero()[distance[others].argsort(), 0]
    assert 0 < (gain[nearest] > 0).sum() < 29
    assert (gain[nearest].diff() <= 0).all()


@pytest.mark.parametrize("channel", [PathLoss(29.0), PathLoss(1e9), Ideal(), Bernoulli(1.0), Rayleigh(29.0)])
def test_everybody_is_in_reach(channel: Channel) -> None:
    assert mean_neighbours(channel, Graph(30, None), 20) == 29


@pytest.mark.parametrize("channel", [PathLoss(), Rayleigh(), Ideal(), Bernoulli()])
def test_a_graph_without_links(channel: Channel) -> None:
    graph = Graph(3, table([[], [], []]))
    assert gains(channel, graph, torch.zeros((3, 0), dtype=torch.float64), torch.arange(3)).shape == (3, 0)


def test_bernoulli() -> None:
    assert mean_neighbours(Bernoulli(0.0), Graph(20, None), 20) == 0
    n = 20 * 200
    found = mean_neighbours(Bernoulli(0.3), Graph(20, None), 200)
    assert found == pytest.approx(0.3 * 19, abs=4 * math.sqrt(19 * 0.3 * 0.7 / n))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "rayleigh",
            {"neighbours": 0},
            r"exchange\.channel\.neighbours: input should be greater than 0, got 0",
        ),
        ("bernoulli", {"up": 1.5}, r"exchange\.channel\.up: .* less than or equal to 1, got 1\.5"),
        ("path_loss", {"exponent": -1}, r"exchange\.channel\.exponent: .* greater than 0, got -1"),
        ("bernoulli", {"p": 0.5}, r"'exchange.channel.p' of channel 'bernoulli'; known: up"),
        ("raylegh", {}, "Did you mean 'rayleigh'"),
    ],
)
def test_mistakes(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("channel", name, options, "exchange.channel")
