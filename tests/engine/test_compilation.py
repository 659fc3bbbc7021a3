"""Compiled local steps compute what uncompiled ones do; without a compiler it goes on uncompiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.engine.execution import AnalyticExecution, VmapExecution
from coterie.engine.plan import choose_execution, prepare
from tests.engine.recording import Watcher
from tests.engine.small import experiment, finished, hard
from tests.trees import same


@pytest.mark.filterwarnings("ignore")  # the compiler's own, which come and go with its version
def test_compiled_is_uncompiled(tmp_path: Path) -> None:
    watcher = Watcher()
    found = {
        how: finished(prepare(hard(compile=how)), tmp_path / how, progress=watcher) for how in ("on", "off")
    }
    assert watcher.stages == ["compiling the local step"]
    for key, want in found["off"].items():
        same(found["on"][key].tensors, want.tensors, 1e-10)


def test_without_a_compiler_it_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    watcher = Watcher()
    plan = prepare(experiment(compile="on"))
    finished(plan, tmp_path / "run", progress=watcher)
    (notice,) = watcher.notices
    assert "no C++ compiler found" in notice
    assert watcher.stages == []


@pytest.mark.parametrize(
    ("how", "iterations", "dropout", "compiled"),
    [
        ("auto", 24, 0.1, False),
        ("auto", 10**9, 0.1, True),
        ("off", 10**9, 0.1, False),
        ("on", 24, 0.1, True),
        ("auto", 24, 0.0, False),
        ("auto", 10**9, 0.0, True),
        ("on", 24, 0.0, True),
    ],
)
def test_long_runs_are_compiled(
    how: str, iterations: int, dropout: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    e = experiment(compile=how, train__iterations=iterations, model__dropout=dropout)
    (stack,) = prepare(e).stacks
    execution = choose_execution(stack, None)
    assert isinstance(execution, VmapExecution if dropout else AnalyticExecution)
    assert execution.compiled is compiled


def test_clients_with_convolutions_go_side_by_side_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    e = experiment(data__set="digits", model={"name": "cnn"}, train__iterations=10**9)
    (stack,) = prepare(e).stacks
    execution = choose_execution(stack, None)
    assert isinstance(execution, AnalyticExecution)
    assert not execution.compiled
    assert execution.side_by_side
