"""What people see: help in full, tables at every width, a sign of life at once, a word at the end."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console

from benchmarks import cli as benchmarks
from benchmarks.simulator.tables import table
from coterie.cli import app
from coterie.core.registry import KINDS, describe, registered
from coterie.core.tasks.metric import ACCURACY
from coterie.progress import _Bar
from tests.cli.conftest import Command

# Help.


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = {
    **dict(commands(typer.main.get_command(app))),
    **dict(commands(typer.main.get_command(benchmarks.bench), ("bench",))),
}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_no_word_of_a_help_text_is_taken_for_markup(
    coterie: Command, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    shown = "".join(coterie(*path, "--help").out.split())
    texts = [ALL[path].help, *(getattr(option, "help", None) for option in ALL[path].params)]
    for text in filter(None, texts):
        plain = re.sub(r"\[/?bold\]", "", text).replace("\\[", "[")
        for word in plain.split():
            assert word in shown, word


def test_tune_says_where_its_settings_come_from(coterie: Command) -> None:
    assert "its [search] says over what" in " ".join(coterie("tune", "--help").out.split())


# Tables.


@pytest.mark.parametrize("width", ["40", "60", "80", "120"])
def test_show_at_every_width(
    coterie: Command, finished: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    out = coterie("show", finished).out
    means = [f"{100 * m['personal']['mean']:.1f} ± " for m in summary(coterie, finished)["methods"].values()]
    for text in ("Local", "KD-PDFL", *means):
        assert text in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= int(width)


def summary(coterie: Command, run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(coterie("show", run, "--json").out)
    return found


def test_thirty_methods_in_sixty_columns(coterie: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"KD-PDFL with mu1 = {i} and a long name" for i in range(29)]
    table = "".join(
        f'"{name}" = {{ name = "KD-PDFL", reading = "paper", mu1 = {i} }}\n' for i, name in enumerate(names)
    )
    text = Path("small.toml").read_text().replace('methods = ["Local", "KD-PDFL"]\n', "")
    Path("many.toml").write_text(text.replace("[data]", f"[methods]\nLocal = {{}}\n{table}\n[data]", 1))
    monkeypatch.setenv("COLUMNS", "60")
    answer = coterie("run", "many.toml", "--no-plots", "--seeds", "1", "--set", "train.iterations=3")
    assert answer.code == 0, answer.err
    out = answer.out.partition("personal")[2]
    assert all(f"mu1 = {i} " in " ".join(out.split()) for i in range(29))
    assert "…" not in out


def test_a_pipe_gets_the_whole_table(finished: Path) -> None:
    code = "from coterie.cli import main; main()"
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", code, "show", finished], capture_output=True, text=True, env=environment
    )
    assert "Left out" not in done.stdout
    assert "sent" in done.stdout
    done = subprocess.run(
        [sys.executable, "-c", code, "ls", "distances"], capture_output=True, text=True, env=environment
    )
    assert 60 < max(map(len, done.stdout.splitlines())) < 120, "no wider than the table"


ENGINE: dict[str, Any] = {
    "bench": "engine",
    "pairs": 5,
    "rows": [
        {
            "work": "W2",
            "title": "EMNIST CNN",
            "clients": 10_000,
            "loop": {"median": 1_234_567},
            "loop_share": 0.0112,
            "ours": {"median": 7_654_321},
            "ours_share": 0.7654,
            "ratio": {"median": 6.2, "low": 5.9, "high": 6.6, "verdict": "faster"},
            "limit": {"client_steps": 9_876_543, "rate": 1e12, "cost": 4e8, "by": "arithmetic"},
            "start": {"fresh": {"ready_s": 61.2, "memory": 1.5e9}, "again": {"ready_s": 12.3}},
        }
    ],
}


@pytest.mark.parametrize(
    ("width", "there"),
    [
        (60, ["7,654,321 (76.5%)", "6.2x (5.9-6.6)"]),
        (80, ["1,234,567 (1.1%)", "7,654,321 (76.5%)", "6.2x (5.9-6.6)"]),
        (120, ["1,234,567 (1.1%)", "7,654,321 (76.5%)", "9,876,543", "61.2 / 12.3", "1.50"]),
    ],
)
def test_a_bench_cuts_no_number(width: int, there: list[str]) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(table(ENGINE))
    assert "…" not in out.getvalue()
    for text in ("W2 EMNIST CNN", "10,000", *there):
        assert text in out.getvalue()


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_the_bar_of_a_run_cuts_nothing(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True)
    bar = _Bar(console, ACCURACY)
    bar.advance(99_999, 100_000, 123)
    bar.evaluated({f"KD-PDFL, number {i}": 0.5 for i in range(30)})
    console.print(bar.live.renderable)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert "…" not in plain
    assert "99999/100000" in plain
    assert all(f"number {i} 50.0%" in plain for i in range(30))


# For programs.


def test_run_as_json(coterie: Command) -> None:
    answer = coterie("run", "small.toml", "--no-plots", "--json")
    assert json.loads(answer.out) == json.loads(Path("runs/small/summary.json").read_text())
    assert "small: 4 clients" in answer.err
    assert "results   runs/small\n" in answer.err


def test_check_as_json(coterie: Command) -> None:
    found = json.loads(coterie("check", "small.toml", "--json", "--set", "exchange.every=50").out)
    assert found.pop("notes")[0].startswith("there is no exchange at all")
    assert found == {
        "name": "small",
        "worlds": 4,
        "runs": 1,
        "clients": 16,
        "train": [4, 12],
        "classes": ["0", "1", "2"],
        "parameters": 53,
    }


def test_ls_as_json(coterie: Command, finished: Path) -> None:
    found = json.loads(coterie("ls", "--json").out)
    assert list(found) == [*KINDS.values(), "presets"]
    for kind, folder in KINDS.items():
        assert found[folder] == {name: describe(plugin) for name, plugin in registered(kind).items()}
    one = json.loads(coterie("ls", "algorithms", "kd-pdfl", "--json").out)
    step = next(option for option in one["options"] if option["name"] == "step")
    assert step["values"] == "'unit' | 'sign' | 'fixed' | 'softmax'"
    assert json.loads(coterie("ls", "presets", "quickstart", "--json").out)["name"] == "quickstart"
    assert json.loads(coterie("ls", "runs", "--json").out) == {"runs": {}}
    shutil.copytree(finished, "runs/good")
    good = json.loads(coterie("ls", "runs", "--json").out)["runs"]["runs/good"]
    assert (good["state"], good["t"], good["iterations"], good["continue_with"]) == ("done", 20, 20, None)
    assert json.loads(coterie("ls", "runs", "good", "--json").out)["name"] == "small"


def test_data_ls_as_json(coterie: Command) -> None:
    found = json.loads(coterie("data", "ls", "--json").out)
    assert {"iot", "emnist-balanced"} <= set(found)
    assert (found["iot"]["state"], found["iot"]["where"]) == ("absent", "data/iot")


def test_ls_says_what_an_option_may_be(coterie: Command) -> None:
    lines = [line.split() for line in coterie("ls", "algorithms", "kd-pdfl").out.splitlines()]
    for row in (
        ["step", "'unit'", "'unit'", "|", "'sign'", "|", "'fixed'", "|", "'softmax'"],
        ["mu1", "1.0", "number", "≥", "0"],
    ):
        assert row in [line[: len(row)] for line in lines]


# At once, and at the end.


@pytest.mark.parametrize("words", [["ls"], ["ls", "algorithms"], ["new", "mine"], ["show", "run"]])
def test_what_needs_no_torch_does_not_wait_for_it(finished: Path, words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['coterie', *{words!r}]\n"
        "from coterie.cli import main\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=finished.parent)
    (finished.parent / "mine.toml").unlink(missing_ok=True)
    assert done.stdout.splitlines()[-1] == "False", done


def test_a_command_says_at_once_what_it_does(finished: Path) -> None:
    above, below = pty.openpty()
    code = "from coterie.cli import main; main()"
    words = [sys.executable, "-c", code, "check", "small.toml", "--set", "nothing=1"]
    with subprocess.Popen(words, stdout=below, stderr=below, stdin=below, cwd=finished.parent) as process:
        os.close(below)
        said = b""
        while b"error" not in said:
            said += os.read(above, 1000)
        process.wait()
    os.close(above)
    assert b"checking small.toml ..." in said.partition(b"error")[0]


IMPATIENT = """
import signal
from dataclasses import dataclass
from pathlib import Path
from coterie.plugins.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Impatient(FedAvg):
    def mix(self, task, state, inbox, probe, ctx):
        if Path("runs/small/status.json").exists():  # it is on its way
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return super().mix(task, state, inbox, probe, ctx)
"""


def test_ctrl_c_twice_says_how_to_go_on(coterie: Command) -> None:
    Path("impatient.py").write_text(IMPATIENT)
    answer = coterie("run", "small.toml", "--no-plots", "--set", 'methods.X.name="impatient:Impatient"')
    assert (answer.code, answer.err) == (
        130,
        "interrupted; continue with: coterie run --resume --out runs/small\n",
    )


def test_an_interrupt_before_anything_is_written(coterie: Command) -> None:
    Path("stops_at_once.py").write_text("def data():\n    raise KeyboardInterrupt\n")
    for verb in ("check", "run"):
        answer = coterie(verb, "small.toml", "--set", "data.set='stops_at_once:data'")
        assert (answer.code, answer.err) == (130, "interrupted\n")
    assert not Path("runs/small").exists()
