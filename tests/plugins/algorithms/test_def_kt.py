"""Def-KT: which model is kept, and mutual learning by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.ingredients.mutual_learning import own_batch
from coterie.core.types import Inbox, Probe, Reachable, Start, State
from coterie.plugins.algorithms.def_kt import DefKT
from tests.plugins.algorithms.pairs import PAIR, inbox
from tests.plugins.algorithms.scalars import row
from tests.plugins.algorithms.squares import moment

EVEN, SURE = (0.0, 0.0), (log(3), 0.0)
"""Probabilities (1/2, 1/2) and (3/4, 1/4)."""
OWN = Probe(
    torch.ones(4, 1, dtype=torch.float64),
    torch.tensor([0, 0, 1, 1]),
    torch.tensor([True, True, False, False]),  # label 1 is padding
    torch.tensor(2.0).double(),
    torch.zeros(4, dtype=torch.bool),
)


def star(*z: float) -> State:
    params = {"weight": torch.tensor(z, dtype=torch.float64)[:, None]}
    return DefKT().init(PAIR, Start(params, {}, row(), torch.tensor(0)), moment(0))


def heard(*models: tuple[float, float]) -> Inbox:
    box = inbox(*models)
    return box._replace(messages={"weight": box.messages["1.weight"]})


def kept(
    method: DefKT, *models: tuple[float, float], own: tuple[float, float] = EVEN, t: int = 2
) -> list[float]:
    new, _ = guarded_mix(method, PAIR, star(*own), heard(*models), OWN, moment(t=t))
    return new.params["weight"][:, 0].tolist()


def test_without_steps_the_received_model_is_kept_as_it_is() -> None:
    assert kept(DefKT(steps=0), SURE) == list(SURE)


def test_without_the_other_the_received_model_is_fine_tuned() -> None:
    # two steps of η = 1 on label 0, of which all own samples are: p - (1, 0) = (-1/2, 1/2), and then
    # σ(1) = 0.731059: (-0.268941, 0.268941)
    want = 0.5 + 0.268941
    assert kept(DefKT(steps=2, rate=1.0, lam=0.0), EVEN) == pytest.approx([want, -want], abs=1e-6)


def test_both_teach_each_other_and_the_received_one_stays() -> None:
    # the received (0, 0): label (-1/2, 1/2), and the own model's (3/4, 1/4) beside: (-1/4, 1/4)
    method = DefKT(steps=1, rate=1.0)
    assert kept(method, EVEN, own=SURE) == pytest.approx([0.75, -0.75], abs=1e-15)
    # in the second step the own one has moved to p: label (-1/4, 1/4), the received (1/4, -1/4): not at all
    two = kept(DefKT(steps=2, rate=1.0), EVEN, own=SURE)
    received = 1 / (1 + torch.exp(torch.tensor(-1.5, dtype=torch.float64)))
    want = 0.75 - float((received - 1) + (received - 0.75))
    assert two == pytest.approx([want, -want], abs=1e-14)


def test_the_best_on_the_own_samples_or_one_at_random() -> None:
    models = ((0.0, 1.0), (2.0, 0.0), (1.0, 0.0))
    assert kept(DefKT(choice="best", steps=0), *models) == [2.0, 0.0]
    found = {tuple(kept(DefKT(steps=0), *models, t=t)) for t in range(20)}
    assert found == set(models)


def test_a_model_whose_loss_is_no_number_is_not_kept() -> None:
    wild = (1e308, -1e308)  # finite, but not its cross-entropy of label 1
    labels = OWN._replace(y=torch.tensor([1, 1, 0, 0]))
    for method in (DefKT(steps=1), DefKT(steps=1, choice="best")):
        new, _ = guarded_mix(method, PAIR, star(*SURE), heard(wild), labels, moment())
        assert new.params["weight"][:, 0].tolist() == list(SURE)


def test_only_one_is_asked_if_one_at_random_is_kept() -> None:
    reachable = Reachable(torch.arange(1, 5), torch.tensor([True, False, True, True]))
    state = star(*EVEN)
    for t in range(10):
        asked = DefKT().ask(PAIR, state, reachable, moment(t=t))
        assert int(asked.sum()) == 1
        assert not asked[1]
    assert DefKT(choice="best").ask(PAIR, state, reachable, moment()).tolist() == reachable.mask.tolist()


def test_a_broadcast_is_learnt_from_only_if_it_should_be() -> None:
    for method, want in ((DefKT(steps=0, adoption="mix"), list(SURE)), (DefKT(steps=0), [0.0, 0.0])):
        told, _ = guarded_adopt(method, PAIR, star(*EVEN), heard(SURE), OWN, moment())
        assert told.params["weight"][:, 0].tolist() == want


def test_what_it_costs() -> None:
    assert DefKT(steps=3).exchange_gradients(asked=5, heard=4, told=4) == 2 * 3
    assert DefKT(steps=3, adoption="mix").exchange_gradients(asked=5, heard=4, told=4) == 2 * 3 * 5
    assert DefKT(steps=3).exchange_gradients(asked=1, heard=0, told=0) == 0


def test_mini_batches_hold_no_padding() -> None:
    drawn = own_batch(OWN, moment(), 0, 64, 0.05)
    assert set(drawn.y.tolist()) == {0}
    again, other = (own_batch(OWN._replace(y=torch.arange(4)), moment(), k, 64, 0.05).y for k in (0, 1))
    assert set(again.tolist()) == {0, 1}
    assert not torch.equal(again, other)
    assert float(drawn.lr) == 0.05
