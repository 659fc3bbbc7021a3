"""DFedAlt, DFedSalt and DFedSAM: sharp steps by hand, whose turn it is, what they are special cases of."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import nn

from coterie.core.algorithm import Adoption
from coterie.core.errors import ConfigError
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Start
from coterie.plugins.algorithms.dfedalt import DFedAlt
from coterie.plugins.algorithms.dfedsalt import DFedSalt
from coterie.plugins.algorithms.dfedsam import DFedSAM
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fedper import FedPer
from coterie.plugins.algorithms.fedrep import FedRep
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import probe
from tests.plugins.algorithms.squares import ONE, TWO, batch, client, moment, values
from tests.trees import same


def test_a_sharp_step_by_hand() -> None:
    # θ = 0, y = 1: g = -1, uphill at -0.1 the gradient is -1.1, and 0 + 0.1·1.1
    method = DFedSAM(sharpness=0.1)
    new, info = method.local(ONE, client(method, ONE, 0.0), batch(y=1.0), moment())
    assert values(new.params) == pytest.approx([0.11], abs=1e-15)
    assert float(info["loss"]) == 0.5  # at θ, not uphill
    assert method.gradients == DFedSalt().gradients == 2


def test_uphill_is_one_direction_in_all_parameters() -> None:
    # b = 3, h = 4, y = 7: g = 5·(4, 3), of norm 25, so uphill by 0.5 is (3.4, 4.3), where hb - y = 7.62
    method = DFedSAM(sharpness=0.5)
    new, _ = method.local(TWO, client(method, TWO, 3.0, 4.0), batch(y=7.0), moment())
    want = [3 - 0.1 * 4.3 * 7.62, 4 - 0.1 * 3.4 * 7.62]
    assert values(new.params) == pytest.approx(want, abs=1e-14)


def test_the_base_alone_is_moved_uphill() -> None:
    # every = 4: a step of the head, h ← 1 + 0.1·2·1; then u = 1, g = 1.2·(1.2 - 3) < 0, uphill at 0.9:
    # 1 - 0.1·1.2·(1.2·0.9 - 3)
    method = DFedSalt(sharpness=0.1)
    state = client(method, TWO, 1.0, 1.0)
    for t, want in ((2, [1.0, 1.2]), (3, [1.2304, 1.2])):
        state, _ = method.local(TWO, state, batch(y=3.0), moment(t, every=4))
        assert values(state.params) == pytest.approx(want, abs=1e-15)
    assert method.offer(TWO, state, probe(), moment()).keys() == {"0.weight"}


def test_without_a_slope_nothing_is_uphill() -> None:
    for method, task, weights in ((DFedSAM(), ONE, [3.0]), (DFedSalt(head=0.0), TWO, [3.0, 1.0])):
        new, _ = method.local(task, client(method, task, *weights), batch(y=3.0), moment())
        assert values(new.params) == weights


@pytest.mark.parametrize("t", [101, 103])
def test_steps_of_the_closing_phase_are_plain(t: int) -> None:
    now = moment(t, last=100)
    for method, plain in ((DFedSAM(), FedAvg()), (DFedSalt(head_rate=3.0), FedPer()), (DFedAlt(), FedPer())):
        one, other = client(method, TWO, 1.0, 1.0), client(plain, TWO, 1.0, 1.0)
        same(method.local(TWO, one, batch(3.0), now), plain.local(TWO, other, batch(3.0), now))


@pytest.mark.parametrize(
    ("head", "order", "turns"),
    [(1 / 6, "head", "hbbbb"), (1 / 6, "base", "bbbbh"), (0.5, "base", "bbhhh"), (0.0, "base", "bbbbb")],
)
def test_whose_turn_it_is(head: float, order: Literal["head", "base"], turns: str) -> None:
    """Of the five local steps of a round of seven: as many of the head, whoever is first."""
    method = DFedAlt(head=head, order=order)
    assert "".join("h" if method.heads_turn(moment(t, every=7)) else "b" for t in range(16, 21)) == turns


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_special_cases(adoption: Adoption) -> None:
    """Head first is FedRep with fewer steps of the head; not uphill, sharp steps are plain."""
    w = world()
    fedrep = FedRep(head=1 / 6, head_rate=3.0, adoption=adoption)
    same(lived(DFedAlt(head_rate=3.0, adoption=adoption), w), lived(fedrep, w))
    same(lived(DFedSalt(head_rate=3.0, sharpness=0.0, adoption=adoption), w), lived(fedrep, w))
    same(lived(DFedSAM(sharpness=0.0, adoption=adoption), w), lived(FedAvg(adoption=adoption), w))


def test_a_model_that_is_all_head_has_no_base_to_be_sharp_with() -> None:
    task = Task(nn.Linear(2, 3))
    start = Start(*task.init_params(0), torch.zeros(2), torch.tensor(0))
    given = Batch(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), torch.tensor(0.1), torch.tensor(0))
    state = DFedSalt().init(task, start, moment())
    with pytest.raises(ConfigError, match=r"sharp steps with the base, but the head '' is all of the model"):
        DFedSalt().local(task, state, given, moment())
