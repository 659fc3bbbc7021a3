"""The live table of a swarm fits a terminal of 80 columns, and says what is wrong with whom."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from coterie.cli.progress.swarm import progress
from coterie.progress import progress as run_progress
from coterie.swarm.process import PeerProcess
from tests.engine.small import experiment

STATUS: dict[str, Any] = {
    "address": "127.0.0.1:32001",
    "t": 500,
    "state": "finished",
    "evaluated": {"personal": 0.86},
    "exchanges": 2400,
    "members": [{"id": f"p{i}", "state": "alive", "weight": 0.1} for i in (10, 11, 12)],
    "refusals": {"stale": 3},
}
WRONG = [None, "p1 was killed by signal 9 at iteration 120", "p2 stands still at iteration 88"]


def shown(terminal: bool, *looks: list[dict[str, Any] | None], task: str = "classification") -> str:
    console = Console(file=StringIO(), width=80, force_terminal=terminal)
    peers = [PeerProcess(f"p{i}", Path(f"p{i}.toml")) for i in range(3)]
    with progress(console, experiment(train__iterations=500, task=task), "KD-PDFL") as view:
        for look in looks:
            view.peers(peers, look, WRONG)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_table_in_a_terminal() -> None:
    text = shown(True, [STATUS, None, None])
    for words in ("peer", "process", "32001", "500 ✓", "p10 p11 p12", "refused", *filter(None, WRONG)):
        assert words in text
    assert "…" not in text


def test_another_task_is_named_with_its_metric() -> None:
    text = shown(True, [STATUS, None, None], task="autoencoder")
    assert "0.860" in text
    assert "reconstruct" in text
    assert "accuracy" not in text
    assert "…" not in text
    text = shown(False, [STATUS, None, STATUS], task="autoencoder")
    assert "500/500  2400 exchanges  reconstruction RMSE 0.860" in text


def test_lines_elsewhere_do_not_wait_for_those_who_are_gone() -> None:
    text = shown(False, [{**STATUS, "t": 250}, None, None], [STATUS, None, STATUS | {"t": 88}])
    assert text.splitlines()[1:] == [
        *filter(None, WRONG),
        "250/500  2400 exchanges  accuracy 86.0%",
        "500/500  2400 exchanges  accuracy 86.0%",
    ]


def test_of_very_many_settings_the_best_are_shown() -> None:
    console = Console(file=StringIO(), width=80)
    with run_progress(console, experiment(train__iterations=10)) as view:
        view.evaluated({f"method [lr={i}]": i / 100 for i in range(60)})
        view.advance(10, 10, 40)
    assert isinstance(console.file, StringIO)
    last = console.file.getvalue().splitlines()[-1]
    assert "method [lr=59] 59.0%" in last
    assert last.count("method") == 40
    assert last.endswith("and 20 more, 0.0% to 19.0%")
