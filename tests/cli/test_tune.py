"""`coterie tune` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie import Experiment, Run
from tests.cli.conftest import Command, Refused, says

SEARCH = 'search={"train.lr"=[0.2,0.3],"methods.KD-PDFL.tau"=[0.1,0.2]}'


def test_tune_writes_an_experiment_that_runs(coterie: Command) -> None:
    answer = coterie("tune", "small.toml", "--budget", "4", "--seeds", "2", "--set", SEARCH)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[:2] == [
        "tuning with 4 settings of every method",
        "small: 4 clients, 2 methods x 2 seeds, 20 iterations on cpu",
    ]
    assert any(line.startswith("20/20  ") and "Local" in line and "KD-PDFL" in line for line in lines)
    assert "Local: 3 of 4 settings, all there are" in answer.out
    assert "KD-PDFL: 4 of 4 settings" in answer.out
    assert answer.out.count("→") == 2
    assert "run it:     coterie run tuning/small/tuned.toml" in lines
    tuned = Experiment.load("tuning/small/tuned.toml")
    assert (tuned.seeds, tuned.train.lr) == ((0, 1), 0.05)
    assert coterie("run", "tuning/small/tuned.toml", "--no-plots").code == 0
    assert Run("runs/small").status["state"] == "done"


def test_a_second_tuning_gets_a_folder_of_its_own(coterie: Command) -> None:
    for folder in ("tuning/small", "tuning/small-2"):
        answer = coterie("tune", "small.toml", "--budget", "1", "--seeds", "1")
        assert f"report      {folder}/tuning.md\n" in answer.out
        assert Path(folder, "tuning.json").exists()


def test_json_is_all_that_is_put_out(coterie: Command) -> None:
    words = ["--budget", "2", "--seeds", "1", "--out", "here", "--write", "new/mine.toml", "--json"]
    answer = coterie("tune", "small.toml", *words)
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts == json.loads(Path("here/tuning.json").read_text())
    assert {label: len(m["candidates"]) for label, m in facts["methods"].items()} == {
        "Local": 2,
        "KD-PDFL": 2,
    }
    assert facts["environment"]["command"][1:3] == ["tune", "small.toml"]
    assert "run it:     coterie run new/mine.toml" in answer.err
    assert Experiment.load("new/mine.toml").name == "small"
    assert not Path("here/tuned.toml").exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["none.toml"], ["cannot read none.toml"]),
        (["small.toml", "--set", "data.validation=0"], ["no client has any", "data.validation"]),
        (["small.toml", "--set", 'search={"train.lr"=[]}'], ["search", "'train.lr' has no values"]),
        (["small.toml", "--set", 'search={"train.lr"=[1,1]}'], ["search", "'train.lr' has a value twice"]),
        (["small.toml", "--set", 'search={"train.lr"=0.1}'], ["search.train.lr", "got 0.1"]),
        (["small.toml", "--set", 'search={"train.lr"=[-1]}'], ["search", "train.lr", "got -1"]),
        (["small.toml", "--set", 'search={"train.batch"=[3]}'], ["'train.batch'", "train.lr", "methods.LAB"]),
        (["small.toml", "--set", 'search={"methods.FedAvg.share"=["x"]}'], ["FedAvg", "Local, KD-PDFL"]),
        (["small.toml", "--set", 'search={"methods.KD-PDFL.mu3"=[1]}'], ["KD-PDFL.mu3", "Did you mean 'mu"]),
        (["small.toml", "--set", "search=3"], ["search"]),
        (["small.toml", "--out", "full"], ["full/tuning.md is already there", "--out"]),
        (["small.toml", "--write", "small.toml"], ["small.toml is already there", "--write"]),
        (["small.toml", "--out", "small.toml/x"], ["cannot write small.toml/x", "not a folder"]),
        (["small.toml", "--device", "gpu"], ["device 'gpu'"]),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(refused: Refused, words: list[str], parts: list[str]) -> None:
    Path("full").mkdir()
    Path("full/tuning.md").write_text("mine")
    says(refused("tune", *words, "--budget", "2"), *parts)


@pytest.mark.parametrize(
    "words", [[], ["--budget", "0"], ["--budget", "x"], ["--budget", "1", "--seeds", "0"]]
)
def test_a_budget_is_needed(coterie: Command, words: list[str]) -> None:
    answer = coterie("tune", "small.toml", *words)
    assert answer.code == 2
    assert ("--seeds" if "--seeds" in words else "--budget") in answer.err
    assert not Path("tuning").exists()


def test_interrupted(coterie: Command) -> None:
    Path("stops_tuning.py").write_text("def data():\n    raise KeyboardInterrupt\n")
    answer = coterie("tune", "small.toml", "--budget", "2", "--set", "data.set={name='stops_tuning:data'}")
    assert answer.code == 130
    assert "interrupted; nothing was written" in answer.out
    assert not Path("tuning").exists()
