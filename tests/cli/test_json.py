"""`--json`: every verb whose output is data has it, and nothing else is on standard output then."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Command

DATA = [
    "run", "tune", "sweep", "leaderboard", "ls", "show", "plot", "check", "reproduce", "swarm", "replay",
    "doctor", "data ls", "data fetch", "data verify", "peer status",
]  # fmt: skip


@pytest.mark.parametrize("verb", DATA)
def test_every_verb_with_data_has_json(coterie: Command, verb: str) -> None:
    assert "--json" in coterie(*verb.split(), "--help").out


def test_run_and_plot(coterie: Command) -> None:
    assert json.loads(coterie("run", "small.toml", "--no-plots", "--json").out)["name"] == "small"
    pictures = json.loads(coterie("plot", "small", "--json").out)["pictures"]
    assert "runs/small/plots/curves.png" in pictures


def test_data_verify(coterie: Command) -> None:
    found = json.loads(coterie("data", "verify", "heart", "--json").out)
    assert found["name"] == "heart"
    assert {file["state"] for file in found["files"].values()} == {"sound"}
