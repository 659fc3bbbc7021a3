"""Who gained by joining, and what goes with it: the sentences with their numbers by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.runs.facts import compare, rank_correlation, recorded
from coterie.runs.gains import Account, WorldGains
from coterie.runs.hurt import surely_gained
from coterie.runs.metrics import by_name
from tests.runs.hurt_fixture import gained, people, sampled
from tests.runs.run_fixture import NAN, exchange, make, metrics

NOTHING = "Nothing that the run recorded of it goes with that."


def gains(run: Run, method: str = "FedAvg", seed: int = 0) -> WorldGains:
    worlds = by_name(run.tracks)[method]
    return WorldGains(worlds[seed], worlds)


def account(run: Run, client: int, method: str = "FedAvg", seed: int = 0) -> Account:
    found = gains(run, method, seed)
    return found.account(client, [recorded(world, run.history(world)) for world in found.worlds])


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        # P(X <= lost), X ~ B(n, 1/2): 1/32 for five won of five, 1/16 for four; losing likewise
        (
            [(0, 5), (0, 4), (0, 0), (4, 0), (5, 0)],
            "2 of 5 clients gained by joining (1 surely), 1 is level, 2 lost (1 surely).",
        ),
        (
            [(0, 5), (0, 0), (1, 1), (4, 0)],
            "1 of 4 clients gained by joining (1 surely), 2 are level, 1 lost (nobody surely).",
        ),
        ([(0, 1), (0, 1)], "2 of 2 clients gained by joining (nobody surely), nobody lost."),
        ([(5, 0), (1, 0)], "None of 2 clients gained by joining, 2 lost (1 surely)."),
    ],
)
def test_who_gained_is_counted(tmp_path: Path, pairs: list[tuple[int, int]], sentence: str) -> None:
    assert gains(sampled(tmp_path, pairs)).tally() == sentence


def test_those_that_cannot_be_compared_are_told(tmp_path: Path, run: Run) -> None:
    run_ = sampled(tmp_path / "attacked", [(0, 5), (0, 5)], attackers=[1])
    assert gains(run_).tally().endswith("nobody lost. Not compared: 1, attackers or without a finite model.")
    assert account(run_, 1).text == "Client 1 is an attacker, so it is not compared with its Local twin."
    text = account(run, 3, "KD-PDFL", seed=1).text
    assert text == "Client 3 cannot be compared with its Local twin: one of them has no finite model."


def test_without_local_it_says_what_to_add(tmp_path: Path) -> None:
    experiment = Experiment.parse({"seeds": 1, "methods": ["FedAvg"], "data": {"clients": 2}})
    run = make(tmp_path, experiment, people(2, seeds=1)[1], [metrics(0, 10, [0.5, 0.5])], [])
    why = "this run has no Local to compare with; add Local to its methods."
    assert gains(run).tally() == f"Who gains by joining is not known: {why}"
    found = account(run, 1)
    assert found.text == f"Whether client 1 gains by joining is not known: {why}"
    assert (found.verdict, found.surely, found.named) == (None, None, ())
    assert found.plain()["gain"] is None


def test_local_is_what_others_are_compared_with(run: Run) -> None:
    found = account(run, 0, "Local")
    assert (found.verdict, found.named) == (None, ())
    assert "Local learns alone, and the others are compared with it." in found.text


def test_a_method_that_is_ahead_of_local_waits_for_it(tmp_path: Path) -> None:
    rows = [metrics(0, 5, [0.5, 0.5]), metrics(1, 10, [0.5, 0.5])]
    sentence = "Who gains by joining is not known: no client can be compared with Local at iteration 10."
    assert gains(make(tmp_path, *people(2, seeds=1), rows, [])).tally() == sentence


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        # of lost + won + 3 samples the client got won + 3 right, its twin lost + 3
        ((0, 5), "gained 62.5 points by joining: 100.0 % against 37.5 % alone, beyond noise (95 %)."),
        ((0, 1), "gained 25.0 points by joining: 100.0 % against 75.0 % alone, which is within noise."),
        ((1, 1), "is level: 80.0 %, as alone."),
        ((5, 0), "lost 62.5 points by joining: 37.5 % against 100.0 % alone, beyond noise (95 %)."),
    ],
)
def test_a_gain_is_told_with_its_noise(tmp_path: Path, pair: tuple[int, int], sentence: str) -> None:
    text = account(sampled(tmp_path, [pair, (0, 0)]), 0).text
    assert text.startswith(f"Client 0 {sentence} The average client ")
    assert text.endswith(NOTHING)


def test_over_seeds_the_mean_decides(tmp_path: Path) -> None:
    # t(0.95, 2) = 2.920: 0.2 - 2.920 * 0.1 / 1.732 = 0.031 > 0; 0.01 - 2.920 * 0.115 / 1.732 < 0;
    # -0.1 in every seed but for a tie in the last: -0.0967 + 2.920 * 0.0058 / 1.732 = -0.087 < 0
    run = gained(tmp_path, [0.1, 0.1, -0.1], [0.2, 0.05, -0.1], [0.3, -0.12, -0.09])
    worlds = by_name(run.tracks)["FedAvg"]
    assert surely_gained(worlds[0], worlds).tolist() == [1, 0, 0]
    assert "gained 10.0 points by joining: 60.0 % against 50.0 % alone, beyond noise over all 3" in (
        account(run, 0).text
    )
    assert "which is within noise over all 3 seeds." in account(run, 1).text
    assert account(run, 2).surely == "lost"
    assert gains(run).tally().endswith("1 lost (1 surely). Who surely did is told by all 3 seeds.")


def test_a_seed_that_differs_from_all_seeds_says_so(tmp_path: Path) -> None:
    # means of 20 seeds: (19 * 0.1 - 0.1) / 20 = 0.09, far above its error of 0.01
    run = gained(tmp_path, [-0.1, 0.0], *[[0.1, 0.1]] * 19)
    texts = [account(run, client).text for client in (0, 1)]
    assert ": 40.0 % against 50.0 % alone, but over all 20 seeds it surely gained (95 %)." in texts[0]
    assert "is level: 50.0 %, as alone, but over all 20 seeds it surely gained (95 %)." in texts[1]


def told(path: Path, gain: Sequence[float], exchanges: Sequence[dict[str, Any]] = (), **facts: Any) -> Run:
    """Clients of KD-PDFL in two groups that gain so much over 0.5, with 10, 20, ... training samples."""
    m = len(gain)
    experiment = Experiment.parse({"seeds": 1, "methods": ["Local", "KD-PDFL"], "data": {"clients": m}})
    dealt: dict[str, Any] = {
        "seed": 0,
        "classes": ["cat", "dog"],
        "group": [int(client >= m / 2) for client in range(m)],
        "train": [10 * (client + 1) for client in range(m)],
        "labels": [[1, 1]] * m,
        **facts,
    }
    rows = [metrics(0, 10, [0.5] * m), metrics(1, 10, [0.5 + g for g in gain])]
    return make(path, experiment, [dealt], rows, exchanges)


FALLING = [0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01]
"""Gains that fall while the samples grow: their rank correlation is -1. The mean is 4.5 points."""
FEW = "it has few training samples: 10 (average: 45)"
RULE = "In this run, clients with fewer training samples gain more."


def test_what_goes_with_gain_is_named_on_both_sides(tmp_path: Path) -> None:
    # 10 to 80 samples have the mean 45 and the standard deviation 22.9: 22.1 and 67.9 are one away
    run = told(tmp_path, FALLING)
    texts = [account(run, client, "KD-PDFL").text for client in range(8)]
    unknown = "; the run cannot tell whether by chance. The average client gained 4.5 points."
    assert texts[0].endswith(f"50.0 % alone{unknown} What goes with that: {FEW}. {RULE}")
    assert texts[7].endswith(f"it has many training samples: 80 (average: 45). {RULE}")
    named = [account(run, client, "KD-PDFL").named for client in range(8)]
    assert named == [("samples",), ("samples",), (), (), (), (), ("samples",), ("samples",)]


def test_nothing_is_named_against_what_the_run_shows(tmp_path: Path) -> None:
    """Client 0 has few samples, with which others gain, and gains least of all."""
    run = told(tmp_path, [0.05, *(0.30 - 0.01 * client for client in range(1, 24))])
    # gains have the ranks 1, 24, 23, ..., 2: Σd² = 2 (22² + 20² + ... + 2²) = 4048,
    # 1 - 6 * 4048 / (24 * 575) = -0.76
    assert account(run, 23, "KD-PDFL").facts["samples"]["correlation"] == pytest.approx(-0.76)
    assert account(run, 23, "KD-PDFL").named == ("samples",)
    assert account(run, 0, "KD-PDFL").named == ()


def test_five_clients_show_nothing(tmp_path: Path) -> None:
    assert account(told(tmp_path, FALLING[:5]), 0, "KD-PDFL").text.endswith(NOTHING)


def heard(client: int, neighbours: list[int], weight: list[float], **more: Any) -> dict[str, Any]:
    return exchange(5, client, neighbours, weight=weight, **more)


def test_the_own_group_is_compared_with_chance(tmp_path: Path) -> None:
    # clients 0 to 3 are one group; of the weight 0.6 / 0.8 goes to it, by chance one of two would
    rows = [heard(0, [1, 4], [0.6, 0.2]), heard(1, [0, 4], [0.11, 0.09]), heard(2, [3], [0.5])]
    run = told(tmp_path, [0.1, 0.1, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0], rows, train=[30] * 8)
    its = "What goes with that: it listens to its own group with 75 % of its weight (by chance: 50 %)."
    assert account(run, 0, "KD-PDFL").text.endswith(its)
    assert account(run, 1, "KD-PDFL").named == (), "55 % is not clearly more than 50 %"
    assert "own_group" not in account(run, 2, "KD-PDFL").named, "it heard only its own group"
    lost = told(tmp_path / "lost", [-0.1, -0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], rows, train=[30] * 8)
    assert account(lost, 0, "KD-PDFL").named == (), "it listens to its group and lost all the same"
    assert account(lost, 1, "KD-PDFL").named == ("own_group",)


def test_attackers_are_no_group_of_ones_own(tmp_path: Path) -> None:
    run = told(tmp_path, [0.1] * 4, [heard(0, [1, 2], [0.9, 0.1])], attackers=[1])
    assert account(run, 0, "KD-PDFL").plain()["facts"]["own_group"] == {
        "value": 0.0,
        "reference": 0.0,
        "correlation": None,
    }


def test_the_facts_by_hand(tmp_path: Path) -> None:
    rows = [
        heard(0, [1, 2], [0.9, 0.9], distance=[0.9, 0.9], confidence=0.5),
        exchange(6, 0, [1, 2, 3], heard=[True, True, False], weight=[0.3, 0.1, 0.0], distance=[0.2, 0.6, NAN],
                 confidence=0.7),
        exchange(7, 3, [0], kind="adopt"),
    ]  # fmt: skip
    run = told(tmp_path, [0.1] * 4, rows, labels=[[3, 1], [1, 0], [0, 4], [2, 2]])
    (world,) = by_name(run.tracks)["KD-PDFL"]
    found = recorded(world, run.history(world))
    # client 0 listens with 3/4 to client 1 and 1/4 to client 2, at last distances of 0.2 and 0.6;
    # 1 - (0.5 + 0.7) / 2; its labels are 3/4 and 1/4, theirs 3/4 * (1, 0) + 1/4 * (0, 1)
    values = {name: value[0] for name, value in found.values.items()}
    assert values == pytest.approx(
        {"own_group": 0.75, "samples": 10, "distance": 0.3, "from_others": 0.4, "shared_labels": 1.0}
    )
    assert found.chance[0] == 0.5
    assert np.isnan([found.values[name][3] for name in found.values if name != "samples"]).all()


def test_the_farthest_three_are_named(tmp_path: Path) -> None:
    """Every fact falls with gain; the own group comes first, then what is farthest from the mean."""
    rows = [
        heard(c, [c ^ 1, c ^ 4], [0.9, 0.1], distance=[0.1 * 2**c] * 2, confidence=0.9 - 0.1 * c)
        for c in range(8)
    ]
    found = account(told(tmp_path, FALLING, rows), 7, "KD-PDFL")
    # apart, in standard deviations: samples and from_others 1.53, distance (2**7 - 31.9) / 41.5 = 2.3
    assert found.named == ("own_group", "distance", "samples")
    assert found.text.endswith(
        "What goes with that: it listens to its own group with 90 % of its weight (by chance: 50 %); "
        "the models it listens to see its data otherwise, at a distance of 13 (average: 3.2); "
        "it has many training samples: 80 (average: 45). "
        "In this run, clients with models that are nearer and fewer training samples gain more."
    )


def test_the_same_clients_in_every_seed_count_once(tmp_path: Path) -> None:
    """Five clients stay five, however many seeds there are."""
    run = gained(tmp_path, *[[0.05, 0.04, 0.03, 0.02, 0.01]] * 4)
    worlds = by_name(run.tracks)["FedAvg"]
    facts = [recorded(world, run.history(world)) for world in worlds]
    varied = [one._replace(values={"samples": np.arange(5.0)}) for one in facts]
    assert np.isnan(compare(worlds[0], worlds, varied)["samples"].correlation)


def test_a_rank_correlation_by_hand() -> None:
    x = np.arange(8.0)
    # 1 - 6 Σd² / (n (n² - 1)): one swap of neighbours has Σd² = 2: 1 - 12 / 504 = 0.976
    assert rank_correlation(x, np.array([0, 2, 1, 3, 4, 5, 6, 7.0])) == pytest.approx(1 - 12 / 504)
    assert rank_correlation(x, -(x**3)) == pytest.approx(-1)
    # ends exchanged: Σd² = 98, 1 - 588 / 504 < 0; t = 0.41, far from sure
    assert np.isnan(rank_correlation(x, np.array([7, 1, 2, 3, 4, 5, 6, 0.0])))
    assert np.isnan(rank_correlation(x[:5], x[:5])), "too few"
    assert np.isnan(rank_correlation(x, np.zeros(8))), "all alike"


def test_an_account_goes_into_json(tmp_path: Path) -> None:
    found = json.loads(json.dumps(account(told(tmp_path, FALLING), 0, "KD-PDFL").plain(), allow_nan=False))
    assert (found["client"], found["method"], found["seed"]) == (0, "KD-PDFL", 0)
    assert (found["verdict"], found["surely"]) == ("gained", None)
    assert (found["gain"], found["personal"], found["average_gain"]) == (0.08, 0.58, 0.045)
    assert found["facts"]["samples"] == {"value": 10.0, "reference": 45.0, "correlation": -1.0}
    assert found["named"] == ["samples"]
