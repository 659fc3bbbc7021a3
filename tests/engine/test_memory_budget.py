"""What is counted before a run begins."""

from __future__ import annotations

import pytest
import torch

from coterie.core.errors import NoRoomError
from coterie.core.types import State
from coterie.engine.memory_budget import Need, at_once, split_to_fit, world_need
from coterie.engine.plan import prepare
from tests.engine.small import experiment


def test_what_a_method_remembers_is_counted() -> None:
    """In float64, four clients each: a row of W is there for every method, a second model for one."""
    mine = {"name": "tests.engine.nets:SecondModel"}
    methods = {"FedAvg": {}, "KD-PDFL": {"reading": "paper"}, "mine": mine}
    plan = prepare(experiment(methods=methods))
    (stack,) = plan.stacks
    need = {
        m.world.label: world_need(m.world, m.federation, stack.task, m.size, 4, stack.device).carried
        for m in stack.members
    }
    assert need["FedAvg"] == need["KD-PDFL"]
    parameters = sum(p.numel() for p in stack.task.model.parameters())
    assert need["mine"] - need["KD-PDFL"] == 4 * 8 * parameters


def test_what_only_the_closing_phase_needs_is_counted_there() -> None:
    (stack,) = prepare(experiment(methods=["KD-PDFL"])).stacks
    (member,) = stack.members
    need = world_need(member.world, member.federation, stack.task, 4, 4, stack.device)
    model = sum(p.numel() for p in stack.task.model.parameters())
    buffers = sum(b.numel() for b in stack.task.model.buffers() if b.is_floating_point())
    assert need.closing - need.carried == 4 * 8 * (model + buffers + 1)


def test_worlds_share_a_stack_while_both_phases_fit() -> None:
    """Of 100 bytes 80 are for models and batches, and 90 in the closing phase, when nobody exchanges."""
    small = Need(carried=30, laid_out=10, step=5, closing=40)
    assert split_to_fit([small, small], [3, 3], 100) == [range(2)]
    assert split_to_fit([small] * 3, [3] * 3, 100) == [range(2), range(2, 3)]
    late = small._replace(closing=85)
    assert split_to_fit([late], [3], 101) == [range(1)]
    with pytest.raises(NoRoomError, match="take at least"):
        split_to_fit([late._replace(closing=88)], [3], 100)
    laid_out = small._replace(laid_out=25)  # from which one world alone takes its models
    assert split_to_fit([laid_out, laid_out], [3, 3], 100) == [range(1), range(1, 2)]


def test_as_many_clients_of_a_stack_step_together_as_there_is_room_for() -> None:
    """On a device with no memory to spare, as many as the budget of temporary tensors takes."""
    own = State({"w": torch.zeros(1000)}, {}, {}, {}, {})  # 4,000 bytes, so a step takes 8,000 and a batch
    full = 10**15
    assert at_once(5, full, own, 0, torch.device("cpu")) == 5
    assert at_once(10**6, full, own, 192, torch.device("cpu")) == (256 << 20) // 8192
    assert at_once(10**9, 0, own, 192, torch.device("cpu")) < 10**9
