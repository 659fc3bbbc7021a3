"""What is counted before a run begins."""

from __future__ import annotations

from coterie.engine.memory_budget import world_bytes
from coterie.engine.plan import prepare
from tests.engine.small import experiment


def test_what_a_method_remembers_is_counted() -> None:
    """In float64, four clients each: a row of W is there for every method, a second model for one."""
    mine = {"name": "tests.engine.nets:SecondModel"}
    methods = {"FedAvg": {}, "KD-PDFL": {"reading": "paper"}, "mine": mine}
    plan = prepare(experiment(methods=methods))
    (stack,) = plan.stacks
    need = {
        m.world.label: world_bytes(m.world, m.federation, stack.task, m.size, 4, stack.device)
        for m in stack.members
    }
    assert need["FedAvg"] == need["KD-PDFL"]
    parameters = sum(p.numel() for p in stack.task.model.parameters())
    assert need["mine"] - need["KD-PDFL"] == 4 * 8 * parameters
