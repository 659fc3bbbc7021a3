"""A user's own channel, topology, partition or shift that goes wrong: said with its place, no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError
from coterie.federation import Dealer
from coterie.schedule import Schedule
from tests.engine.small import experiment

SOURCE = """
from dataclasses import dataclass
import torch

@dataclass(frozen=True)
class Topology:
    gives: str
    def neighbours(self, clients, stream):
        if self.gives == "raises":
            return {}["edges"]
        if self.gives == "list":
            return [[1]] * clients
        rows = clients - 1 if self.gives == "rows" else clients
        value = clients if self.gives == "outside" else 0
        kind = torch.float32 if self.gives == "floats" else torch.int64
        return torch.full((rows, 1), value, dtype=kind)

@dataclass(frozen=True)
class Channel:
    gives: str
    def links(self, graph, stream):
        if self.gives == "raises at first":
            return {}["antenna"]
        def gain(u, star, candidate):
            if self.gives == "raises":
                return {}["gain"]
            return u[:, :1] if self.gives == "shape" else 1.0
        return gain

@dataclass(frozen=True)
class Partition:
    gives: str
    def proportions(self, y, classes, clients, stream):
        return [1.0] * clients if self.gives == "list" else {}["share"]

@dataclass(frozen=True)
class Shift:
    gives: str
    groups: int = 2
    def inputs(self, x, group):
        return {}["lens"] if self.gives == "inputs" else x
    def labels(self, y, group, classes, stream):
        return {}["name"]
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine_plugins.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "mine_plugins.py"


def line(source: Path, text: str) -> str:
    """Where the user finds it."""
    lines = source.read_text().splitlines()
    return f"({source}, line {next(i for i, one in enumerate(lines, 1) if text in one)})"


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("raises", "exchange.topology: 'mine_plugins:Topology' failed: KeyError: 'edges' {}"),
        ("list", "with 4 rows and numbers of clients from 0 to 3 (-1: none), got list"),
        ("rows", "got torch.int64 of shape [3, 1]"),
        ("floats", "got torch.float32 of shape [4, 1]"),
        ("outside", "got torch.int64 of shape [4, 1]"),
    ],
)
def test_topology(gives: str, told: str, mine: Path) -> None:
    own = experiment(data__clients=4, exchange__topology={"name": "mine_plugins:Topology", "gives": gives})
    with pytest.raises(ConfigError) as caught:
        Schedule.of(own, 0)
    assert told.format(line(mine, '{}["edges"]')) in str(caught.value)


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("raises at first", "failed: KeyError: 'antenna'"),
        ("raises", "failed: KeyError: 'gain'"),
        ("shape", "expected gains of shape [1, 4], got torch.float64 of shape [1, 1]"),
        ("number", "expected gains of shape [1, 4], got float"),
    ],
)
def test_channel(gives: str, told: str) -> None:
    own = experiment(data__clients=4, exchange__channel={"name": "mine_plugins:Channel", "gives": gives})
    with pytest.raises(ConfigError) as caught:
        Schedule.of(own, 0).meeting(own.exchange.every)
    assert "exchange.channel: 'mine_plugins:Channel' failed: " in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("key", "plugin", "gives", "told"),
    [
        ("data__partition", "Partition", "raises", "data.partition failed: KeyError: 'share'"),
        ("data__partition", "Partition", "list", "proportions must be a tensor, got list"),
        ("data__shift", "Shift", "inputs", "data.shift failed: KeyError: 'lens'"),
        ("data__shift", "Shift", "labels", "data.shift failed: KeyError: 'name'"),
    ],
)
def test_partition_and_shift(key: str, plugin: str, gives: str, told: str) -> None:
    value: Any = {"name": f"mine_plugins:{plugin}", "gives": gives}
    own = experiment(**{key: [value] if key == "data__shift" else value})
    with pytest.raises(ConfigError) as caught:
        Dealer(None).federation(own, 0)
    assert told in str(caught.value)
