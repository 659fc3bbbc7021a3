"""Numbers over all clients, by hand."""

from __future__ import annotations

import pytest
import torch

from coterie.core.tasks.task_factory import build_kind, classification
from coterie.engine.population import over_all


def test_numbers_over_all_clients() -> None:
    personal = torch.tensor([0.1, 0.5, torch.nan, 0.3, 0.9, 0.2])
    found = over_all({"personal": personal, "loss": 10 * personal}, classification())
    assert found["personal"]["clients"] == 5
    assert found["personal"]["mean"] == pytest.approx(0.4)
    assert found["personal"]["std"] == pytest.approx(0.08**0.5)
    assert found["personal"]["worst10"] == pytest.approx(0.1)
    assert found["loss"]["worst10"] == pytest.approx(9.0)
    assert found["personal"]["quantiles"] == pytest.approx([0.1, 0.12, 0.2, 0.3, 0.5, 0.82, 0.9])
    assert over_all({"personal": personal[2:3]}, classification()) == {"personal": {"clients": 0}}


def test_of_a_metric_that_falls_the_worst_are_the_largest() -> None:
    kind = build_kind("regression", {})
    columns = {"personal": torch.arange(20.0), "personal.r2": torch.arange(20.0)}
    found = over_all(columns, kind)
    assert (found["personal"]["worst10"], found["personal.r2"]["worst10"]) == (18.5, 0.5)
