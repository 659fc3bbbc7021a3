"""Results apart by architecture: made-up clients, of whom some have one model and some another."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.runs.by_model import by_model, model_table
from tests.runs.run_fixture import CLIENTS, make

MODELS = [["cnn", "cnn", "mlp", "mlp"], ["cnn", "mlp", "mlp", "mlp"]]
MIXED = [{**clients, "architecture": names} for clients, names in zip(CLIENTS, MODELS, strict=True)]


def test_each_architecture_by_hand(tmp_path: Path) -> None:
    run = make(tmp_path / "run", clients=MIXED)
    numbers = by_model(run.tracks)
    assert {method: list(models) for method, models in numbers.items()} == {
        "Local": ["cnn", "mlp"],
        "KD-PDFL": ["cnn", "mlp"],
    }
    cnn, mlp = numbers["KD-PDFL"].values()
    assert (cnn["clients"], mlp["clients"]) == (3, 4)  # the last client of the second seed diverged
    assert cnn["personal"] == pytest.approx({"mean": 0.6, "std_seeds": 0.0})
    assert cnn["gain"]["mean"] == pytest.approx((0.05 + 0.2) / 2)
    assert cnn["hurt_vs_local"] == 0.0
    assert mlp["personal"]["mean"] == pytest.approx((0.8 + 0.5) / 2)
    assert mlp["personal"]["std_seeds"] == pytest.approx(0.3 / 2**0.5)
    assert mlp["gain"]["mean"] == pytest.approx((0.05 + 0.1) / 2)
    assert mlp["hurt_vs_local"] == 0.5
    assert numbers["Local"]["cnn"]["gain"] == {"mean": None, "std_seeds": None}
    rows = [[cell.text for cell in row] for row in model_table(numbers, run.task, "made up").cells]
    assert rows[0][:4] == ["Local", "cnn", "3", "47.5 ± 10.6"]
    assert rows[0][5:] == ["–", "–", "–"]
    assert rows[3] == ["KD-PDFL", "mlp", "4", "65.0 ± 21.2", "50.0 ± 0.0", "+7.5", "50.0", "–"]


def test_one_model_for_all_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    assert by_model(make(tmp_path / "run").tracks) == {}
