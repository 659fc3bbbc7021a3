"""APFL: both models and their proportion by hand; the ends of the proportion are FedAvg and Local."""

from __future__ import annotations

from typing import Literal

import pytest
from torch.func import vmap

from coterie.core.algorithm import Adoption, Algorithm, guarded_adopt, guarded_mix
from coterie.core.types import State
from coterie.plugins.algorithms.apfl import APFL, remembering, shared
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same


def two(method: APFL, v: float, w: float) -> State:
    """A client with a personal and an averaged model, half and half."""
    return remembering(client(method, ONE, v), shared(client(method, ONE, w)), numbers([0.5])[0])


def models(state: State) -> list[float]:
    """v, w and α."""
    return values(state.params) + values(shared(state).params) + [float(state.memory["alpha"])]


def test_a_step_by_hand() -> None:
    # v = 2, w = 0, α = ½, y = 3: the mixed model is 1, its gradient -2, its loss ½·2²
    # v ← 2 + 0.1·½·2, w ← 0 + 0.1·3, α ← ½ + 0.1·2·(2 - 0)
    method = APFL()
    new, info = method.local(ONE, two(method, v=2.0, w=0.0), batch(y=3.0), moment())
    assert models(new) == pytest.approx([2.1, 0.3, 0.9], abs=1e-15)
    assert float(info["loss"]) == 2.0
    assert values(method.model(new)[0]) == pytest.approx([0.9 * 2.1 + 0.1 * 0.3], abs=1e-15)
    assert method.gradients == 2


@pytest.mark.parametrize(("y", "alpha"), [(30.0, 1.0), (-30.0, 0.0)])
def test_the_proportion_stays_between_0_and_1(y: float, alpha: float) -> None:
    # ½ + 0.1·29·2 and ½ - 0.1·31·2
    new, _ = APFL().local(ONE, two(APFL(), v=2.0, w=0.0), batch(y), moment())
    assert models(new)[2] == alpha


@pytest.mark.parametrize(
    ("adapt", "t", "alpha"),
    [("step", 2, 0.9), ("step", 3, 0.9), ("round", 2, 0.9), ("round", 3, 0.5), ("never", 2, 0.5)],
)
def test_when_the_proportion_moves(adapt: Literal["step", "round", "never"], t: int, alpha: float) -> None:
    new, _ = APFL(adapt=adapt).local(ONE, two(APFL(), v=2.0, w=0.0), batch(y=3.0), moment(t, every=4))
    assert models(new)[2] == pytest.approx(alpha, abs=1e-15)


def test_the_proportion_decays() -> None:
    # 0.9 - 0.1·0.02·½
    new, _ = APFL(decay=0.02).local(ONE, two(APFL(), v=2.0, w=0.0), batch(y=3.0), moment())
    assert models(new)[2] == pytest.approx(0.899, abs=1e-15)


def test_the_mixed_model_takes_a_plain_step_in_the_closing_phase() -> None:
    # 1 + 0.1·2, by both of them
    method = APFL()
    new, _ = method.local(ONE, two(method, v=2.0, w=0.0), batch(y=3.0), moment(t=101, last=100))
    assert models(new) == pytest.approx([2.2, 0.2, 0.5], abs=1e-15)
    assert values(method.model(new)[0]) == pytest.approx([1.2], abs=1e-15)


def test_an_exchange_is_of_the_averaged_model_alone() -> None:
    method, state = APFL(), two(APFL(), v=2.0, w=0.1)
    assert values(method.offer(ONE, state, probe(), moment())) == [0.1]
    mixed, _ = guarded_mix(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(mixed) == pytest.approx([2.0, 0.2, 0.5], abs=1e-15)
    told, _ = guarded_adopt(method, ONE, state, inbox([0.3]), probe(), moment())
    assert models(told) == [2.0, 0.3, 0.5]


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_ends_of_the_proportion_are_fedavg_and_local(alpha: float, adoption: Adoption) -> None:
    """The tested model, with its running statistics, to the bit; w is FedAvg's until the closing phase."""
    method, w = APFL(alpha=alpha, adapt="never", adoption=adoption), world()
    end: Algorithm = Local() if alpha else FedAvg(adoption=adoption)
    mine, want, fedavg = (lived(m, w) for m in (method, end, FedAvg(adoption=adoption)))
    for (state, info), (other, reported) in zip(mine[1:], want[1:], strict=True):
        same(vmap(method.model)(state), (other.params, other.buffers))
        if "loss" in info:
            same(info["loss"], reported["loss"])
    for (state, _), (other, _) in zip(mine[1:-1], fedavg[1:-1], strict=True):
        same(shared(state)[:3], other[:3])
