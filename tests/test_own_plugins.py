"""A user's own channel, topology, partition or shift that goes wrong: said before the start, no traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import ConfigError
from coterie.core.registry import user_code
from coterie.engine.plan import prepare
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
        if self.gives == "itself":
            return torch.tensor([[1], [0], [3], [3]])
        if self.gives == "twice":
            return torch.tensor([[1, -1, -1], [0, 2, 0], [1, -1, -1], [-1, -1, -1]])
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
    @property
    def groups(self):
        if self.gives == "groups raise":
            return {}["group"]
        return {"no groups": None, "none": 0, "half": 0.5}.get(self.gives, 2)
    def inputs(self, x, group):
        if self.gives == "no inputs":
            return None
        return {}["lens"] if self.gives == "inputs" else x
    def labels(self, y, group, classes, stream):
        return None if self.gives == "no labels" else {}["name"]
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
        ("rows", "got int64 of shape [3, 1]"),
        ("floats", "got float32 of shape [4, 1]"),
        ("outside", "got int64 of shape [4, 1]"),
        ("itself", "exchange.topology: client 3 is its own neighbour"),
        ("twice", "exchange.topology: client 1 has client 0 twice, expected each once"),
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
        ("shape", "expected gains of shape [1, 4], got float64 of shape [1, 1]"),
        ("number", "expected gains of shape [1, 4], got float"),
    ],
)
def test_channel(gives: str, told: str) -> None:
    own = experiment(data__clients=4, exchange__channel={"name": "mine_plugins:Channel", "gives": gives})
    with pytest.raises(ConfigError) as caught:
        prepare(own)
    assert "exchange.channel: 'mine_plugins:Channel' failed: " in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("key", "plugin", "gives", "told"),
    [
        ("data__partition", "Partition", "raises", "data.partition failed: KeyError: 'share'"),
        ("data__partition", "Partition", "list", "proportions must be a tensor, got list"),
        ("data__shift", "Shift", "inputs", "data.shift failed: KeyError: 'lens'"),
        ("data__shift", "Shift", "labels", "data.shift failed: KeyError: 'name'"),
        ("data__shift", "Shift", "no inputs", "a shift made them NoneType"),
        ("data__shift", "Shift", "no labels", "data.shift: labels must stay 240 whole numbers from 0 to 2"),
        ("data__shift", "Shift", "groups raise", "data.shift failed: KeyError: 'group'"),
        ("data__shift", "Shift", "no groups", "Shift.groups must be a whole number, at least 1, got None"),
        ("data__shift", "Shift", "none", "Shift.groups must be a whole number, at least 1, got 0"),
        ("data__shift", "Shift", "half", "Shift.groups must be a whole number, at least 1, got 0.5"),
    ],
)
def test_partition_and_shift(key: str, plugin: str, gives: str, told: str) -> None:
    value: Any = {"name": f"mine_plugins:{plugin}", "gives": gives}
    own = experiment(**{key: [value] if key == "data__shift" else value})
    with pytest.raises(ConfigError) as caught:
        Dealer(None).federation(own, 0)
    assert told in str(caught.value)


@pytest.mark.parametrize("key", ["data__set", "model", "attack", "exchange__channel"])
def test_a_module_that_ends_the_program_when_it_is_imported(key: str, mine: Path) -> None:
    (mine.parent / "mine_that_exits.py").write_text("import sys\nsys.exit(0)")
    with pytest.raises(ConfigError, match=r"cannot be imported: SystemExit: 0 \(.*_exits.py, line 2\)"):
        experiment(**{key: "mine_that_exits:thing"})
    with pytest.raises(ConfigError, match="distance 'mine_that_exits:thing' cannot be imported: SystemExit"):
        experiment(methods={"KD-PDFL": {"reading": "paper", "distance": "mine_that_exits:thing"}})


def test_a_user_who_presses_ctrl_c_is_not_a_mistake() -> None:
    with pytest.raises(KeyboardInterrupt), user_code("failed"):
        raise KeyboardInterrupt
