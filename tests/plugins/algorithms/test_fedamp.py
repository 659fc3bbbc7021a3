"""FedAMP: weights and the pull by hand, in both forms; without the pull it is Local."""

from __future__ import annotations

from math import exp
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.types import Inbox, State
from coterie.plugins.algorithms.fedamp import FedAMP
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, TWO, batch, client, moment, values
from tests.trees import same

KERNEL = FedAMP(form="kernel", alpha=0.5, sigma=1.0)


def anchor(state: State) -> list[float]:
    """The mean u that pulls."""
    return values(unpack_tensors("anchor", state.memory))


def pairs(*models: tuple[float, float]) -> Inbox:
    """Models of two numbers."""
    columns = zip(*models, strict=True)
    messages = {f"{i}.weight": numbers(column).view(-1, 1, 1) for i, column in enumerate(columns)}
    return Inbox(messages, torch.ones(len(models), dtype=torch.bool), torch.arange(1, len(models) + 1))


def test_the_kernel_by_hand() -> None:
    # θ = 0, θ_j = 1: ξ = 0.5·e^-1 = 0.18394, u = ξ; the 1 that was not heard does not count
    new, info = guarded_mix(
        KERNEL, ONE, client(KERNEL, ONE, 0.0), inbox([1.0, 1.0], heard=[True, False]), probe(), moment()
    )
    assert anchor(new) == pytest.approx([0.18393972], abs=1e-8)
    assert theta(new) == 0.0
    assert info["weight"].tolist() == pytest.approx([exp(-1) / 2, 0], abs=1e-15)
    assert info["distance"].tolist()[0] == 1.0


def test_the_pull_by_hand() -> None:
    # u = 2 after an exchange; θ = 0, y = 1, λ = ½: 0.1·(1 + ½·2)
    method = FedAMP(lam=0.5, adoption="replace")
    state = client(method, ONE, 0.0)
    before, _ = method.local(ONE, state, batch(y=1.0), moment())
    assert theta(before) == pytest.approx(0.1, abs=1e-15)  # nobody was met, nothing pulls
    told, _ = guarded_adopt(method, ONE, state, inbox([2.0]), probe(), moment())
    assert (theta(told), anchor(told)) == (0.0, [2.0])
    after, _ = method.local(ONE, told, batch(y=1.0), moment())
    assert theta(after) == pytest.approx(0.2, abs=1e-15)
    closing, _ = method.local(ONE, told, batch(y=1.0), moment(t=101, last=100))
    assert theta(closing) == pytest.approx(0.1, abs=1e-15)


def test_the_heuristic_by_hand() -> None:
    # cosines with (1, 0): 1 of (2, 0), 0 of (0, 3); σ = 1: e/(e + 1) and 1/(e + 1) of what is not own, ½
    method = FedAMP(sigma=1.0)
    state = client(method, TWO, 1.0, 0.0)
    new, info = guarded_mix(method, TWO, state, pairs((2.0, 0.0), (0.0, 3.0)), probe(), moment())
    near = exp(1) / (exp(1) + 1) / 2
    assert info["weight"].tolist() == pytest.approx([near, 0.5 - near], abs=1e-15)
    assert info["distance"].tolist() == pytest.approx([0.0, 1.0], abs=1e-15)
    assert anchor(new) == pytest.approx([0.5 + 2 * near, 3 * (0.5 - near)], abs=1e-15)


def test_a_model_of_zeros_or_too_wild_to_be_measured() -> None:
    method = FedAMP(sigma=10.0)
    state = client(method, TWO, 1.0, 1.0)
    new, info = guarded_mix(
        method, TWO, state, pairs((0.0, 0.0), (1e200, 1e200), (1.0, 1.0)), probe(), moment()
    )
    assert info["weight"].tolist() == pytest.approx([0.5 / (1 + exp(10)), 0, 0.5 / (1 + exp(-10))], abs=1e-15)
    assert all(abs(u - 1) < 1e-4 for u in anchor(new))


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=4), st.floats(-9, 9), st.floats(0.1, 9))
def test_a_wide_kernel_is_the_plain_mean(models: list[float], own: float, alpha: float) -> None:
    """As σ → ∞ with α/σ = 1/(n + 1); beyond, weights are scaled to sum to one."""
    wide = 1e9
    method = FedAMP(form="kernel", sigma=wide, alpha=wide / (len(models) + 1))
    new, _ = guarded_mix(method, ONE, client(method, ONE, own), inbox(models), probe(), moment())
    assert anchor(new) == pytest.approx([(own + sum(models)) / (len(models) + 1)], abs=1e-5)
    greedy = FedAMP(form="kernel", sigma=wide, alpha=wide * (1 + alpha))
    new, info = guarded_mix(greedy, ONE, client(greedy, ONE, own), inbox(models), probe(), moment())
    assert float(info["weight"].sum()) == pytest.approx(1, abs=1e-12)
    assert anchor(new) == pytest.approx([sum(models) / len(models)], abs=1e-5)


@pytest.mark.parametrize(("adoption", "want"), [("average", 1.5), ("mix", 1 + exp(-1) / 2)])
def test_what_a_broadcast_pulls_towards(adoption: Adoption, want: float) -> None:
    # own 1, broadcast 2: half and half, or by the kernel, whose distance is 1
    method = FedAMP(form="kernel", alpha=0.5, sigma=1.0, adoption=adoption)
    told, _ = guarded_adopt(method, ONE, client(method, ONE, 1.0), inbox([2.0]), probe(), moment())
    assert theta(told) == 1.0
    assert anchor(told) == pytest.approx([want], abs=1e-15)


@pytest.mark.parametrize("form", ["heur", "kernel"])
@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_the_pull_it_is_local(form: Literal["heur", "kernel"], adoption: Adoption) -> None:
    mine, alone = lived(FedAMP(lam=0.0, form=form, adoption=adoption), world()), lived(Local(), world())
    same(mine[0][:3], alone[0][:3])
    for (state, _), (other, _) in zip(mine[1:], alone[1:], strict=True):
        same(state[:3], other[:3])
