"""`--json`: every verb that ends by itself has it, and nothing else is on standard output then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import typer

from coterie.cli import app
from tests.cli.conftest import Command

SERVICES = {"dashboard", "peer run", "bench"}
"""Commands that go on until they are stopped, or pass their words on to others."""


def verbs(command: Any, words: str = "") -> Iterator[str]:
    """All commands, with those of groups."""
    for name, one in getattr(command, "commands", {}).items():
        yield from verbs(one, f"{words}{name} ") if hasattr(one, "commands") else [f"{words}{name}"]


def test_every_verb_has_json(coterie: Command) -> None:
    named = sorted(set(verbs(typer.main.get_command(app))) - SERVICES)
    assert len(named) > 25
    assert [verb for verb in named if "--json" not in coterie(*verb.split(), "--help").out] == []


def test_files_that_are_written_are_told(coterie: Command) -> None:
    def facts(*words: str) -> Any:
        return json.loads(coterie(*words, "--json").out)

    assert facts("new", "another") == {"file": "another.toml", "from": "quickstart"}
    assert facts("ca", "init", "wards")["folder"] == "ca"
    asked = facts("ca", "request", "p0")
    issued = facts("ca", "issue", asked["request"])
    assert (issued["peer"], issued["key"]) == ("p0", asked["key"])
    assert issued["files"] == ["p0/peer.pem", "p0/ca.pem", "p0/deny.bin"]
    assert facts("ca", "revoke", "p0")["revoked"] == 1
    coterie("run", "small.toml", "--no-plots")
    exported = facts("export", "small", "--method", "Local", "--client", "1", "-o", "m.safetensors")
    assert (exported["file"], exported["client"]) == ("m.safetensors", "1")
    assert facts("report", "small", "--no-figures")["figures"] == []
    assert "DataError" in facts("explain")


def test_run_and_plot(coterie: Command) -> None:
    assert json.loads(coterie("run", "small.toml", "--no-plots", "--json").out)["name"] == "small"
    pictures = json.loads(coterie("plot", "small", "--json").out)["pictures"]
    assert "runs/small/plots/curves.png" in pictures


def test_data_verify(coterie: Command) -> None:
    found = json.loads(coterie("data", "verify", "heart", "--json").out)
    assert found["name"] == "heart"
    assert {file["state"] for file in found["files"].values()} == {"sound"}
