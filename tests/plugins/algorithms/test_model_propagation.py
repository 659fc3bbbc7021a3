"""Model propagation: the weighted mean by hand, what follows what, and Local where nothing is smoothed."""

from __future__ import annotations

import pytest

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.ingredients.second_model import unpack_tensors
from coterie.core.types import Probe, State
from coterie.plugins.algorithms.local import Local
from coterie.plugins.algorithms.model_propagation import ModelPropagation
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment
from tests.trees import same

HALF = ModelPropagation(alpha=0.5)


def sure(c: float) -> Probe:
    """The samples of a client with confidence c."""
    return probe(size=100.0 * c)


def alone(state: State) -> float:
    return float(unpack_tensors("alone", state.memory)["0.weight"])


@pytest.mark.parametrize(
    ("alpha", "c", "want"),
    [
        (0.5, 1.0, 1.0),  # (½·2 + ½·1·0) / (½ + ½)
        (0.5, 0.5, 4 / 3),  # (½·2 + ½·½·0) / (½ + ¼)
        (0.5, 3.0, 1.0),  # nobody is more than fully confident
        (1.0, 0.5, 2.0),  # the neighbours' mean
        (0.0, 0.5, 0.0),  # the solitary model
    ],
)
def test_the_solitary_model_against_neighbours(alpha: float, c: float, want: float) -> None:
    method = ModelPropagation(alpha=alpha)
    new, info = guarded_mix(method, ONE, client(method, ONE, 0.0), inbox([1.0, 3.0]), sure(c), moment())
    assert theta(new) == pytest.approx(want, abs=1e-15)
    assert alone(new) == 0.0
    assert info["distance"].tolist() == [1.0, 3.0]


def test_near_models_count_more_under_a_kernel() -> None:
    # e^(-1/2) and e^(-4/2) in sum to one: 1/(1 + e^(-3/2)) = 0.817574, 0.182426; ½·(0.817574 + 2·0.182426)
    method = ModelPropagation(alpha=0.5, weights="kernel")
    box = inbox([1.0, 2.0, 0.0], heard=[True, True, False])
    new, info = guarded_mix(method, ONE, client(method, ONE, 0.0), box, sure(1.0), moment())
    assert theta(new) == pytest.approx(0.591213, abs=1e-6)
    assert info["weight"].tolist()[:2] == pytest.approx([0.606531, 0.135335], abs=1e-6)


def test_theta_follows_the_solitary_model() -> None:
    # alone: 0 - 0.1·(0 - 1) = 0.1, then 0.19; θ = ½·2 + ½·0.1, then 1.095; closing: 1.095 - 0.1·0.095
    state, _ = guarded_mix(HALF, ONE, client(HALF, ONE, 0.0), inbox([2.0]), sure(1.0), moment())
    for want in ((1.05, 0.1), (1.095, 0.19)):
        state, _ = HALF.local(ONE, state, batch(y=1.0), moment())
        assert (theta(state), alone(state)) == pytest.approx(want, abs=1e-15)
    state, _ = HALF.local(ONE, state, batch(y=1.0), moment(t=101, last=100))
    assert (theta(state), alone(state)) == pytest.approx((1.0855, 1.0855), abs=1e-15)


@pytest.mark.parametrize(
    ("adoption", "want"),
    [("replace", 3.0), ("mix", 3.0), ("average", 2.0), ("ignore", 1.0)],  # ½·6, ½·6, ½·(2 + 6)/2, ½·2
)
def test_a_broadcast_takes_the_place_of_what_was_heard(adoption: Adoption, want: float) -> None:
    method = ModelPropagation(alpha=0.5, adoption=adoption)
    state = client(method, ONE, 0.0)
    state, _ = guarded_mix(method, ONE, state, inbox([2.0]), sure(1.0), moment())
    new, _ = guarded_adopt(method, ONE, state, inbox([6.0]), sure(1.0), moment())
    assert (theta(new), alone(new)) == (want, 0.0)


def test_there_is_nothing_to_average_with_before_the_first_message() -> None:
    method = ModelPropagation(alpha=0.5, adoption="average")
    new, _ = guarded_adopt(method, ONE, client(method, ONE, 0.0), inbox([6.0]), sure(1.0), moment())
    assert theta(new) == 3.0


@pytest.mark.parametrize("adoption", ["replace", "average", "ignore"])
def test_without_smoothing_it_is_local(adoption: Adoption) -> None:
    methods = ModelPropagation(alpha=0.0, adoption=adoption), Local()
    mine, other = (lived(method, world()) for method in methods)
    same(mine[0][:3], other[0][:3])
    for (state, _), (want, _) in zip(mine[1:], other[1:], strict=True):
        same(state[:3], want[:3])
