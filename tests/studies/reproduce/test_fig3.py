from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from coterie.experiment import Experiment
from coterie.schedule import Schedule
from coterie.studies.reproduce.fig3 import fig3, picture
from tests.studies.reproduce.made import NAN, track

EXPERIMENT = Experiment.parse(
    {
        "name": "made up",
        "seeds": [0, 1],
        "methods": {"Local": "Local", "FedAvg+": {"switch": 12}},
        "data": {"clients": 2},
        "train": {"iterations": 24, "personalize": 0.15},
    }
)
T = (0, 12, 24)
LOCAL = [
    track(
        "Local", 0, [[0.1, 0.3], [0.4, 0.6], [0.7, 0.9]], [[0.1, 0.1], [0.2, 0.2], [0.2, 0.4]],
        loss=[[NAN, NAN], [2.0, 4.0], [0.5, 1.5]], t=T,
    ),
    track(
        "Local", 1, [[0.3, 0.5], [0.5, 0.5], [0.5, 0.7]], [[0.1, 0.1], [0.2, 0.2], [0.3, 0.7]],
        loss=[[NAN, NAN], [4.0, 6.0], [2.0, 4.0]], t=T,
    ),
]  # fmt: skip
FEDAVG = track("FedAvg+", 0, [[0.2, 0.2], [0.6, NAN], [0.8, NAN]], [[0.1, 0.1], [0.3, NAN], [0.5, NAN]], t=T)


def test_curves_by_hand() -> None:
    local = fig3(LOCAL, EXPERIMENT)["methods"]["Local"]
    assert local["t"] == [0, 12, 24]
    # means over clients: seed 0 has .2 .5 .8, seed 1 .4 .5 .6; of two numbers the deviation is |a - b| / √2
    assert local["personal"]["mean"] == pytest.approx([0.3, 0.5, 0.7])
    assert local["personal"]["std"] == pytest.approx([0.2 / np.sqrt(2), 0, 0.2 / np.sqrt(2)])
    # .1 .2 .3 and .1 .2 .5
    assert local["global"]["mean"] == pytest.approx([0.1, 0.2, 0.4])
    assert local["global"]["std"] == pytest.approx([0, 0, 0.2 / np.sqrt(2)])
    # nobody has learned before iteration 0; then 3 and 1, 5 and 3
    assert local["loss"]["mean"] == pytest.approx([NAN, 4, 2], nan_ok=True)
    assert local["loss"]["std"] == pytest.approx([NAN, np.sqrt(2), np.sqrt(2)], nan_ok=True)


def test_one_seed_has_no_deviation_and_a_diverged_client_is_left_out() -> None:
    methods = fig3([*LOCAL, FEDAVG], EXPERIMENT)["methods"]
    assert list(methods) == ["Local", "FedAvg+"]
    assert methods["FedAvg+"]["personal"] == {"mean": pytest.approx([0.2, 0.6, 0.8]), "std": None}


def test_only_evaluations_that_all_seeds_have() -> None:
    short = track("Local", 2, [[0.0, 0.0], [0.9, 0.9]], [[0.0, 0.0], [0.0, 0.0]], t=(0, 24))
    local = fig3([*LOCAL, short], EXPERIMENT)["methods"]["Local"]
    assert local["t"] == [0, 24]
    # .2 .4 0 and .8 .6 .9
    assert local["personal"]["mean"] == pytest.approx([0.2, 2.3 / 3])


def test_the_switch_and_the_closing_phase() -> None:
    found = fig3(LOCAL, EXPERIMENT)
    # 15 % of 24 are 3.6 iterations, rounded 4: it begins when 20 are done
    assert (found["switch"], found["closing"], found["iterations"]) == (12, 20, 24)
    schedule = Schedule.of(EXPERIMENT, 0)
    assert [t for t in range(1, 25) if schedule.closing(t)] == [21, 22, 23, 24]
    without = EXPERIMENT.replace(methods=["Local"], **{"train.personalize": 0.0})
    assert fig3(LOCAL, without) | {"methods": {}} == {
        "switch": None, "closing": 24, "iterations": 24, "methods": {}
    }  # fmt: skip


def test_what_is_drawn() -> None:
    # two seeds, FedAvg+ as Local but for a loss whose deviation is larger than its mean
    wild = [
        track("FedAvg+", s, w.scores["personal"].tolist(), [[0.0] * 2] * 3, loss=[[n, n] for n in loss], t=T)
        for s, (w, loss) in enumerate(zip(LOCAL, ([NAN, 1.0, 1.0], [NAN, 1.0, 9.0]), strict=True))
    ]
    row = picture({"IoT devices": ([*LOCAL, *wild], EXPERIMENT)}).subfigs[0]
    assert row.get_suptitle() == "IoT devices: 2 clients, 2 seeds"
    left, right = row.axes
    lines = {line.get_label(): line.get_xydata() for line in left.lines}
    assert np.asarray(lines["Local"]) == pytest.approx(np.array([[0, 30], [12, 50], [24, 70]]))
    lines = {line.get_label(): line.get_xydata() for line in right.lines}
    assert np.asarray(lines["Local"]) == pytest.approx(np.array([[12, 4], [24, 2]]))  # not at 0
    assert np.asarray(lines["FedAvg+"]) == pytest.approx(np.array([[12, 1], [24, 5]]))
    bands = [band.get_paths()[0].vertices for band in right.collections if isinstance(band, PolyCollection)]
    at_end = [np.asarray(band)[np.asarray(band)[:, 0] == 24, 1] for band in bands]
    # Local: 2 ± √2; FedAvg+: 5 ± 8 / √2, whose lower end would be negative and is a tenth of 5
    assert sorted((y.min(), y.max()) for y in at_end) == [
        pytest.approx((0.5, 5 + 8 / np.sqrt(2))),
        pytest.approx((2 - np.sqrt(2), 2 + np.sqrt(2))),
    ]
    for ax in (left, right):
        assert [12, 12] in [list(np.asarray(line.get_xdata())) for line in ax.lines]  # the switch
