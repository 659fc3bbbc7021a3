"""`coterie bench` as a user meets it, with as little work as there can be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coterie as coterie_package
from tests.cli.conftest import Command, Refused, says

LITTLE = ("--clients", "2", "--pairs", "1", "--eager")


def positive(spread: dict[str, float]) -> bool:
    return 0 < spread["low"] <= spread["median"] <= spread["high"]


def common(result: dict[str, Any], bench: str) -> list[dict[str, Any]]:
    assert (result["bench"], result["format"]) == (bench, 1)
    assert {"processor", "cores", "torch", "compiler", "coterie", "date", "commit", "gpu"} <= set(
        result["machine"]
    )
    assert (result["pairs"], result["compiling"]) == (1, "off")
    rows: list[dict[str, Any]] = result["rows"]
    return rows


def test_engine(coterie: Command) -> None:
    answer = coterie(
        "bench", "engine", *LITTLE, "--seconds", "0", "--no-start", "--json", "--out", "new/speed.json"
    )
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result == json.loads(Path("new/speed.json").read_text())
    first, second = common(result, "engine")
    assert (first["work"], second["work"]) == ("W1", "W2")
    for row in (first, second):
        assert row["clients"] == 2
        assert positive(row["loop"])
        assert positive(row["ours"])
        assert positive({k: row["ratio"][k] for k in ("low", "median", "high")})
        assert row["ratio"]["verdict"] in ("tie", "faster", "slower")
        assert row["limit"]["by"] == "arithmetic"
        assert row["ours_share"] == row["ours"]["median"] / row["limit"]["client_steps"]
        assert 0 < row["loop_share"] < 1
        assert all(losses[0] > losses[1] > 0 for losses in row["loss"].values())
    assert (first["limit"]["cost"], second["limit"]["cost"]) == (3_747_840, 446_922_912)
    table = Path("new/speed.md").read_text()
    assert "| W1 IoT MLP | 2 |" in table
    assert "| W2 EMNIST CNN | 2 |" in table
    assert Path("new/speed.png").read_bytes().startswith(b"\x89PNG")
    assert "written   new/speed.png" in answer.err


def test_engine_for_people(coterie: Command) -> None:
    answer = coterie("bench", "engine", "--work", "w1", *LITTLE, "--seconds", "0", "--out", "e.json")
    assert answer.code == 0, answer.err
    (row,) = json.loads(Path("e.json").read_text())["rows"]
    start = row["start"]["fresh"]
    assert start["models"] == 4 * 39_769 * 2
    assert start["memory"] > start["memory_before"] > 1e7
    assert start["ready_s"] >= start["import_s"] + start["prepare_s"] > 0
    assert "cores" in answer.out.splitlines()[0]
    assert "torch 2." in answer.out
    assert "GFLOP/s by matrix product, 3.75 MFLOP a client-step" in " ".join(answer.out.split())
    assert "W1, 2 clients: pair 1 of 1" in answer.err


def test_only_what_coterie_wrote_is_replaced(coterie: Command, refused: Refused) -> None:
    words = ("bench", "engine", "--work", "w1", *LITTLE, "--seconds", "0", "--no-start", "--out", "e.json")
    Path("e.md").write_text("# My notes")
    says(refused(*words), "e.md is not known to be a file that coterie wrote")
    Path("e.md").unlink()
    for _ in range(2):
        assert coterie(*words).code == 0  # each kind of file is known again


def test_exchange(coterie: Command) -> None:
    answer = coterie(
        "bench", "exchange", "--work", "W1", "--clients", "10", "--pairs", "1", "--eager", "--json"
    )
    assert answer.code == 0, answer.err
    rows = common(json.loads(answer.out), "exchange")
    assert [(r["method"], r["stars"]) for r in rows] == [
        ("FedAvg", 1),
        ("FedAvg", 2),
        ("KD-PDFL", 1),
        ("KD-PDFL", 2),
    ]
    for row in rows:
        assert (row["every"], row["evaluate_every"], row["iterations"]) == (20, 50, 100)
        assert positive(row["rate"])
        assert positive(row["exchange_share"])
        assert positive(row["evaluation_share"])
        assert row["exchange_share"]["median"] + row["evaluation_share"]["median"] < 1


def test_scaling(coterie: Command) -> None:
    words = ("--work", "W1", "--clients", "3", "--pairs", "1", "--eager", "--seconds", "0")
    answer = coterie("bench", "scaling", *words, "--out", "s.json")
    assert answer.code == 0, answer.err
    result = json.loads(Path("s.json").read_text())
    (row,) = common(result, "scaling")
    assert (row["clients"], row["reference"]) == (3, 3)
    assert positive(row["rate"])
    assert positive(row["cost"])
    assert row["models"] == 4 * 39_769 * 3
    assert row["times_models"] > 1
    assert result["left_out"] == []
    assert Path("s.png").exists()
    assert "that at 3" in answer.out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--work", "W3"], ["unknown work 'W3'", "W1, W2"]),
        (["--clients", "some"], ["--clients 'some'", "20,100"]),
        (["--clients", "1"], ["--clients '1'", "at least 2"]),
        (["--out", "speed.txt"], ["--out speed.txt", ".json"]),
        (["--out", "small.toml/speed.json"], ["cannot write", "small.toml"]),
        (["--device", "gpu"], ["device 'gpu'"]),
    ],
)
def test_mistakes_are_one_sentence(coterie: Command, words: list[str], parts: list[str]) -> None:
    answer = coterie("bench", "engine", *words)
    assert answer.code == 2
    last = answer.err.splitlines()[-1]
    assert last.startswith("error: ")
    for part in parts:
        assert part in last


def test_methods(coterie: Command, refused: Refused) -> None:
    words = ("--work", "W1", "--clients", "3", "--pairs", "1", "--eager", "--seconds", "0")
    answer = coterie("bench", "methods", "KD-PDFL", *words, "--json")
    assert answer.code == 0, answer.err
    (row,) = common(json.loads(answer.out), "methods")
    assert (row["method"], row["gradients"]) == ("KD-PDFL", 1)
    assert all(positive(row[part]["ratio"]) for part in ("local", "exchanging"))
    says(refused("bench", "methods", "KDPDFLL"), "unknown algorithm 'KDPDFLL'")


def test_an_installed_package_says_where_the_benchmarks_are(tmp_path: Path) -> None:
    shutil.copytree(Path(coterie_package.__file__).parent, tmp_path / "site" / "coterie")
    answer = subprocess.run(
        [sys.executable, "-c", "from coterie.cli import main; main()", "bench", "engine", "--work", "W1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "error: the benchmarks come with the source and not with the package; clone the repository of "
        "coterie and run there: coterie bench engine --work W1\n"
    )


@pytest.mark.parametrize("verb", ["engine", "exchange", "scaling", "methods"])
def test_help(coterie: Command, verb: str) -> None:
    answer = coterie("bench", verb, "--help")
    assert answer.code == 0
    assert f"coterie bench {verb}" in answer.out.partition("Example")[2]
