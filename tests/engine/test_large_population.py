"""Large populations: what is bounded there, runs that stop and are resumed, a sample that reports."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from coterie.core.types import Tensors
from coterie.engine.execution import VmapExecution
from coterie.engine.layout import WorldSlot
from coterie.engine.memory_budget import Need, world_need
from coterie.engine.mixed import MixedSimulator
from coterie.engine.plan import prepare
from coterie.engine.runner import simulate
from coterie.experiment import Experiment
from tests.engine.recording import Recording
from tests.engine.small import EVERY_METHOD, LARGE, experiment, finished, hard, outcome, simulator
from tests.trees import same

ROWS = ("CoBo", "DAC", "Dada", "DPFL", "FedFomo", "KD-PDFL", "L2C", "PENS")
"""Methods that remember something of each neighbour."""
OTHERS = ("FedAvg", "DFML", "Ditto")


@pytest.fixture
def six_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six clients are a large population, whose rows have entries for three others."""
    monkeypatch.setattr("coterie.schedule.SMALL", 5)
    monkeypatch.setattr("coterie.schedule._SLOTS", 3)


def tight(**changes: Any) -> Experiment:
    """At most two are met in an exchange; of all five that are met in the end three have a slot."""
    return hard(exchange__cap=2, **changes)


@pytest.mark.usefixtures("six_are_many")
def test_in_several_goes_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for chunk in (256 << 20, 1):
        monkeypatch.setattr("coterie.engine.memory_budget.TEMPORARY_BYTES", chunk)
        s = simulator(tight(methods={k: EVERY_METHOD[k] for k in (*ROWS, *OTHERS)}, train__iterations=12))
        assert [table.owner.shape[1] for table in s.clients.slots if table] == [4] * len(ROWS)
        rows = []
        while s.t < s.stack.iterations:
            rows += s.step_to_next_event()
        found.append((s.tensors(), rows))
    same(found[1][0], found[0][0], 1e-12)
    one, other = ([(r["t"], r["world"], r["client"], r["neighbours"]) for r in rows] for _, rows in found)
    assert one == other


@pytest.mark.usefixtures("six_are_many")
def test_stopped_after_every_event(tmp_path: Path) -> None:
    """To the bit, with the tables of whose each slot is."""
    e = tight(methods={k: EVERY_METHOD[k] for k in ("KD-PDFL", "PENS", "FedAvg")})
    want = finished(prepare(e), tmp_path / "whole")
    recording, stops = Recording(tmp_path / "stopped"), 0
    recording.path.mkdir()
    done = False
    while not done:
        stop = partial(_second, itertools.count())
        done = simulate(prepare(e), recording, resume=stops > 0, stop=stop)
        stops += 1
    assert stops > 8
    for key, world in outcome(prepare(e), recording).items():
        same(world.tensors, want[key].tensors)
        assert repr(world.exchanges) == repr(want[key].exchanges)


def _second(calls: Any) -> bool:
    return bool(next(calls) >= 1)


class Direct:
    """A recorder that does the work each time, as a replay would: with readers and senders rounded up."""

    def replay(self, name: Any, work: Any, *given: Tensor) -> Tensors:
        found: Tensors = work(*given)
        return found


@pytest.mark.usefixtures("six_are_many")
def test_what_is_recorded_is_what_is_done_as_written() -> None:
    found = []
    for recorder in (None, Direct()):
        s = simulator(tight(methods={k: EVERY_METHOD[k] for k in (*ROWS, "FedAvg")}, train__iterations=12))
        s.exchanges._recorder = recorder  # type: ignore[assignment]
        rows = []
        while s.t < s.stack.iterations:
            rows += s.step_to_next_event()
        found.append((s.tensors(), [(r["t"], r["world"], r["client"], r["neighbours"]) for r in rows]))
    same(found[1][0], found[0][0], 1e-12)
    assert found[1][1] == found[0][1]


@pytest.mark.usefixtures("six_are_many")
def test_several_architectures() -> None:
    """Readers of each stack have tables of their own."""
    models = [{"name": "mlp", "hidden": [5]}, {"name": "mlp", "hidden": [4]}]
    (stack,) = prepare(tight(methods=["KD-PDFL"], train__iterations=12).replace(model=models)).stacks
    s = MixedSimulator(stack, lambda one: VmapExecution(one.task))
    while s.t < s.stack.iterations:
        s.step_to_next_event()
    tables = [part.clients.slots[0] for part in s.parts]
    assert [table.owner.shape for table in tables if table] == [(3, 4), (3, 4)]
    assert all((table.owner[:, 1:] >= 0).any() for table in tables if table)


MEETING: dict[str, Any] = {**LARGE, "exchange__stars": 0.1, "train__iterations": 7, "evaluate__every": 7}


def test_a_sample_of_the_clients_reports(tmp_path: Path) -> None:
    plan = prepare(experiment(**MEETING, methods=["KD-PDFL"]))
    (world,) = finished(plan, tmp_path).values()
    schedule = plan.stacks[0].members[0].schedule
    meeting = schedule.meeting(5)
    pairs = {("mix", int(s)): n[h].tolist() for s, n, h in zip(*meeting[:2], meeting.heard, strict=True)}
    star, place = meeting.told.nonzero(as_tuple=True)
    told = zip(meeting.neighbour[star, place].tolist(), meeting.star[star].tolist(), strict=True)
    pairs |= {("adopt", client): [one] for client, one in told}
    turns = [(r["kind"], r["client"]) for r in world.exchanges]
    assert 0.2 < len(turns) / len(pairs) < 0.7
    assert len(set(turns)) == len(turns)
    for turn, row in zip(turns, world.exchanges, strict=True):
        assert row["neighbours"] == pairs[turn]
        assert len(row["weight"]) == len(row["distance"]) == len(row["neighbours"])
    mixed = [client for kind, client in turns if kind == "mix"]
    assert mixed == sorted(mixed)  # as in a small population


def test_rows_are_counted_as_they_are() -> None:
    """In float32: 64 entries of two rows, and of the table that says whose they are."""
    plan = prepare(experiment(**MEETING, methods=["FedAvg", "KD-PDFL"], dtype="float32"))
    (stack,) = plan.stacks

    def counted(member: WorldSlot, slots: int) -> Need:
        return world_need(member.world, member.federation, stack.task, 1, slots, stack.device)

    need = [counted(m, m.schedule.slots) for m in stack.members]
    every = [counted(m, 2100) for m in stack.members]
    model = sum(p.numel() for p in stack.task.model.parameters())
    more = [mine.carried - usual.carried for mine, usual in ((need[1], need[0]), (every[1], need[1]))]
    assert more == [(2 * 4 + 8) * 64 - 4 * 64, 2 * 4 * (2100 - 64) - 8 * 64]  # FedAvg begins with a row, too
    assert [own.closing - own.carried for own in need] == [0, 4 * (model + 1)]  # the mean, and its steps
    assert torch.tensor([m.schedule.slots for m in stack.members]).tolist() == [64, 64]
