from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.runs.metrics import Floats
from coterie.studies.reproduce.fig5 import fig5, picture
from tests.runs.run_fixture import NAN, exchange, make, metrics

EXPERIMENT = Experiment.parse(
    {
        "name": "made up",
        "seeds": [4, 9],
        "methods": {"KD-PDFL": {"reading": "paper", "step": "unit"}},
        "data": {"clients": 4},
        "train": {"iterations": 10},
        "grid": {"methods.KD-PDFL.mu1": [0.0, 2.0], "methods.KD-PDFL.mu2": [0.5]},
    }
)
CLIENTS = [
    {"seed": seed, "classes": ["cat", "dog"], "group": [0] * 4, "train": [6] * 4, "labels": labels}
    for seed, labels in ((4, [[6, 0], [0, 6], [5, 1], [1, 5]]), (9, [[0, 6], [0, 6], [6, 0], [6, 0]]))
]
# Worlds 0 and 1 are of mu1 = 0 and seeds 4 and 9, worlds 2 and 3 of mu1 = 2.
METRICS = [
    metrics(0, 10, [0.2, 0.2, 0.4, 0.4]),
    metrics(1, 10, [0.5, 0.5, 0.5, NAN], diverged=[3]),
    metrics(2, 0, [0.9] * 4),
    metrics(2, 10, [0.5, 0.7, 0.9, 0.9]),
    metrics(3, 10, [0.5] * 4),
]
EXCHANGES = [
    exchange(2, 0, [1, 2], world=1, weight=[0.4, 0.4]),
    exchange(2, 0, [1, 2, 3], world=2, weight=[0.2, 0.6, 0.0]),
    exchange(4, 3, [1], world=2, weight=[0.1]),
    exchange(6, 1, [0, 2, 3], world=2, weight=[0.0, 0.0, 0.0]),
    exchange(8, 3, [1, 0], world=2, weight=[0.5, 0.3], heard=[True, False]),
    exchange(2, 0, [1, 2], world=3, weight=[0.1, 0.3]),
]
WEIGHT = [  # of mu1 = 2 and seed 4; who has not met has 1/4
    [0, 0.2, 0.6, 0],
    [0, 0, 0, 0],
    [0.25, 0.25, 0, 0.25],
    [0.25, 0.5, 0.25, 0],
]
# Main labels of seed 4: cat dog cat dog. Alike and met: 0-2 .6, 1-3 0, 3-1 .5; unlike: 0-1 .2, 0-3 0, 1-0 0,
# 1-2 0. Of 12 comparisons .6 and .5 win 4 each, 0 ties with three zeros: 9.5. Of seed 9, dog dog cat cat:
# alike .1, unlike .3, so 0.
AUC = (9.5 / 12 + 0) / 2


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make(tmp_path / "run", EXPERIMENT, CLIENTS, METRICS, EXCHANGES)


def panels(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fig5(run)["panels"]
    return found


def test_panels_by_hand(run: Run) -> None:
    none, some = panels(run)
    assert [(p["mu1"], p["mu2"]) for p in (none, some)] == [(0.0, 0.5), (2.0, 0.5)]
    assert some["weight"] == WEIGHT
    assert some["personal"] == pytest.approx((0.75 + 0.5) / 2)  # at the end, not .9 of iteration 0
    assert some["silent"] == pytest.approx((1 / 4 + 0) / 2)  # client 1 of seed 4
    assert some["auc"] == pytest.approx(AUC)


def test_a_seed_in_which_nobody_met_has_no_auc(run: Run) -> None:
    none, _ = panels(run)
    assert none["weight"] == (0.25 * (1 - np.eye(4))).tolist()  # as at the start
    assert none["silent"] == 0
    assert none["auc"] == 0.5  # seed 9 alone, a tie
    assert none["personal"] == pytest.approx((0.3 + 0.5) / 2)  # without the diverged client


def test_no_seed_has_an_auc(tmp_path: Path) -> None:
    none, some = panels(make(tmp_path / "run", EXPERIMENT, CLIENTS, METRICS, EXCHANGES[1:2]))
    assert none["auc"] is None
    assert some["auc"] == 1  # seed 4 alone: .6 of the one alike against .2 and 0


def test_clients_with_like_labels_are_neighbours(run: Run) -> None:
    found = fig5(run)
    assert found["seed"] == 4
    assert found["main_label"] == ["cat", "dog", "cat", "dog"]
    # Shares of cats: 1, 0, 5/6, 1/6. Sorted along this line: 0 2 3 1, from either end.
    assert found["order"] in ([0, 2, 3, 1], [1, 3, 2, 0])


def test_what_is_drawn(run: Run) -> None:
    values = fig5(run)
    figure = picture(values, run.tracks[0], "IoT devices", 2)
    (ax,) = [ax for ax in figure.axes if ax.get_title("left") == "μ₁ = 2, μ₂ = 0.5"]
    assert [text.get_text() for text in ax.texts] == ["62.5 % accuracy, label AUC 0.40"]
    # Each row of WEIGHT by its sum; client 1 listens to nobody.
    share = np.array(
        [
            [NAN, 1 / 4, 3 / 4, 0],
            [NAN, NAN, NAN, NAN],
            [1 / 3, 1 / 3, NAN, 1 / 3],
            [1 / 4, 1 / 2, 1 / 4, NAN],
        ]
    )
    shown: Floats = np.ma.filled(np.ma.asarray(ax.images[0].get_array()), NAN)
    assert shown == pytest.approx(share[np.ix_(values["order"], values["order"])], nan_ok=True)


def test_a_world_whose_clients_all_diverged_is_left_out(tmp_path: Path) -> None:
    rows = [*METRICS[:-1], metrics(3, 10, [NAN] * 4, diverged=[0, 1, 2, 3])]
    _, some = panels(make(tmp_path / "one", EXPERIMENT, CLIENTS, rows, EXCHANGES))
    assert some["personal"] == pytest.approx(0.75)  # seed 4 alone
    lost = [metrics(world, 10, [NAN] * 4, diverged=[0, 1, 2, 3]) for world in range(4)]
    run = make(tmp_path / "all", EXPERIMENT, CLIENTS, lost, EXCHANGES)
    values = fig5(run)
    assert [p["personal"] for p in values["panels"]] == [None, None]
    axes = picture(values, run.tracks[0], "IoT devices", 2).axes
    assert [text.get_text() for ax in axes[:2] for text in ax.texts] == ["label AUC 0.50", "label AUC 0.40"]
