"""DFML: mutual learning of all models by hand, what goes back to whom, the cycle and the peak model."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
import torch
from torch import nn

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.ingredients.feedback import take_feedback
from coterie.core.models.model_factory import acquainted
from coterie.core.tasks.task import Task
from coterie.core.types import Foreign, Info, Probe, Start, State
from coterie.plugins.algorithms.dfml import DFML
from tests.plugins.algorithms.pairs import PAIR
from tests.plugins.algorithms.scalars import row
from tests.plugins.algorithms.squares import moment
from tests.plugins.algorithms.test_def_kt import EVEN, OWN, SURE, heard

TOP: dict[str, Any] = {"low": 1.0, "high": 1.0, "rate": 1.0, "tested": "last"}
"""The others alone teach, in steps of size 1."""
ALONE: dict[str, Any] = {**TOP, "low": 0.0, "high": 0.0}
"""The labels alone teach."""


def star(method: DFML, *z: float) -> State:
    params = {"weight": torch.tensor(z, dtype=torch.float64)[:, None]}
    return method.init(PAIR, Start(params, {}, row(), torch.tensor(0)), moment(0))


def mixed(
    method: DFML, *models: tuple[float, float], own: tuple[float, float] = EVEN, probe: Probe = OWN
) -> tuple[list[float], list[list[float]], Info]:
    """The own logits after an exchange, those that go back, and what is reported."""
    new, info = guarded_mix(method, PAIR, star(method, *own), heard(*models), probe, moment())
    info, back = take_feedback(info)
    sent: list[list[float]] = back["own"]["weight"][..., 0].tolist() if back else []
    return new.params["weight"][:, 0].tolist(), sent, info


def test_each_of_two_models_moves_by_the_difference_of_what_they_say() -> None:
    # p = (1/2, 1/2) and (3/4, 1/4): each moves by η (p of the other - p)
    own, back, info = mixed(DFML(steps=1, average=0.0, **TOP), SURE)
    assert own == pytest.approx([0.25, -0.25], abs=1e-15)
    assert back == [pytest.approx([log(3) - 0.25, 0.25], abs=1e-15)]
    assert info["weight"].tolist() == [0.5]
    assert info["alpha"] == 1


def test_equal_models_do_not_move() -> None:
    own, back, _ = mixed(DFML(steps=3, average=0.0, **TOP), SURE, SURE, own=SURE)
    for one in (own, *back):
        assert one == pytest.approx(SURE, abs=1e-15)


def test_the_teacher_of_each_is_the_mean_of_all_others() -> None:
    own, back, _ = mixed(DFML(steps=1, average=0.0, **TOP), EVEN, SURE)
    assert own == pytest.approx([0.125, -0.125], abs=1e-15)  # (1/2 + 3/4) / 2 = 5/8
    assert back[0] == pytest.approx([0.125, -0.125], abs=1e-15)
    assert back[1] == pytest.approx([log(3) - 0.25, 0.25], abs=1e-15)


def test_without_the_others_everybody_is_fine_tuned_on_the_stars_samples() -> None:
    both = OWN._replace(mask=torch.tensor([True, False, True, False]))  # of each label one
    for seed in range(3):
        method = DFML(steps=1, batch=1 + seed, average=0.0, **ALONE)
        own, back, _ = mixed(method, EVEN, probe=both)
        assert own == back[0] != list(EVEN)
        assert sum(own) == 0


def test_a_label_that_the_star_does_not_have_is_left_as_it_is() -> None:
    """All own samples are of label 0, whose weighted probability is then one: nothing is to be learnt."""
    own, back, _ = mixed(DFML(steps=4, average=0.0, **ALONE), SURE)
    assert own == pytest.approx(EVEN, abs=1e-15)
    assert back[0] == pytest.approx(SURE, abs=1e-15)
    # three of four samples are of label 0: at (0, 0) the weighted probabilities are (3/4, 1/4)
    most = OWN._replace(mask=torch.ones(4, dtype=torch.bool), y=torch.tensor([0, 0, 0, 1]))
    own, _, _ = mixed(DFML(steps=1, batch=4000, average=0.0, **ALONE), SURE, probe=most)
    assert own == pytest.approx([0, 0], abs=0.05)


@pytest.mark.parametrize(("average", "want"), [(1.0, 0.5), (0.5, 0.75), (0.0, 1.0)])
def test_afterwards_all_move_towards_their_mean(average: float, want: float) -> None:
    own, back, _ = mixed(DFML(steps=0, average=average, **TOP), (1.0, 0.0))
    assert (own, back) == ([1 - want, 0.0], [[want, 0.0]])


def test_who_is_not_heard_or_says_no_numbers_takes_no_part_and_gets_nothing() -> None:
    method = DFML(steps=2, **TOP)
    box = heard(SURE, (9.0, 0.0), (1e308, -1e308))
    labels = OWN._replace(y=torch.tensor([1, 1, 0, 0]))
    box = box._replace(heard=torch.tensor([True, False, True]))
    got, info = guarded_mix(method, PAIR, star(method, *EVEN), box, labels, moment())
    want, alone = guarded_mix(method, PAIR, star(method, *EVEN), heard(SURE), labels, moment())
    torch.testing.assert_close(got.params, want.params)
    assert info["heard"].tolist() == [True, False, False]
    name = "feedback/own/weight"
    torch.testing.assert_close(info[name][0], alone[name][0])
    wild = heard((1e308, -1e308))
    same, info = guarded_mix(method, PAIR, star(method, *SURE), wild, labels, moment())
    assert same.params["weight"][:, 0].tolist() == list(SURE)
    assert not info["heard"].any()


def test_models_of_two_architectures_teach_each_other_by_their_sizes() -> None:
    """The foreign model has 4 numbers, the own 2, and both are even but for one number."""
    deep = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 2, bias=True)).double()
    ours, theirs = acquainted((Task(PAIR.model), Task(deep)))
    z = {"0.weight": [[1.0]], "1.weight": [[log(3)], [0.0]], "1.bias": [0.0, 0.0]}
    foreign = {k: torch.tensor([v, v], dtype=torch.float64) for k, v in z.items()}
    mask = torch.tensor([False, True])
    box = heard(EVEN, EVEN)._replace(foreign=(Foreign(foreign, mask),))
    method = DFML(steps=1, average=1.0, **TOP)
    new, info = guarded_mix(method, ours, star(method, *EVEN), box, OWN, moment())
    assert info["weight"].tolist() == pytest.approx([2 / 9, 5 / 9])
    # the own one hears (1/2, 1/2) of size 2 and (3/4, 1/4) of size 5: 19/28; so does the first neighbour
    assert new.params["weight"][:, 0].tolist() == pytest.approx([19 / 28 - 0.5, 0.5 - 19 / 28])
    _, back = take_feedback(info)
    assert back["own"]["weight"][0, :, 0].tolist() == pytest.approx([19 / 28 - 0.5, 0.5 - 19 / 28])
    assert back[0]["1.bias"][1].tolist() == pytest.approx([-0.25, 0.25])  # moved by 1/2 - 3/4
    assert {k: m.shape for k, m in back[0].items()} == {k: m.shape for k, m in foreign.items()}
    assert theirs.foreign


def test_alpha_goes_up_and_down_once_in_a_period() -> None:
    method = DFML(low=0.2, high=0.8, period=4)
    every = 4
    for exchange, want in ((0, 0.2), (1, 0.5), (2, 0.8), (3, 0.5), (4, 0.2), (6, 0.8)):
        for t in (exchange * every, exchange * every + 1):  # the exchange and its broadcast
            assert float(method.alpha(moment(t, every))) == pytest.approx(want)


def shown(method: DFML, state: State) -> list[float]:
    return method.model(state)[0]["weight"][:, 0].tolist()


def test_the_peak_model_is_that_of_the_rising_upper_half_and_begins_the_closing_phase() -> None:
    method = DFML(steps=0, average=1.0, period=4)
    state = star(method, 0.0, 0.0)
    told: list[Any] = []
    for exchange in range(4):  # each takes over its number
        z = heard((float(exchange + 1), 0.0))
        state, _ = guarded_adopt(method, PAIR, state, z, OWN, moment(4 * exchange + 1))
        told.append((state.params["weight"][0].item(), shown(method, state)[0]))
    assert told == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 3.0)]
    closing = method.settle(PAIR, state, moment(101))
    assert closing.params["weight"][0].item() == 3.0
    learnt = closing._replace(params={"weight": closing.params["weight"] + 1})
    again = method.settle(PAIR, learnt, moment(102))
    assert again.params["weight"][0].item() == shown(method, again)[0] == 4.0


def test_what_it_costs() -> None:
    assert DFML(steps=3).exchange_gradients(asked=5, heard=4, told=4) == 3 * 5
    assert DFML(steps=3, adoption="mix").exchange_gradients(asked=5, heard=4, told=4) == 3 * (5 + 2 * 4)
    assert DFML(steps=3).exchange_gradients(asked=1, heard=0, told=0) == 0


def test_nothing_goes_back_where_nobody_listens() -> None:
    assert not DFML(adoption="ignore").feeds_back
    assert mixed(DFML(adoption="ignore", steps=1), SURE)[1] == []
