"""The command as a user meets it: words in, exit code and text out, in a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from coterie.cli import main

SMALL = """\
name = "small"
seeds = 2
methods = ["Local", "KD-PDFL"]
model = { name = "mlp", hidden = [5] }

[data]
set = { name = "synthetic", groups = 2, classes = 3, features = 6, samples = 60 }
clients = 4
sizes = [3, 12]
test = 10

[train]
iterations = 20
batch = 4

[exchange]
every = 5
channel = "ideal"

[evaluate]
every = 10
uniform = 9
"""


class Answer(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Answer]


@pytest.fixture
def coterie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`coterie("run", "small.toml")`, in a folder that holds small.toml and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as the registry would, but taken back at the end
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    Path("small.toml").write_text(SMALL)

    def command(*words: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["coterie", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, *capsys.readouterr())

    return command


Refused: TypeAlias = Callable[..., str]


@pytest.fixture
def refused(coterie: Command, tmp_path: Path) -> Refused:
    """Runs a command that must be refused; its one sentence."""

    def refused(*words: str | Path) -> str:
        before = held(tmp_path)
        answer = coterie(*words)
        assert answer.code == 2, answer
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1, "one sentence"
        assert "Traceback" not in answer.err
        assert held(tmp_path) == before, "nothing written, nothing lost"
        return answer.err

    return refused


def held(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for compiled Python and locks."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "__pycache__" not in p.parts and p.name != ".lock"
    }


def says(sentence: str, *parts: str) -> None:
    for part in parts:
        assert part in sentence, sentence


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went to its end; look, do not touch."""
    from coterie import run

    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(SMALL)
    return run(folder / "small.toml", folder / "run", plots=False).path
