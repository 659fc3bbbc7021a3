"""FedAvg and FedAvg+: means by hand, before and after the switch; Local keeps to itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.messages import mean_model
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fedavg_plus import FedAvgPlus
from coterie.plugins.algorithms.local import Local
from tests.plugins.algorithms.scalars import TASK, ctx, inbox, probe, state, theta
from tests.trees import same

models = st.lists(st.floats(-100, 100), min_size=1, max_size=5)


def test_the_mean_counts_the_own_model_and_those_heard() -> None:
    # (1 + 2 + 6) / 3; the 100 was not heard
    new, _ = FedAvg().mix(TASK, state(1.0), inbox([2.0, 0.0, 6.0], heard=[True, False, True]), probe(), ctx())
    assert theta(new) == pytest.approx(3.0, abs=1e-15)
    got = mean_model({"0.weight": torch.ones(1, 1).double()}, inbox([2.0, 6.0]))
    assert float(got["0.weight"]) == pytest.approx(3.0, abs=1e-15)


@given(models, st.floats(-100, 100))
def test_the_mean_is_the_mean(others: list[float], own: float) -> None:
    new, _ = guarded_mix(FedAvg(), TASK, state(own), inbox(others), probe(), ctx())
    assert theta(new) == pytest.approx((own + sum(others)) / (len(others) + 1), abs=1e-12)


@given(models, st.floats(-100, 100), st.floats(0.01, 1))
def test_fedavg_plus_is_fedavg_before_the_switch(others: list[float], own: float, beta: float) -> None:
    plus, _ = guarded_mix(FedAvgPlus(switch=5, beta=beta), TASK, state(own), inbox(others), probe(), ctx(4))
    plain, _ = guarded_mix(FedAvg(), TASK, state(own), inbox(others), probe(), ctx(4))
    same(plus, plain, 1e-12)


@pytest.mark.parametrize(("t", "want"), [(0, 3.0), (9, 3.0), (10, 1.5), (11, 1.5)])
def test_the_switch_to_reptile(t: int, want: float) -> None:
    # mean 3; from t = 10 on: 1 + 0.25·(3 - 1)
    new, _ = guarded_mix(
        FedAvgPlus(switch=10, beta=0.25), TASK, state(1.0), inbox([2.0, 6.0]), probe(), ctx(t)
    )
    assert theta(new) == pytest.approx(want, abs=1e-15)


@given(models, st.floats(-100, 100), st.floats(0.01, 1))
def test_reptile_moves_by_beta(others: list[float], own: float, beta: float) -> None:
    new, _ = guarded_mix(FedAvgPlus(switch=0, beta=beta), TASK, state(own), inbox(others), probe(), ctx())
    mean = (own + sum(others)) / (len(others) + 1)
    assert theta(new) == pytest.approx(own + beta * (mean - own), abs=1e-12)


@pytest.mark.parametrize(
    ("adoption", "before", "after"),
    [
        # own 1, broadcast 5, β = ¼
        ("replace", 5.0, 2.0),  # 1 + ¼·4
        ("average", 3.0, 1.5),  # (1 + 5)/2; 1 + ¼·2
        ("mix", 3.0, 1.5),  # the mean of two; 1 + ¼·2
        ("ignore", 1.0, 1.0),
    ],
)
def test_adoption_before_and_after_the_switch(adoption: Adoption, before: float, after: float) -> None:
    for t, want in ((9, before), (10, after)):
        method = FedAvgPlus(switch=10, beta=0.25, adoption=adoption)
        new, _ = guarded_adopt(method, TASK, state(1.0), inbox([5.0]), probe(), ctx(t))
        assert theta(new) == pytest.approx(want, abs=1e-15)


def test_local_steps_are_smaller_after_the_switch() -> None:
    method = FedAvgPlus(switch=10, slow=0.2)
    assert [method.lr_scale(t) for t in (0, 9, 10, 11)] == [1.0, 1.0, 0.2, 0.2]
    assert FedAvg().lr_scale(10_000) == 1.0


@pytest.mark.parametrize("method", [FedAvg(), FedAvgPlus(switch=0), FedAvgPlus(switch=9)])
@given(model=st.floats(-100, 100), n=st.integers(1, 5))
def test_equal_models_are_a_fixed_point(method: Any, model: float, n: int) -> None:
    new, _ = guarded_mix(method, TASK, state(model), inbox([model] * n), probe(), ctx())
    assert theta(new) == pytest.approx(model, abs=1e-12)


def test_local_sends_nothing_and_hears_nothing() -> None:
    own = state(1.0)
    assert Local().offer(TASK, own, probe(), ctx()) == {}
    same(guarded_mix(Local(), TASK, own, inbox([5.0]), probe(), ctx())[0], own)
    same(guarded_adopt(Local(), TASK, own, inbox([5.0]), probe(), ctx())[0], own)
