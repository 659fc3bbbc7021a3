"""One federation of three architectures against three of one: what is counted, and how it is told."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.simulator.mixed_bench import measure
from benchmarks.simulator.tables import markdown, table
from benchmarks.simulator.timing import Settings
from coterie.core.errors import UnknownNameError

ONCE = Settings(pairs=1, seconds=0, compiling="off")


def test_both_take_the_same_local_steps_and_only_one_has_lessons() -> None:
    told: list[str] = []
    result = measure({"M0": [7]}, ONCE, told.append, ["FedAvg", "KD-PDFL"])
    plain, lessons = result["rows"]
    for row in (plain, lessons):
        assert (row["work"], row["clients"]) == ("M0", 6)
        ratio = row["alone"]["median"] / row["mixed"]["median"]
        assert row["cost_of_a_gradient"]["median"] == pytest.approx(ratio)
        more = row["gradients"] / row["gradients_alone"]
        assert row["cost"]["median"] == pytest.approx(ratio * more)
    assert plain["gradients"] == plain["gradients_alone"] == lessons["gradients_alone"]
    assert lessons["gradients"] > lessons["gradients_alone"]
    assert told == ["M0, 6 clients, FedAvg: 1 pairs", "M0, 6 clients, KD-PDFL: 1 pairs"]
    assert "| M0 8 x 8 | 6 | FedAvg |" in markdown(result)
    out = io.StringIO()
    Console(file=out, width=60).print(table(result))
    assert "…" not in out.getvalue()


def test_an_unknown_method_is_refused_before_anything_is_measured() -> None:
    told: list[str] = []
    with pytest.raises(UnknownNameError, match="unknown algorithm 'FedAvgg'"):
        measure({"M0": [6]}, ONCE, told.append, ["FedAvgg"])
    assert told == []
