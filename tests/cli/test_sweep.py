"""`coterie sweep` as a user meets it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Command, Refused, says

RAY = find_spec("ray") is not None
GRID = '[grid]\n"train.batch" = [4, 5]\n"train.lr" = [0.05, 0.1]\n\n'


@pytest.fixture(autouse=True)
def file(coterie: Command) -> None:
    Path("grid.toml").write_text(SMALL.replace("[data]", f"{GRID}[data]", 1))


def test_a_sweep_from_its_grid_to_its_table(coterie: Command) -> None:
    answer = coterie("sweep", "grid.toml", "--cpus", "1")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[:2] == ["small: a sweep over train.batch (2), train.lr (2)", "0 of 2 jobs done"]
    assert "2 of 2 jobs done" in lines
    assert any(line.split()[:3] == ["method", "batch", "lr"] for line in lines)
    rows = [line.split()[:3] for line in lines if line.startswith("KD-PDFL ")]
    assert rows == [["KD-PDFL", batch, lr] for batch in ("4", "5") for lr in ("0.05", "0.1")]
    assert lines[-1] == "wrote     sweeps/small/table.md"
    assert sorted(p.name for p in Path("sweeps/small").iterdir()) == [
        ".lock",
        "jobs",
        "manifest.json",
        "sweep.toml",
        "table.csv",
        "table.json",
        "table.md",
    ]
    assert coterie("show", "sweeps/small/jobs/001").code == 0, "a job is a run like any other"
    assert coterie("show", "small") == coterie("show", "sweeps/small"), "found by its name"
    assert "sweeps/small  a sweep, 2 of 2 jobs done" in coterie("ls", "runs").out
    again = coterie("sweep", "--resume", "--out", "sweeps/small", "--json")
    assert (again.code, json.loads(again.out)) == (0, json.loads(Path("sweeps/small/table.json").read_text()))
    assert "job 001" not in again.err


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["name a GRID.toml, or --resume with --out"]),
        (["--resume", "--out", "none"], ["none is not a sweep folder"]),
        (["none.toml"], ["cannot read none.toml"]),
        (["small.toml"], ["small.toml has no grid to sweep over", "[grid]"]),
        (["grid.toml", "--set", 'grid={"train.lr"=[]}'], ["'train.lr' has no values"]),
        (["grid.toml", "--set", 'grid={"train.lrr"=[1]}'], ["lrr"]),
        (["grid.toml", "--ray", "nowhere"], ["--ray 'nowhere'", "HOST:PORT"] if RAY else ["coterie[ray]"]),
        (["grid.toml", "--ray", "local", "--jobs", "2"], ["--jobs 2", "--ray local", "leave out one"]),
        (["grid.toml", "--resume"], ["sweeps/small is not a sweep folder"]),
    ],
)
def test_mistakes_are_one_sentence(refused: Refused, words: list[str], parts: list[str]) -> None:
    says(refused("sweep", *words), *parts)


def test_interrupted(coterie: Command) -> None:
    Path("stops.py").write_text(
        "import signal\nfrom coterie.plugins.channels.ideal import Ideal\n\n\n"
        "class Stops(Ideal):\n"
        "    def links(self, graph, stream):\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "        return super().links(graph, stream)\n"
    )
    answer = coterie("sweep", "grid.toml", "--set", "exchange.channel='stops:Stops'", "--cpus", "1")
    assert answer.code == 130
    assert "stopped with 0 of 2 jobs done; everything is saved in sweeps/small" in answer.out
    assert "Continue with: coterie sweep --resume --out sweeps/small" in answer.out


def test_interrupted_twice(coterie: Command) -> None:
    Path("stops_twice.py").write_text(
        "import signal\nfrom coterie.plugins.channels.ideal import Ideal\n\n\n"
        "class Stops(Ideal):\n"
        "    def links(self, graph, stream):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        return super().links(graph, stream)\n"
    )
    answer = coterie("sweep", "grid.toml", "--set", "exchange.channel='stops_twice:Stops'", "--cpus", "1")
    assert (answer.code, answer.err) == (
        130,
        "interrupted; continue with: coterie sweep --resume --out sweeps/small\n",
    )
