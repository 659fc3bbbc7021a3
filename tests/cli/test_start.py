"""How quickly the command line starts, told by what it loads; and what the shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import run
from tests.test_callbacks import SHORT

HEAVY = ("torch", "pandas", "matplotlib", "sklearn", "networkx")
"""Libraries that take a noticeable part of a second to load."""
CODE = """
import sys
from coterie.cli import main
sys.argv[0] = "coterie"
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def loaded(folder: Path, *words: str, **environment: str) -> tuple[str, set[str]]:
    """What a command prints, and the libraries that it loaded."""
    found = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout, set(found.stderr.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and an experiment in it."""
    found = tmp_path_factory.mktemp("here")
    run(SHORT, found / "runs" / "told", plots=False)
    (found / "mine.toml").write_text('name = "mine"\n')
    return found


def test_a_run_begins_without_what_takes_long_to_load(tmp_path: Path) -> None:
    """Up to its end, in fact: neither scikit-learn, which has the digits, nor torch's compiler is needed."""
    short = ("--set", "train.iterations=3", "--set", "methods={Local={},KD-PDFL={}}", "--seeds", "1")
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            CODE.replace('.partition(".")[0]', ""),
            "run",
            "quickstart",
            "--no-plots",
            *short,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "KD-PDFL" in found.stdout
    assert set(found.stderr.split()).isdisjoint(("sklearn", "torch._dynamo", "pandas", "matplotlib"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--help",), "quickstart"),
        (("ls",), "quickstart"),
        (("ls", "runs"), "done, iteration 24 of 24"),
        (("ls", "algorithms", "--json"), "KD-PDFL"),
        (("new", "fresh"), "fresh.toml"),
        (("doctor", "--help"), "Look over this machine"),
        (("show", "told"), "KD-PDFL"),
        (("run", "--help"), "--track"),
    ],
)
def test_a_quick_command_loads_nothing_heavy(folder: Path, words: tuple[str, ...], says: str) -> None:
    (folder / "fresh.toml").unlink(missing_ok=True)
    said, libraries = loaded(folder, *words)
    assert says in said
    assert libraries.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("run q", ["quickstart"]),
        ("run m", ["million", "mine.toml", "mixture", "multitask"]),
        ("check lab", ["label-skew"]),
        ("new x --from feat", ["feature-shift"]),
        ("show to", ["told"]),
        ("plot to", ["told"]),
        ("plot runs/t", ["runs/told"]),
        ("ls dist", ["distances"]),
        ("ls algorithms kd", ["kd-pdfl"]),
        ("ls algorithms KD", ["KD-PDFL"]),
        ("ls presets quick", ["quickstart"]),
        ("run quickstart --set train.l", ["train.lr="]),
        ("run quickstart --set methods.KD", ["methods.KD-PDFL."]),
        ("run quickstart --track t", ["tensorboard"]),
        ("explain Data", ["DataError"]),
        ("export to", ["told"]),
        ("export told --method K", ["KD-PDFL"]),
    ],
)
def test_the_shell_completes(folder: Path, line: str, completed: list[str]) -> None:
    words = f"coterie {line}"
    said, libraries = loaded(
        folder, _COTERIE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)
    )
    assert sorted(said.split()) == completed
    assert libraries.isdisjoint(HEAVY)


def test_the_first_line_of_a_run_comes_before_what_takes_time(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-c", "from coterie.cli import main; main()", "run", "mine.toml",
         "--set", "train.iterations=2", "--set", "methods={Local={}}", "--no-plots"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        lines = list(process.stdout)
    first = next(i for i, text in enumerate(lines) if text.startswith("reading mine.toml ..."))
    assert first < next(i for i, text in enumerate(lines) if text.split()[-1:] == ["torch"])
    assert process.returncode == 0
