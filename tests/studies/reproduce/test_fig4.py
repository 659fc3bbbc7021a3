from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.runs.metrics import WorldMetrics
from coterie.studies.reproduce.fig4 import fig4, picture
from tests.studies.reproduce.made import NAN, track


def pair(
    seed: int, peers: int, alone: list[float], ours: list[float], uniform: list[float]
) -> list[WorldMetrics]:
    setting = {"exchange.cap": peers}
    local = track("Local", seed, alone, [0.1, 0.1], setting=setting)
    local = replace(local, twin=local)
    return [local, track("KD-PDFL", seed, ours, uniform, setting=setting, twin=local)]


TRACKS = [
    *pair(0, 3, [0.5, 0.5], [0.7, 0.9], [0.4, 0.6]),  # the larger number of peers comes first
    *pair(0, 1, [0.5, 0.5], [0.6, 0.8], [0.2, 0.4]),
    *pair(1, 3, [0.3, 0.5], [0.5, 0.7], [0.5, 0.9]),
    *pair(1, 1, [0.3, 0.5], [0.2, 0.4], [0.3, 0.3]),
]


def method(tracks: list[WorldMetrics], label: str) -> Any:
    return fig4(tracks)["methods"][label]


def test_by_hand() -> None:
    ours = method(TRACKS, "KD-PDFL")
    assert ours["peers"] == [1, 3]
    # 1 peer: .7 and .3 in the two seeds; 3 peers: .8 and .6; deviation of two numbers: |a - b| / √2
    assert ours["personal"]["mean"] == pytest.approx([0.5, 0.7])
    assert ours["personal"]["std"] == pytest.approx([0.4 / np.sqrt(2), 0.2 / np.sqrt(2)])
    # 1 peer: .3 and .3; 3 peers: .5 and .7
    assert ours["global"]["mean"] == pytest.approx([0.3, 0.6])
    assert ours["global"]["std"] == pytest.approx([0, 0.2 / np.sqrt(2)])
    # Local has .5 and .4: 1 peer gains .2 and -.1, 3 peers .3 and .2
    assert ours["gain"]["mean"] == pytest.approx([0.05, 0.25])
    assert ours["gain"]["std"] == pytest.approx([0.3 / np.sqrt(2), 0.1 / np.sqrt(2)])


def test_local_gains_nothing_over_itself() -> None:
    local = method(TRACKS, "Local")
    assert local["personal"]["mean"] == pytest.approx([0.45, 0.45])
    assert local["gain"] == {"mean": [0, 0], "std": [0, 0]}


def test_one_seed_has_no_deviation() -> None:
    assert method(TRACKS[:4], "KD-PDFL")["personal"] == {"mean": pytest.approx([0.7, 0.8]), "std": None}


def test_who_has_diverged_is_left_out_of_the_gain_on_both_sides() -> None:
    ours = method(pair(0, 1, [0.5, 0.9], [0.6, NAN], [0.2, NAN]), "KD-PDFL")
    assert ours["personal"]["mean"] == pytest.approx([0.6])
    assert ours["gain"]["mean"] == pytest.approx([0.1])  # .6 - .5, though Local's mean is .7


@pytest.mark.parametrize("twin", [True, False])
def test_a_gain_that_nobody_has_is_absent(twin: bool) -> None:
    local, ours = pair(0, 1, [0.5, 0.9], [NAN, NAN], [NAN, NAN])
    found = method([local, ours if twin else replace(ours, twin=None)], "KD-PDFL")
    assert found["gain"]["mean"] == pytest.approx([NAN], nan_ok=True)


def test_what_is_drawn() -> None:
    figure = picture(fig4(TRACKS), TRACKS, "EMNIST")
    assert figure.get_suptitle() == "EMNIST: 2 clients, 2 seeds"
    drawn = [{line.get_label(): line.get_xydata() for line in ax.lines} for ax in figure.axes]
    for lines, (one, three) in zip(drawn, [(50, 70), (30, 60), (5, 25)], strict=True):
        assert np.asarray(lines["KD-PDFL"]) == pytest.approx(np.array([[1, one], [3, three]]))
    assert [len(ax.collections) for ax in figure.axes] == [2, 2, 1]  # Local's gain has no band
