"""`coterie run --devices`: processes that are started, lost, and started again; all else is as with one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from coterie import Callback, Experiment, Run, run
from coterie.core.errors import ConfigError
from tests.cli.conftest import Command, says
from tests.trees import close

pytestmark = pytest.mark.usefixtures("outside")

DYING = '''
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from coterie.plugins.algorithms.kd_pdfl import KDPDFL

calls = count()

@dataclass(frozen=True)
class Dying(KDPDFL):
    """The second process is killed in the third exchange of two seeds, if there is a file that says so."""

    def exchange_gradients(self, asked: int, heard: int, told: int) -> int:
        if os.environ.get("RANK") == "1" and Path("die").exists() and next(calls) == 4:
            os.kill(os.getpid(), 9)
        return 0
'''


def rows(path: Path) -> list[list[dict[str, object]]]:
    return [
        [json.loads(line) for line in (path / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "exchanges.jsonl")
    ]


def test_one_that_is_killed_is_named_and_the_run_goes_on(coterie: Command) -> None:
    Path("dying.py").write_text(DYING)
    words = ["--set", "methods={K={name='dying:Dying'}}", "--set", "dtype=float64", "--no-plots"]
    assert coterie("run", "small.toml", *words, "--out", "whole").code == 0
    Path("die").touch()
    lost = coterie("run", "small.toml", *words, "--out", "run", "--devices", 2, "--checkpoint", 0)
    assert lost.code == 2
    says(lost.err, "error: rank 1 was killed by signal 9; all up to the last checkpoint is saved")
    again = lost.err.strip().rpartition("with: coterie ")[2]
    assert again == "run --resume --out run --devices 2"
    assert Run("run").status["state"] == "failed"
    assert 10 <= Run("run").status["t"] < 15
    Path("die").unlink()
    found = run("run/experiment.toml", "run", resume=True, devices=2, plots=False, progress=False)
    assert found.status["state"] == "done"
    for got, want in zip(rows(Path("run")), rows(Path("whole")), strict=True):
        close(got, want, 1e-10)


def test_processes_that_torchrun_started(coterie: Command, tmp_path: Path) -> None:
    """Start them as torchrun does: RANK and so on in the environment, a port of the first to meet at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [sys.executable, "-c", "from coterie.cli import main; main()", "run", "small.toml", "--no-plots"]
    own = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join(filter(None, sys.path))
    ranks = [
        subprocess.Popen(
            start, env={**os.environ, **own, "RANK": str(rank), "PYTHONPATH": path}, stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    shown = [one.communicate()[0].decode() for one in ranks]
    assert [one.returncode for one in ranks] == [0, 0]
    assert "KD-PDFL" in shown[0]
    assert shown[1] == ""
    assert coterie("run", "small.toml", "--no-plots", "--out", "one").code == 0
    for got, want in zip(rows(tmp_path / "runs" / "small"), rows(Path("one")), strict=True):
        close(got, want, 1e-5)


def test_one_gpu_for_several(coterie: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    answer = coterie("run", "small.toml", "--devices", 2, "--device", "cuda:1")
    assert answer.err == (
        "error: device = 'cuda:1' names one GPU, but there are several ranks; use device = 'cuda'\n"
    )
    assert sorted(os.listdir()) == ["small.toml"]


def test_what_other_processes_cannot_have_is_refused(coterie: Command) -> None:
    x = Experiment.load("small.toml")
    with pytest.raises(ConfigError, match="the callback Callback is only in this process, and others cannot"):
        run(x, devices=2, callbacks=[Callback()])
    with pytest.raises(ConfigError, match="the object given as model is only in this process"):
        run(x.replace(model=lambda inputs, classes: nn.Linear(inputs[0], classes)), devices=2)
    assert sorted(os.listdir()) == ["small.toml"]


def test_a_number_that_does_not_fit_what_was_started(
    coterie: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    answer = coterie("run", "small.toml", "--devices", 2)
    says(answer.err, "error: --devices 2 does not fit the 4 processes that were started (WORLD_SIZE=4)")
    monkeypatch.setenv("RANK", "4")
    says(coterie("run", "small.toml").err, "error: RANK='4' and WORLD_SIZE='4' must be whole numbers")
