"""Who is hurt for sure: both tests by hand, and runs that cannot tell."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie import run as run_experiment
from coterie.core.errors import RunError
from coterie.experiment import Experiment
from coterie.runs import Run
from coterie.runs.hurt import Hurt, hurt, surely_hurt
from coterie.runs.metrics import WorldMetrics, by_name
from tests.runs.hurt_fixture import bits, gained, people, sampled
from tests.runs.run_fixture import NAN, make, metrics


def fedavg(run: Run) -> list[WorldMetrics]:
    return by_name(run.tracks)["FedAvg"]


def test_on_its_samples_by_hand(tmp_path: Path) -> None:
    # P(X <= won), X ~ B(lost + won, 1/2): 1/32, 1/16, 9/256, 8/128, 1, 1; hurt below 0.05
    worlds = fedavg(sampled(tmp_path, [(5, 0), (4, 0), (7, 1), (6, 1), (0, 0), (0, 5)]))
    assert surely_hurt(worlds[0], worlds).tolist() == [1, 0, 1, 0, 0, 0]
    assert hurt(worlds) == Hurt(4 / 6, 2 / 6, 6)


def test_clients_dealt_anew_are_tested_in_each_seed(tmp_path: Path) -> None:
    """Taken together, the first client would have lost five samples and won five."""
    worlds = fedavg(sampled(tmp_path, [(5, 0), (0, 5)], [(0, 5), (4, 1)]))
    assert [surely_hurt(world, worlds).tolist() for world in worlds] == [[1, 0], [0, 0]]
    assert hurt(worlds) == Hurt(0.5, 0.25, 4)


@pytest.mark.parametrize("differ", [1, 4, 5, 8, 20, 61])
def test_chance_alone_makes_at_most_5_percent_of_the_clients_hurt(tmp_path: Path, differ: int) -> None:
    """A fair coin for each sample on which the two differ: all outcomes, each as likely as it is."""
    (world,) = fedavg(sampled(tmp_path, [(differ - won, won) for won in range(differ + 1)]))
    chance = [comb(differ, won) / 2**differ for won in range(differ + 1)]
    wrong = float(surely_hurt(world, [world]) @ chance)
    assert wrong <= 0.05
    assert (wrong > 0) == (differ >= 5)


def test_over_seeds_by_hand(tmp_path: Path) -> None:
    # t(0.95, 2) = 2.920, sqrt(3) = 1.732. Means and standard deviations:
    # -0.2 and 0.1: -0.2 + 2.920 * 0.1 / 1.732 = -0.031; -0.1 and 0.1: 0.069; -0.1 and 0: -0.1; 0 and 0: 0
    seeds = [-0.1, 0.0, -0.1, 0.0], [-0.2, -0.1, -0.1, 0.0], [-0.3, -0.2, -0.1, 0.0]
    worlds = fedavg(gained(tmp_path, *seeds))
    assert [surely_hurt(world, worlds).tolist() for world in worlds] == [[1, 0, 1, 0]] * 3
    assert hurt(worlds) == pytest.approx(((2 + 3 + 3) / 12, 0.5, 12))


def test_two_seeds_must_agree_closely(tmp_path: Path) -> None:
    # t(0.95, 1) = 6.314, s / sqrt(2) is half the distance: -0.15 + 6.314 * 0.05 = 0.166,
    # -0.205 + 6.314 * 0.005 = -0.173
    worlds = fedavg(gained(tmp_path, [-0.1, -0.2], [-0.2, -0.21]))
    assert surely_hurt(worlds[0], worlds).tolist() == [0, 1]


def test_a_client_that_diverged_in_a_seed_is_judged_by_the_others(tmp_path: Path) -> None:
    worlds = fedavg(gained(tmp_path, [-0.1, NAN, -0.1], [-0.1, NAN, NAN], [NAN, -0.1, -0.1]))
    found = surely_hurt(worlds[0], worlds)
    np.testing.assert_array_equal(found, [1, NAN, 1])
    assert hurt(worlds) == Hurt(1.0, 1.0, 5)


def test_owners_in_one_seed_are_tested_on_their_samples(tmp_path: Path) -> None:
    (world,) = fedavg(sampled(tmp_path, [(5, 0), (4, 0)], owned=True))
    assert surely_hurt(world, [world]).tolist() == [1, 0]


def test_an_attacker_is_not_judged(tmp_path: Path) -> None:
    (world,) = fedavg(sampled(tmp_path, [(5, 0), (5, 0)], attackers=[1]))
    np.testing.assert_array_equal(surely_hurt(world, [world]), [1, NAN])


@pytest.mark.parametrize("owned", [False, True])
def test_a_real_run_tells_what_is_needed(tmp_path: Path, owned: bool) -> None:
    """Which clients have owners, and which of their test samples they got right."""
    x = np.random.default_rng(0).normal(size=(120, 3))
    columns: dict[str, Any] = {"owner": np.arange(120) % 3} if owned else {}
    np.savez(tmp_path / "data.npz", x=x, y=np.int64(x[:, 0] > 0), **columns)
    experiment = Experiment.parse(
        {
            "seeds": 2,
            "methods": ["Local", "FedAvg"],
            "data": {
                "set": {"name": "npz", "path": str(tmp_path / "data.npz")},
                "clients": 3,
                "sizes": [9, 9],
            },
            "train": {"iterations": 20},
        }
    )
    for world in run_experiment(experiment, tmp_path / "run", plots=False).tracks:
        assert world.owned == owned
        assert world.test is not None
        assert world.correct is not None
        shares = [one.mean() for one in np.split(np.unpackbits(world.correct), np.cumsum(world.test))[:-1]]
        assert shares == pytest.approx(world.scores["personal"][-1].tolist())


def test_runs_that_did_not_record_it_cannot_tell(run: Run) -> None:
    methods = run.summary()["methods"]
    assert [m["surely_hurt"] for m in methods.values()] == [None, None]
    assert methods["KD-PDFL"]["personal"]["hurt_vs_local"] > 0
    assert run.table()["surely_hurt"].isna().all()


def test_a_run_that_has_not_ended_cannot_tell(tmp_path: Path) -> None:
    rows = [metrics(0, 5, [0.5, 0.5]), metrics(1, 5, [0.0, 0.0])]
    run = make(tmp_path, *people(2, seeds=1, test=[4, 4]), rows, [])
    assert hurt(fedavg(run)) == Hurt(1.0, None, 2)


@pytest.mark.parametrize("correct", ["", bits([1] * 17), "no base64!", 7])
def test_bits_that_do_not_fit_the_test_samples_are_damage(tmp_path: Path, correct: Any) -> None:
    rows = [metrics(1, 10, [0.5, 0.5], correct=correct)]
    run = make(tmp_path, *people(2, seeds=1, test=[8, 8]), rows, [])
    with pytest.raises(RunError, match="do not fit together"):
        run.summary()
