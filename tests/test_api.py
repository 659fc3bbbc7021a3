"""Whole runs into folders: from Python, from the command line, and stopped in every way there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file

from coterie import Experiment, Run, run
from coterie.api import Stopped
from coterie.core.errors import CheckpointError, ConfigError, CoterieError, DataError, ModelError, RunError
from tests.engine.recording import Watcher
from tests.engine.small import experiment, hard
from tests.trees import same
from tests.waiting import PATIENCE, until

APPENDED = ("metrics.jsonl", "exchanges.jsonl")


def long() -> Experiment:
    """Long enough to be interrupted, with a checkpoint after every stride."""
    return hard(methods=["FedAvg", "KD-PDFL"], train__iterations=150, evaluate__every=25)


def equal(got: Path, want: Path) -> None:
    """Two run folders hold the same, byte for byte and bit for bit."""
    for name in APPENDED:
        assert (got / name).read_bytes() == (want / name).read_bytes(), name
    checkpoints = sorted(p.name for p in want.glob("*.safetensors"))
    assert checkpoints == sorted(p.name for p in got.glob("*.safetensors"))
    for name in checkpoints:
        same(load_file(got / name), load_file(want / name))
    assert json.loads((got / "summary.json").read_text()) == json.loads((want / "summary.json").read_text())


class Interrupting(Watcher):
    """Sends signals to this process once the run has come to iteration t."""

    def __init__(self, t: int, *signals: signal.Signals) -> None:
        super().__init__()
        self.t, self.signals = t, list(signals)

    def advance(self, done: int, total: int, client_steps: int) -> None:
        super().advance(done, total, client_steps)
        while done >= self.t and self.signals:
            signal.raise_signal(self.signals.pop(0))


# From Python.


def test_run_gives_frames(tmp_path: Path) -> None:
    watcher = Watcher()
    e = experiment(methods=["Local", "KD-PDFL"], seeds=[0, 1])
    found = run(e, tmp_path / "run", progress=watcher)
    assert isinstance(found, Run)
    table, curves, clients = found.table(), found.curves(), found.per_client()
    assert all(isinstance(frame, pd.DataFrame) for frame in (table, curves, clients))
    assert list(table.index) == ["Local", "KD-PDFL"]
    assert sorted(curves["t"].unique()) == [0, 10, 20, 24]
    assert len(clients) == 2 * 2 * 4
    assert table.loc["Local", "bytes_sent"] == 0
    assert found.graph("KD-PDFL", seed=1).shape == (4, 4)
    assert found.experiment == e
    assert found.status["state"] == "done"
    assert found.status["t"] == found.status["iterations"] == 24
    assert list((tmp_path / "run" / "plots").glob("*.png"))
    assert watcher.stages[:2] == ["dealing the data", "trying the model"]
    assert watcher.stages[-1] == "drawing the pictures"


def test_a_file_does_as_well(tmp_path: Path) -> None:
    first = run(experiment(), tmp_path / "first", plots=False)
    again = run(first.path / "experiment.toml", tmp_path / "again", plots=False)
    equal(again.path, first.path)


def test_the_folder_is_named_after_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    e = experiment(name="mine", train__iterations=3)
    assert [str(run(e, plots=False).path) for _ in range(2)] == ["runs/mine", "runs/mine-2"]
    assert run(e, resume=True, plots=False).path == Path("runs/mine")


def test_it_runs_in_a_thread(tmp_path: Path) -> None:
    """There, signals are not its business."""
    found: list[Run] = []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: found.append(run(experiment(), tmp_path / "run", plots=False)))
    thread.start()
    thread.join(PATIENCE)
    assert [r.status["state"] for r in found] == ["done"]
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"data__sizes": [100, 200], "data__overlap": False}, DataError),
        ({"data__set": "tests.engine.nowhere:data"}, ConfigError),
        ({"model": "tests.engine.nets:too_wide"}, ModelError),
        ({"device": "cuda:9"}, ConfigError),
    ],
)
def test_a_mistake_leaves_no_folder(
    tmp_path: Path, changes: dict[str, Any], error: type[CoterieError]
) -> None:
    with pytest.raises(error):
        run(experiment(**changes), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# Stopped.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_goes_on_from_there(tmp_path: Path, number: signal.Signals) -> None:
    e = hard(methods=["KD-PDFL"], train__iterations=60)
    want = run(e, tmp_path / "whole", plots=False)
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=r"stopped at iteration \d+ of 60; everything is saved in") as stopped:
        run(e, tmp_path / "run", plots=False, progress=Interrupting(30, number))
    assert signal.getsignal(number) == before
    assert stopped.value.path == tmp_path / "run"
    status = Run(tmp_path / "run").status
    assert status["state"] == "stopped"
    assert 30 <= status["t"] < 60
    assert run(e, tmp_path / "run", plots=False, resume=True).status["state"] == "done"
    equal(tmp_path / "run", want.path)


def test_a_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    e = hard(methods=["KD-PDFL"], train__iterations=60)
    want = run(e, tmp_path / "whole", plots=False)
    impatient = Interrupting(30, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(e, tmp_path / "run", plots=False, progress=impatient, checkpoint_every=0)
    assert Run(tmp_path / "run").status["state"] == "interrupted"
    run(e, tmp_path / "run", plots=False, resume=True)
    equal(tmp_path / "run", want.path)


def test_stopped_again_before_it_went_on_it_still_knows_where_it_is(tmp_path: Path) -> None:
    e = hard(methods=["KD-PDFL"], train__iterations=60)
    with pytest.raises(Stopped) as first:
        run(e, tmp_path / "run", plots=False, progress=Interrupting(30, signal.SIGTERM))
    with pytest.raises(Stopped) as second:
        run(e, tmp_path / "run", plots=False, resume=True, progress=Interrupting(0, signal.SIGTERM))
    assert str(second.value) == str(first.value)


def test_resuming_what_is_done_changes_nothing(tmp_path: Path) -> None:
    want = run(experiment(), tmp_path / "whole", plots=False)
    run(experiment(), tmp_path / "run", plots=False)
    assert run(experiment(), tmp_path / "run", plots=False, resume=True).status["state"] == "done"
    equal(tmp_path / "run", want.path)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    run(experiment(), tmp_path, plots=False)
    held = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    with pytest.raises(RunError, match=r"in use: it is not empty; continue it with --resume"):
        run(experiment(), tmp_path)
    with pytest.raises(RunError, match=r"another experiment; different: train\.lr \(there 0\.05, now 0\.1\)"):
        run(experiment(train__lr=0.1), tmp_path, resume=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == held


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        run(experiment(), tmp_path / "run", resume=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("checkpoint-0.safetensors", CheckpointError),
        ("metrics.jsonl", RunError),
        ("experiment.toml", RunError),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, name: str, error: type[RunError]) -> None:
    run(experiment(), tmp_path, plots=False)
    file = tmp_path / name
    file.write_bytes(b"[")
    with pytest.raises(error, match=name):
        run(experiment(), tmp_path, resume=True)


# From the command line, as processes.


@contextmanager
def coterie(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, with one thread as the tests have."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from coterie.cli import main; main()", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def wait_for_a_new(file: Path, process: subprocess.Popen[str]) -> None:
    """Until the file was replaced; checkpoints always are, whole."""

    def stamp() -> int:
        return file.stat().st_mtime_ns if file.exists() else 0

    def still_runs() -> None:
        assert process.poll() is None, ended(process)

    before = stamp()
    until(lambda: stamp() != before, check=still_runs)


def test_interrupted_terminated_and_killed_it_comes_to_the_same_bits(tmp_path: Path) -> None:
    want = run(long(), tmp_path / "whole", plots=False).path
    toml, out = want / "experiment.toml", tmp_path / "run"
    checkpoint = out / "checkpoint-0.safetensors"
    reached = []

    for number, words in (
        (signal.SIGINT, ["run", toml]),
        (signal.SIGTERM, ["run", "--resume"]),
        (signal.SIGKILL, ["run", "--resume"]),
    ):
        with coterie(*words, "--out", out, "--no-plots", "--checkpoint", "0") as process:
            wait_for_a_new(checkpoint, process)
            if number is signal.SIGINT:
                with pytest.raises(RunError, match="in use: another process is writing here"):
                    run(long(), out, resume=True)
            process.send_signal(number)
            code, output = ended(process)
        if number is signal.SIGKILL:
            assert code == -signal.SIGKILL
        else:
            assert code == 130, output
            assert "stopped at iteration" in output
            assert "".join(f"Continue with: coterie run --resume --out {out}".split()) in "".join(
                output.split()
            )
        assert not (out / "summary.json").exists()
        reached.append(checkpoint.read_bytes())
    assert len(set(reached)) == 3  # each got further than the one before

    with coterie("run", "--resume", "--out", out, "--no-plots") as process:
        code, output = ended(process)
    assert code == 0, output
    assert "FedAvg" in output
    equal(out, want)


@pytest.mark.parametrize("overlap", [True, False])
def test_validation_and_test_samples_are_equally_hard(tmp_path: Path, overlap: bool) -> None:
    """A client that learns alone does as well on both: else whoever chooses by validation chooses wrongly."""
    experiment = Experiment().replace(
        methods=["Local"],
        seeds=list(range(8)),
        data={"clients": 20, "sizes": [20, 30], "validation": 0.25, "overlap": overlap},
        train={"iterations": 60, "lr": 0.1},
        evaluate__every=60,
    )
    last = run(experiment, tmp_path / "run").per_client().groupby("seed")[["personal", "validation"]].mean()
    gap = last["personal"] - last["validation"]
    assert abs(gap.mean()) < 3 * gap.std() / len(gap) ** 0.5 + 0.01
