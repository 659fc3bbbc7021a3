from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import ConfigError
from coterie.core.registry import build
from coterie.core.streams import Stream
from coterie.federation.views import names, views
from coterie.plugins.shifts.concept import ConceptShift
from coterie.plugins.shifts.rescale import RescaleShift
from coterie.plugins.shifts.rotate import RotateShift

X = torch.arange(2 * 9.0).view(2, 1, 3, 3)


@settings(deadline=None, max_examples=40)
@given(classes=st.integers(2, 12), groups=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_no_two_groups_agree_on_a_label(classes: int, groups: int, seed: int) -> None:
    shift, y = ConceptShift(min(groups, classes)), torch.arange(classes)
    called = torch.stack([shift.labels(y, g, classes, Stream(seed, "s")) for g in range(shift.groups)])
    assert torch.equal(called[0], y)
    assert torch.equal(called.sort(1).values, y.expand_as(called))  # each a permutation
    for label in called.T:
        assert len(set(label.tolist())) == shift.groups
    assert shift.inputs(X, shift.groups - 1) is X


def test_concept_groups_depend_on_the_seed() -> None:
    y = torch.arange(10)
    calls = {tuple(ConceptShift().labels(y, 1, 10, Stream(s, "s")).tolist()) for s in range(5)}
    assert len(calls) == 5


def test_more_concepts_than_labels() -> None:
    with pytest.raises(ConfigError, match="4 groups cannot all differ on 3 labels"):
        ConceptShift(4).labels(torch.arange(3), 1, 3, Stream(0, "s"))


def test_quarter_turns_are_exact() -> None:
    shift = RotateShift(groups=4)
    assert shift.inputs(X, 0) is X
    assert shift.inputs(X, 1)[0, 0].tolist() == [[2, 5, 8], [1, 4, 7], [0, 3, 6]]
    assert shift.inputs(X, 2)[0, 0].tolist() == [[8, 7, 6], [5, 4, 3], [2, 1, 0]]
    assert shift.inputs(X, 3)[0, 0].tolist() == [[6, 3, 0], [7, 4, 1], [8, 5, 2]]
    y = torch.tensor([1, 0])
    assert shift.labels(y, 3, 2, Stream(0, "s")) is y


def test_other_angles_turn_the_same_way() -> None:
    near, exact = RotateShift(2, (0.0, 89.999)).inputs(X, 1), RotateShift(2, (0.0, 90.0)).inputs(X, 1)
    torch.testing.assert_close(near[..., 1:-1, 1:-1], exact[..., 1:-1, 1:-1], atol=0.01, rtol=0)
    third = RotateShift(groups=3).inputs(
        torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0)), 1
    )
    assert third.shape == (5, 1, 8, 8)
    assert third.dtype == torch.float32
    assert 0 <= third.min() <= third.max() <= 1


@pytest.mark.parametrize("shape", [(2, 9), (2, 3, 3), (2, 1, 2, 3)])
def test_what_cannot_be_turned(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="rotate shift"):
        RotateShift(groups=4).inputs(torch.zeros(shape), 1)


def test_options() -> None:
    with pytest.raises(ConfigError, match="expected 2 angles, one for each group, got 3"):
        build("shift", "rotate", {"angles": [0, 10, 20]}, "data.shift.0")
    with pytest.raises(ConfigError, match=r"data\.shift\.0\.groups"):
        build("shift", "concept", {"groups": 0}, "data.shift.0")
    with pytest.raises(ConfigError, match=r"data\.shift\.0\.strength"):
        build("shift", "rescale", {"strength": -1}, "data.shift.0")


def test_rescale() -> None:
    shift = RescaleShift(groups=3, strength=0.5)
    x = torch.ones(4, 5)
    assert shift.inputs(x, 0) is x
    one, two = shift.inputs(x, 1), shift.inputs(x, 2)
    assert bool((one > 0).all())
    assert torch.equal(one, one[:1].expand(4, 5))  # the same factors for every sample
    assert len(set(one[0].tolist()) | set(two[0].tolist())) == 10
    torch.testing.assert_close(RescaleShift(3, 1.0).inputs(x, 1), one**2)


def made(name: str, groups: int) -> Any:
    return build("shift", name, {"groups": groups}, "data.shift")


def test_views_store_the_same_view_once() -> None:
    seen = views(X, (made("concept", 2), made("rotate", 2), made("concept", 3)))
    assert seen.pool.shape == (4, 1, 3, 3)
    assert seen.start.tolist() == [0, 0, 0, 2, 2, 2] * 2
    assert torch.equal(seen.pool[2:], X.rot90(2, (2, 3)))
    assert views(X, (made("concept", 2),)).pool is X
    assert views(X, ()).start.tolist() == [0]


def test_names_of_crossed_concepts() -> None:
    y = torch.arange(5)
    called = names(y, 5, (made("concept", 2), made("rotate", 2)), seed=3)
    assert called.shape == (4, 5)
    assert torch.equal(called[0], y)
    assert torch.equal(called[0], called[1])
    assert torch.equal(called[2], called[3])
    assert not bool((called[0] == called[2]).any())


class Broken(ConceptShift):
    def inputs(self, x: torch.Tensor, group: int) -> torch.Tensor:
        return x[..., :1]

    def labels(self, y: torch.Tensor, group: int, classes: int, stream: Stream) -> torch.Tensor:
        return y + 1


def test_a_shift_that_breaks_the_data() -> None:
    broken: Any = Broken()
    with pytest.raises(ConfigError, match="inputs must stay"):
        views(X, (broken,))
    with pytest.raises(ConfigError, match="labels must stay 2 whole numbers from 0 to 1"):
        names(torch.tensor([0, 1]), 2, (broken,), seed=0)
