"""Who is recorded one by one."""

from __future__ import annotations

import torch

from coterie.federation import recorded
from coterie.federation.recording import ALL_UP_TO, SAMPLE


def test_of_few_clients_all_are_recorded_of_many_a_sample() -> None:
    assert bool(recorded(ALL_UP_TO, 0).all())
    some = recorded(50_000, 0)
    assert int(some.sum()) == SAMPLE
    assert torch.equal(some, recorded(50_000, 0))
    assert not torch.equal(some, recorded(50_000, 1))
    assert abs(int(some[:25_000].sum()) - SAMPLE / 2) < 4 * (SAMPLE / 4) ** 0.5  # from everywhere alike
