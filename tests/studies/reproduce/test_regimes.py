"""Two regimes of three seeds and 11 clients, 6 in one group and 5 in the other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.studies.reproduce.regimes import regimes, tables
from tests.runs.run_fixture import exchange, make, metrics

SEEDS = (0, 1, 2)
EXPERIMENT = Experiment.parse(
    {
        "name": "made up",
        "seeds": list(SEEDS),
        "methods": {"Local": "Local", "FedAvg": {}, "KD-PDFL": {}},
        "data": {"clients": 11},
        "train": {"iterations": 10},
    }
)
CLIENTS = [
    {"seed": seed, "classes": ["cat"], "group": [0] * 6 + [1] * 5, "train": [1] * 11, "labels": [[1]] * 11}
    for seed in SEEDS
]
OURS = [  # means .5, .6, .7
    [0.2, 0.4, 0.5, *[0.55] * 8],
    [0.3, 0.5, 0.6, *[0.65] * 8],
    [0.4, 0.6, 0.7, *[0.75] * 8],
]


def made(path: Path, local: float, fedavg: float, ours: list[list[float]], uniform: list[float]) -> Run:
    """All clients of Local and FedAvg alike, in every seed; `uniform`: KD-PDFL's of each seed, others .2."""
    rows = []
    for k, world in enumerate(EXPERIMENT.worlds()):
        alike = {"Local": local, "FedAvg": fedavg}.get(world.label)
        personal = ours[world.seed] if alike is None else [alike] * 11
        rows.append(
            metrics(k, 10, personal, **{"global": [uniform[world.seed] if alike is None else 0.2] * 11})
        )
    heard = [  # the worlds of KD-PDFL are 2, 5 and 8
        exchange(2, 0, [1, 6], world=2, weight=[0.8, 0.1]),  # the own group has more: AUC 1
        exchange(2, 0, [1, 6], world=5, weight=[0.4, 0.4]),  # a tie: 0.5; seed 2 reports none
    ]
    return make(path, EXPERIMENT, CLIENTS, rows, heard)


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    return regimes(
        {
            "concept": made(tmp_path / "concept", 0.5, 0.4, OURS, [0.3, 0.2, 0.4]),
            "feature": made(tmp_path / "feature", 0.5, 0.25, [[0.75] * 11] * 3, [0.2] * 3),
        }
    )


def test_rows_by_hand(values: dict[str, Any]) -> None:
    rows = {(row["regime"], row["method"]): row for row in values["rows"]}
    assert list(rows) == [(r, m) for r in ("concept", "feature") for m in ("Local", "FedAvg", "KD-PDFL")]
    ours = rows["concept", "KD-PDFL"]
    assert ours["personal"]["mean"] == pytest.approx(0.6)
    assert ours["personal"]["std_seeds"] == pytest.approx(0.1)
    # a tenth of 11 clients is two: (.2 + .4) / 2, .4 and .5
    assert ours["personal"]["worst10"] == pytest.approx(0.4)
    # below Local's .5: two clients, one, one; who has just .5 is not hurt
    assert ours["personal"]["hurt_vs_local"] == pytest.approx((2 + 1 + 1) / 3 / 11)
    assert ours["global"]["mean"] == pytest.approx(0.3)
    assert ours["graph_auc"] == pytest.approx((1 + 0.5) / 2)
    assert rows["concept", "FedAvg"]["personal"]["hurt_vs_local"] == 1
    assert rows["concept", "FedAvg"]["graph_auc"] is None
    assert rows["concept", "Local"]["personal"]["hurt_vs_local"] == 0
    assert rows["feature", "KD-PDFL"]["personal"]["mean"] == pytest.approx(0.75)


def p_value(t: float) -> float:
    """Student's, two-sided, in closed form for 2 degrees of freedom."""
    return 1 - t / math.sqrt(2 + t * t)


def test_tests_by_hand(values: dict[str, Any]) -> None:
    tests = {(test["score"], test["regime"], test["against"]): test for test in values["tests"]}
    assert list(tests) == [
        (s, r, m) for s in ("personal", "global") for r in ("concept", "feature") for m in ("Local", "FedAvg")
    ]
    # against Local 0, .1, .2: t = √3; Wilcoxon leaves out the zero, and of two signs both are + once in 4
    local, fedavg = tests["personal", "concept", "Local"], tests["personal", "concept", "FedAvg"]
    assert (local["n"], local["difference"], local["std"]) == pytest.approx((3, 0.1, 0.1))
    assert (local["effect"], local["p_t"]) == pytest.approx((1, p_value(math.sqrt(3))))
    assert local["p_wilcoxon"] == pytest.approx(2 / 4)
    # against FedAvg .1, .2, .3: t = 2 √3; of three signs all are + once in 8
    assert (fedavg["difference"], fedavg["std"], fedavg["effect"]) == pytest.approx((0.2, 0.1, 2))
    assert (fedavg["p_t"], fedavg["p_wilcoxon"]) == pytest.approx((p_value(2 * math.sqrt(3)), 2 / 8))
    # the two of the feature shift do not vary, so Holm corrects the smaller of two p, .074, by 2
    for other, difference in (("Local", 0.25), ("FedAvg", 0.5)):
        still = tests["personal", "feature", other]
        assert still["difference"] == pytest.approx(difference)
        assert (still["effect"], still["p_t"], still["p_wilcoxon"], still["p_holm"]) == (None,) * 4
    assert fedavg["p_holm"] == pytest.approx(2 * p_value(2 * math.sqrt(3)))
    assert local["p_holm"] == pytest.approx(p_value(math.sqrt(3)))
    # on all labels .1, 0, .2 against both
    for other in ("Local", "FedAvg"):
        uniform = tests["global", "concept", other]
        assert (uniform["difference"], uniform["p_t"]) == pytest.approx((0.1, p_value(math.sqrt(3))))
        assert uniform["p_holm"] == pytest.approx(2 * p_value(math.sqrt(3)))


def test_what_people_read(values: dict[str, Any]) -> None:
    table, tests = tables(values, "IoT devices")
    assert [[cell.text for cell in row] for row in table.cells[1:3]] == [
        ["concept", "FedAvg", "40.0 ± 0.0", "20.0 ± 0.0", "40.0", "100.0", "–"],
        ["concept", "KD-PDFL", "60.0 ± 10.0", "30.0 ± 10.0", "40.0", "12.1", "0.75"],
    ]
    assert [row[2].best for row in table.cells] == [False, False, True] * 2
    assert [row[3].best for row in table.cells] == [False] * 2 + [True] * 4  # equal is best, too
    assert [[cell.text for cell in row] for row in (tests.cells[1], tests.cells[2])] == [
        ["personal", "concept", "FedAvg", "+20.00 ± 10.00", "+2.00", "0.074", "0.250", "0.148"],
        ["personal", "feature", "Local", "+25.00 ± 0.00", "–", "–", "–", "–"],
    ]
    assert "Paired over 3 seeds" in tests.note
    assert "cannot be below 0.250 with 3 seeds" in tests.note
    # of the four of each score the two of the feature shift do not vary, so Holm has two to correct
    assert "corrected for the 2 tests of a score" in tests.note
