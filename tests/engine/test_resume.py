"""A run that was stopped, wherever that was, comes to the same bits as one that was not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.errors import CheckpointError, RunError
from coterie.engine.plan import Plan, prepare
from coterie.engine.runner import simulate
from coterie.experiment import Experiment
from coterie.storage import tensors as saved
from tests.engine.recording import Recording, Watcher
from tests.engine.small import EVERY_METHOD, KINDS, hard, outcome
from tests.trees import same


def run(plan: Plan, folder: Path, recording: Recording | None = None, **options: Any) -> Recording:
    folder.mkdir(exist_ok=True)
    recording = recording or Recording(folder)
    simulate(plan, recording, **options)
    return recording


def equal(got: Recording, want: Recording, plan: Plan) -> None:
    """To the bit, and the rows in the same order."""
    assert repr(got.rows) == repr(want.rows)  # as text, in which NaN is NaN
    assert (got.worlds, got.clients) == (want.worlds, want.clients)
    ours, theirs = outcome(plan, got), outcome(plan, want)
    for key, world in theirs.items():
        same(ours[key].tensors, world.tensors)


def one_stack() -> Experiment:
    return hard(methods={name: EVERY_METHOD[name] for name in (*KINDS, "DisPFL", "IFCA")})


def three_stacks() -> Experiment:
    return hard(methods=["KD-PDFL"], grid={"train.batch": [2, 3, 4]}, train__iterations=12)


def _second(calls: Iterator[int]) -> bool:
    return next(calls) >= 1


@pytest.mark.parametrize(("make", "stacks"), [(one_stack, 1), (three_stacks, 3)])
def test_stopped_after_every_event(tmp_path: Path, make: Any, stacks: int) -> None:
    """Stopped after each stride, each exchange (before its broadcast) and each broadcast."""
    plan = prepare(make())
    assert len(plan.stacks) == stacks
    want = run(plan, tmp_path / "whole")
    recording, stops = Recording(tmp_path / "stopped"), 0
    while len(recording.rows["metrics"]) < len(want.rows["metrics"]):
        stop = partial(_second, itertools.count())
        run(prepare(make()), tmp_path / "stopped", recording, resume=stops > 0, stop=stop)
        stops += 1
    assert stops > 8  # between an exchange and its broadcast it does not stop
    equal(recording, want, plan)


def test_a_checkpoint_in_which_the_closing_phase_had_its_memory_from_the_beginning(tmp_path: Path) -> None:
    """As version 0.2 wrote them: the mean of a method was there, all zeros or the first model, and unused."""
    plan = prepare(hard(methods=["KD-PDFL", "FedAvg"]))
    want = run(plan, tmp_path / "whole")
    recording = run(plan, tmp_path / "stopped", stop=partial(_second, itertools.count()))
    (path,) = recording.path.glob("checkpoint-*")
    form, facts, tensors = saved.load(path, "coterie-checkpoint-3")
    assert not any(name.startswith("memory/") for name in tensors)
    late = {name for name in checkpoint_names(tmp_path / "whole") if name.startswith("memory/")}
    old = {name: torch.ones(4) for name in late}
    saved.save(path, str(form), facts, tensors | old)
    run(prepare(hard(methods=["KD-PDFL", "FedAvg"])), recording.path, recording, resume=True)
    equal(recording, want, plan)
    saved.save(path, str(form), facts, tensors | {"memory/9/other": torch.ones(4)})
    with pytest.raises(CheckpointError, match=r"tensors differ: \['memory/9/other'\]"):
        run(prepare(hard(methods=["KD-PDFL", "FedAvg"])), recording.path, recording, resume=True)


def checkpoint_names(folder: Path) -> set[str]:
    (path,) = folder.glob("checkpoint-*")
    return set(saved.load(path, "coterie-checkpoint-3").tensors)


@pytest.mark.parametrize("after", [1, 4, 9])
def test_killed_after_rows_were_written_that_no_checkpoint_knows(tmp_path: Path, after: int) -> None:
    """Like a power cut: rows go on after the last checkpoint, and are forgotten."""

    class PowerCutError(Exception):
        pass

    plan = prepare(three_stacks())
    want = run(plan, tmp_path / "whole")
    recording = Recording(tmp_path / "cut")
    recording.path.mkdir()
    calls = itertools.count()

    def stop() -> bool:
        if next(calls) > after:
            raise PowerCutError
        return False

    with pytest.raises(PowerCutError):
        simulate(plan, recording, stop=stop, checkpoint_every=0 if after % 2 else 1e9)
    recording.metrics({"world": 0, "t": 99})
    recording.exchange({"world": 0, "t": 99})
    simulate(prepare(three_stacks()), recording, resume=True)
    equal(recording, want, plan)


def test_a_checkpoint_at_every_stride_changes_nothing(tmp_path: Path) -> None:
    plan = prepare(one_stack())
    want = run(plan, tmp_path / "whole")
    equal(run(plan, tmp_path / "saved", checkpoint_every=0), want, plan)


def test_nothing_to_go_on_from_is_a_start(tmp_path: Path) -> None:
    plan = prepare(one_stack())
    want = run(plan, tmp_path / "whole")
    equal(run(plan, tmp_path / "empty", resume=True), want, plan)


def test_a_finished_run_is_finished(tmp_path: Path) -> None:
    plan = prepare(three_stacks())
    recording = run(plan, tmp_path / "whole")
    want = repr(recording.rows)
    assert simulate(plan, recording, resume=True)
    assert repr(recording.rows) == want


def test_the_last_part_can_be_done_again(tmp_path: Path) -> None:
    """What the message of a damaged checkpoint advises."""
    plan = prepare(three_stacks())
    want = run(plan, tmp_path / "whole")
    recording = run(plan, tmp_path / "again")
    last = recording.path / "checkpoint-2.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="delete it to start this part of the run again"):
        simulate(plan, recording, resume=True)
    last.unlink()
    simulate(plan, recording, resume=True)
    equal(recording, want, plan)


def test_other_settings_are_refused(tmp_path: Path) -> None:
    recording = run(prepare(one_stack()), tmp_path / "run")
    with pytest.raises(RunError, match="belongs to another experiment"):
        simulate(prepare(one_stack().replace(train__lr=0.07)), recording, resume=True)


def test_progress_knows_where_a_resumed_run_stands(tmp_path: Path) -> None:
    plan = prepare(three_stacks())
    recording = Recording(tmp_path)
    calls = itertools.count()
    first = Watcher()
    assert not simulate(plan, recording, progress=first, stop=lambda: next(calls) >= 9)
    done, total, _ = first.steps[-1]
    assert total == 36
    assert 12 < done < 36
    second = Watcher()
    simulate(plan, recording, progress=second, resume=True)
    assert second.steps[0] == (done, total, 0)
    assert second.steps[-1][:2] == (36, 36)
    schedules = [m.schedule for stack in plan.stacks for m in stack.members]
    local = sum(int(s.learns(t).sum()) for s in schedules for t in range(1, 13) if s.phase(t) == "local")
    assert sum(s for _, _, s in first.steps + second.steps) == local
    assert [set(a) for a in first.accuracy[:1]] == [{"KD-PDFL [batch=2]"}]
