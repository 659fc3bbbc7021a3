"""The loss on own samples and its gradient by hand: all samples, those held out, none held out."""

from __future__ import annotations

import pytest
import torch

from coterie.core.ingredients.probe_loss import probe_gradient, probe_loss
from coterie.plugins.algorithms.local import Local
from tests.plugins.algorithms.scalars import numbers, probe
from tests.plugins.algorithms.squares import ONE, client


def test_by_hand() -> None:
    # θ = 1, x = 1: ½(1 - 3)² and ½(1 - 2)², and a sample that is padding; slopes 1 - 3 and 1 - 2
    state = client(Local(), ONE, 1.0)
    own = probe([1.0] * 3, mask=[True, True, False])._replace(y=numbers([3.0, 2.0, 50.0]))
    some = own._replace(held=torch.tensor([False, True, True]))
    for held, samples, loss, slope in (
        (False, some, 1.25, -1.5),
        (True, some, 0.5, -1.0),
        (True, own, 1.25, -1.5),
    ):
        assert float(probe_loss(ONE, state, samples, held=held)) == pytest.approx(loss)
        assert float(probe_gradient(ONE, state, samples, held=held)["0.weight"]) == pytest.approx(slope)
