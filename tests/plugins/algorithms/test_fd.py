"""FD: tables, targets and the step by hand; without the others' outputs it is Local."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.label_means import LabelMeans
from coterie.core.types import State
from coterie.plugins.algorithms.fd import FD
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.squares import moment
from tests.plugins.algorithms.tables import IDENTITY, batch, client, probe, tables
from tests.trees import same

OWN = probe([(1, 0), (3, 0), (5, 6)], [0, 0, 0])
"""Samples of label 0 alone, whose mean is (3, 2)."""


def target(state: State) -> list[list[float]]:
    """The targets of both labels."""
    return LabelMeans.remembered(state).mean.tolist()


def known(state: State) -> list[bool]:
    return (LabelMeans.remembered(state).weight > 0).tolist()


def heard(method: FD, *senders: Any) -> State:
    return guarded_mix(method, IDENTITY, client(method), tables(*senders), OWN, moment())[0]


def test_a_table_holds_the_mean_logits_of_each_label_and_which_there_are() -> None:
    method = FD()
    sent = method.offer(IDENTITY, client(method), OWN, moment())
    assert sent["labels.mean"].tolist() == [[3, 2], [0, 0]]
    assert sent["labels.weight"].tolist() == [1, 0]
    assert method.wire_bytes(sent) == 8 * (2 * 2 + 2)  # float64: L² logits and L flags, no model


def test_padding_is_in_no_table() -> None:
    method = FD()
    padded = OWN._replace(mask=torch.tensor([True, True, False]))
    sent = method.offer(IDENTITY, client(method), padded, moment())
    assert sent["labels.mean"].tolist() == [[2, 0], [0, 0]]


def test_a_target_is_the_mean_of_those_that_have_the_label() -> None:
    # label 0: ((0, 2) + (2, 4)) / 2; label 1: of the second alone
    state = heard(FD(), ((0, 2), None), ((2, 4), (6, 8)))
    assert target(state) == [[1, 3], [6, 8]]
    assert known(state) == [True, True]


@pytest.mark.parametrize(("own", "want"), [(False, [0, 2]), (True, [1.5, 2])])
def test_the_own_table_is_left_out_unless_it_is_asked_for(own: bool, want: list[float]) -> None:
    # own (3, 2), heard (0, 2): with the own one their mean (1.5, 2)
    state = heard(FD(own=own), ((0, 2), None))
    assert target(state)[0] == want
    assert known(state) == [True, False]


def test_the_numbers_of_two_tables() -> None:
    method = FD(own=True)
    mine = probe([(2, 0)], [0])
    new, _ = guarded_mix(method, IDENTITY, client(method), tables(((0, 2), None)), mine, moment())
    assert target(new)[0] == [1, 1]


def test_a_label_of_which_nobody_is_heard_keeps_its_target() -> None:
    method = FD()
    first = heard(method, ((0, 2), (1, 1)))
    later, _ = guarded_mix(method, IDENTITY, first, tables(((4, 4), None)), OWN, moment())
    assert target(later) == [[4, 4], [1, 1]]


@pytest.mark.parametrize(
    ("adoption", "want"),
    [("replace", [4, 4]), ("average", [2, 3]), ("mix", [4, 4]), ("ignore", [0, 2])],
)
def test_a_broadcast(adoption: Adoption, want: list[float]) -> None:
    method = FD(adoption=adoption)
    first = heard(method, ((0, 2), None))
    told, _ = guarded_adopt(method, IDENTITY, first, tables(((4, 4), (8, 8))), OWN, moment())
    assert target(told)[0] == want
    assert target(told)[1] == ([0, 0] if adoption == "ignore" else [8, 8])  # nothing to average with
    same(told.params, first.params)


def step(method: FD, state: State, t: int = 2) -> torch.Tensor:
    """The change of the head's weights, of a sample (1, 0) of label 0, at η = 0.1."""
    new, _ = method.local(IDENTITY, state, batch([(1, 0)], [0]), moment(t=t))
    return (state.params["1.weight"] - new.params["1.weight"])[:, 0] / 0.1


def test_the_step_by_hand() -> None:
    # z = (1, 0): p = σ(1) = 0.731059. The label: p - (1, 0). The target softmax(0, 2) = (0.119203, 0.880797):
    # p - target, so for label 0 in all 2 · 0.731059 - 1 - 0.119203
    state = heard(FD(), ((0, 2), None))
    assert step(FD(), state).tolist() == pytest.approx([0.342915, -0.342915], abs=3e-6)


def test_the_weight_and_the_temperature() -> None:
    # T = 2: softmax(0.5, 0) - softmax(0, 1) = 0.622459 - 0.268941, times λ T² / T = 1
    state = heard(FD(), ((0, 2), None))
    want = 0.731059 - 1 + 0.5 * 2 * (0.622459 - 0.268941)
    assert float(step(FD(lam=0.5, temperature=2.0), state)[0]) == pytest.approx(want, abs=3e-6)


def test_logits_as_targets() -> None:
    # -Σ_k Z_k log p_k has the gradient (Σ Z) p - Z: 2 · 0.731059 - 0
    state = heard(FD(), ((0, 2), None))
    want = 0.731059 - 1 + 2 * 0.731059
    assert float(step(FD(targets="logits"), state)[0]) == pytest.approx(want, abs=3e-6)


def test_a_label_without_a_target_and_the_closing_phase_have_the_label_alone() -> None:
    other_label, known = heard(FD(), (None, (0, 2))), heard(FD(), ((0, 2), None))
    for change in (step(FD(), other_label), step(FD(), known, t=101)):
        assert float(change[0]) == pytest.approx(0.731059 - 1, abs=3e-6)


def test_without_the_others_outputs_it_is_local() -> None:
    (mine, alone), *lives = zip(*(lived(method, world()) for method in (FD(lam=0.0), Local())), strict=True)
    same(mine[:3], alone[:3])
    for (mine, _), (alone, _) in lives:
        same(mine[:3], alone[:3])
