"""Slots of rows: by hand, and against rows with an entry for everybody."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from coterie.core.types import State
from coterie.engine.execution import VmapExecution
from coterie.engine.plan import prepare
from coterie.engine.row_slots import RowSlots
from coterie.engine.simulator import Simulator
from tests.engine.small import EVERY_METHOD, LARGE, experiment, hard, simulator
from tests.trees import clone, same


def table(rows: Tensor, clients: int = 100) -> tuple[RowSlots, dict[str, Tensor]]:
    """The slots of clients 0, 1, ... and their rows `[n, C]`."""
    n, width = rows.shape
    made = RowSlots.of([torch.arange(n)], [(width, clients)], State({}, {}, {}, {}, {"w": rows}))
    assert made
    return made, {"w": rows}


def find(slots: RowSlots, rows: dict[str, Tensor], reader: int, numbers: list[int], t: int) -> list[int]:
    there = torch.tensor([[n >= 0 for n in numbers]])
    given = torch.tensor([reader]), torch.tensor([numbers]).clamp_min(0), there
    return slots.find(rows, *given, t)[0].tolist()


def test_by_hand() -> None:
    """Client 0 has four slots, the first its own; -1 is padding."""
    slots, rows = table(torch.tensor([[0.0, 0.25, 0.25, 0.25]] * 2))
    assert find(slots, rows, 0, [7, -1, 9], 20) == [1, 0, 2]
    rows["w"][0] = torch.tensor([0.0, 0.7, 0.9, 0.25])
    assert find(slots, rows, 0, [9, 5], 40) == [2, 3]  # 9 is known, 5 gets the free one
    assert find(slots, rows, 0, [9], 60) == [2]
    assert rows["w"][0].tolist() == pytest.approx([0.0, 0.7, 0.9, 0.25])
    assert find(slots, rows, 0, [3], 80) == [1]  # 7 was not met for the longest time, and is forgotten
    assert rows["w"][0].tolist() == pytest.approx([0.0, 0.25, 0.9, 0.25])
    rows["w"][0] = torch.tensor([0.0, 0.3, 0.9, 0.5])
    assert find(slots, rows, 0, [7, 9, 8], 100) == [3, 2, 1]  # of 5 and 3, then
    assert rows["w"][0].tolist() == pytest.approx([0.0, 0.25, 0.9, 0.25])
    assert slots.owner.tolist() == [[0, 8, 9, 7], [1, -1, -1, -1]]
    assert rows["w"][1].tolist() == [0.0, 0.25, 0.25, 0.25]  # nobody else's


def test_many_readers_are_each_on_their_own() -> None:
    n, width, clients = 50, 8, 1000
    draws = torch.Generator().manual_seed(1)
    every, alone = (table(torch.rand(n, width, generator=draws).expand(n, width).clone()) for _ in range(2))
    alone[1]["w"].copy_(every[1]["w"])
    alone[0].first["w"].copy_(every[0].first["w"])
    for t in range(20, 400, 20):
        reader = torch.randperm(n, generator=draws)[:30]
        numbers = torch.stack([torch.randperm(clients, generator=draws)[:7] % 12 + 100 for _ in reader])
        numbers = torch.stack([row[torch.randperm(7, generator=draws)] for row in numbers])
        there = torch.rand(30, 7, generator=draws) < 0.7
        first = (numbers[:, :, None] == numbers[:, None, :]).int().argmax(dim=2) == torch.arange(7)
        there &= first  # nobody is met twice at once
        got = every[0].find(every[1], reader, numbers, there, t)
        for i, who in enumerate(reader.tolist()):
            one = alone[0].find(alone[1], torch.tensor([who]), numbers[i : i + 1], there[i : i + 1], t)
            assert torch.equal(one[0], got[i])
        owner = every[0].owner[reader].gather(1, got)
        assert (owner == numbers)[there].all()
        assert torch.equal(every[1]["w"], alone[1]["w"])
        every[1]["w"][reader] = alone[1]["w"][reader] = torch.rand(30, width, generator=draws)
    assert all(len(set(row)) == width for row in every[0].owner.tolist())


def test_a_slot_for_everybody_needs_no_table() -> None:
    rows = State({}, {}, {}, {}, {"w": torch.zeros(3, 3)})
    assert RowSlots.of([torch.arange(3)], [(3, 3)], rows) is None
    assert RowSlots.of([torch.arange(3)], [(3, 9)], rows._replace(rows={})) is None


def test_worlds_with_and_without_a_slot_for_everybody() -> None:
    rows = torch.tensor([[0, 0.5, 0, 0], [0.5, 0, 0, 0], [0, 0.25, 0.25, 0.25]])
    state = State({}, {}, {}, {}, {"w": rows})
    slots = RowSlots.of([torch.arange(2), torch.tensor([6])], [(2, 2), (4, 9)], state)
    assert slots
    assert slots.owner.tolist() == [[0, 1, -2, -2], [0, 1, -2, -2], [6, -1, -1, -1]]
    held = {"w": rows}
    assert find(slots, held, 1, [0], 20) == [0]
    assert find(slots, held, 2, [0], 20) == [1]
    assert torch.equal(slots.first["w"], rows)


def identical(s: Simulator) -> None:
    """Give each party a table in which client 3 has slot 3, none of them kept."""
    for party in s.exchanges.parties:
        like = next(iter(party.state.rows.values()))
        owner = torch.arange(like.shape[1], dtype=torch.int32).expand(like.shape[:2]).clone()
        first = {k: v.clone() for k, v in party.state.rows.items()}
        party._slots = RowSlots(owner, torch.zeros_like(owner), first)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_with_room_for_everybody_models_are_the_same_to_the_bit(method: str) -> None:
    """Whatever a method does with its rows, asking included: looked up in a table or not."""
    ends = []
    for tabled in (False, True):
        s = simulator(hard(methods={"m": {"name": method, **EVERY_METHOD[method]}}))
        if not s.clients.parts[0].rows:
            return
        if tabled:
            identical(s)
        while s.t < 24:
            s.step_to_next_event()
        ends.append(clone(s.tensors()))
    same(ends[1], ends[0])


MEETING: dict[str, Any] = {**LARGE, "exchange__stars": 0.03, "train__iterations": 13}


def test_rows_of_those_met_give_the_models_that_rows_of_everybody_give() -> None:
    """Compare methods that use only entries of clients they met: CoBo, and KD-PDFL as it is by default."""
    ends = []
    for everybody in (True, False):
        plan = prepare(experiment(**MEETING, methods=["CoBo", "KD-PDFL"]))
        (stack,) = plan.stacks
        schedule = stack.members[0].schedule
        if everybody:
            schedule.__dict__["slots"] = 2100
        s = Simulator(stack, VmapExecution(stack.task))
        assert s.clients.parts[0].rows["w"].shape == (2100, 2100 if everybody else 64)
        assert (s.clients.slots[0] is None) is everybody
        while s.t < 13:
            s.step_to_next_event()
        ends.append(clone(s.clients.whole.params))
    same(ends[1], ends[0], 1e-12)
