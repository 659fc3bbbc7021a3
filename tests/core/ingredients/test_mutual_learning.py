"""The divergence of two models' outputs, by hand, and its gradient."""

from __future__ import annotations

from math import log

import pytest
import torch
from torch.func import grad

from coterie.core.errors import ConfigError
from coterie.core.ingredients.mutual_learning import divergence, proxy_of
from coterie.core.tasks.task import Task

EVEN, SURE = torch.tensor([[0.0, 0.0]]).double(), torch.tensor([[log(3), 0.0]]).double()
"""Probabilities (1/2, 1/2) and (3/4, 1/4)."""


def test_the_divergence_by_hand() -> None:
    # 3/4 ln(3/2) + 1/4 ln(1/2), and 1/2 ln(2/3) + 1/2 ln 2
    assert float(divergence(SURE, EVEN)) == pytest.approx(0.13081, abs=5e-6)
    assert float(divergence(EVEN, SURE)) == pytest.approx(0.14384, abs=5e-6)
    assert float(divergence(SURE, SURE)) == 0.0


def test_it_is_a_mean_over_samples_not_labels() -> None:
    both = divergence(torch.cat([SURE, EVEN]), torch.cat([EVEN, EVEN]))
    assert float(both) == pytest.approx(0.13081 / 2, abs=5e-6)


def test_its_gradient_is_the_difference_of_the_probabilities() -> None:
    found = grad(lambda z: divergence(SURE, z))(EVEN)
    torch.testing.assert_close(found, torch.tensor([[-0.25, 0.25]]).double())


def test_it_is_finite_however_sure_the_models_are() -> None:
    wild = torch.tensor([[1e4, -1e4]]).double()
    assert divergence(wild, -wild).isfinite()


def test_a_task_without_a_proxy_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a second model"):
        proxy_of(Task(torch.nn.Linear(1, 1)))
