"""Dada: steps of the graph and of the models by hand, and Local where nothing pulls."""

from __future__ import annotations

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.types import Inbox, Probe, State
from coterie.plugins.algorithms.dada import DEGREE, LOSS, PULL, Dada, anchor
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, row, theta
from tests.plugins.algorithms.squares import ONE, batch, client, moment, values
from tests.trees import same

CODE = Dada(mu1=2.0, mu2=1.0, lam=0.5, gamma=0.5)
"""The reference code's μ = 2, λ = ½."""


def sure(c: float = 1.0, y: float = 0.0) -> Probe:
    """One sample x = 1, called y, of a client with confidence c."""
    return probe(size=100.0 * c)._replace(y=numbers([y]))


def linked(model: float, *w: float) -> State:
    return client(Dada(), ONE, model)._replace(rows={"w": row(*w)})


def told(models: list[float], losses: list[float], degrees: list[float]) -> Inbox:
    """Replies, with what their senders tell of themselves."""
    box = inbox(models)
    said = {LOSS: numbers(losses)[:, None], DEGREE: numbers(degrees)[:, None]}
    return box._replace(messages={**box.messages, **said})


def test_a_link_at_rest() -> None:
    # distance 1, no loss, degrees 1: 0 + 0 + 1·1 - 1·(1/1 + 1/1) + 2·1·½·1 = 0
    new, info = guarded_mix(CODE, ONE, linked(0.0, 0, 1, 0, 0), told([1.0], [0.0], [1.0]), sure(), moment())
    assert new.rows["w"].tolist() == [0, 1, 0, 0]
    assert (info["distance"].tolist(), info["weight"].tolist()) == ([1.0], [1.0])


def test_near_models_of_small_loss_gain_weight() -> None:
    # d_i = 1; near: 0 + 0 + 0 - (1 + ½) + ½ = -1; far and of loss 1: 0 + 1 + 4 - (1 + 1) + ½ = 3.5
    box = told([0.0, 2.0], [0.0, 1.0], [2.0, 1.0])
    new, info = guarded_mix(CODE, ONE, linked(0.0, 0, 0.5, 0.5, 0), box, sure(), moment())
    assert new.rows["w"].tolist() == [0, 1.0, 0, 0]  # ½ + ½·1, max(0, ½ - ½·3.5)
    assert info["weight"].tolist() == [1.0, 0.0]


def test_the_own_loss_counts_by_the_clients_confidence() -> None:
    # f = ½·2² = 2, c = ¼: ½ + 0 + 0 - (1 + 1) + 1 = -½; and that is told to others
    new, _ = guarded_mix(
        CODE, ONE, linked(0.0, 0, 1, 0, 0), told([0.0], [0.0], [1.0]), sure(0.25, 2.0), moment()
    )
    assert new.rows["w"].tolist() == [0, 1.25, 0, 0]
    message = CODE.offer(ONE, new, sure(0.25, 2.0), moment())
    assert (float(message[LOSS]), float(message[DEGREE])) == (0.5, 1.25)


def test_equal_neighbours_keep_equal_weights() -> None:
    box = told([1.0, -1.0, 1.0], [0.0] * 3, [1.0] * 3)
    new, _ = guarded_mix(Dada(), ONE, linked(0.0), box, sure(), moment())
    assert len(set(new.rows["w"].tolist()[1:])) == 1


def test_the_mean_by_weight_pulls() -> None:
    # weights 3/4 and 1/4 of 1 and -1 (γ tiny): u = ½; pull 0.1/½ = 0.2: θ = 1 - 0.1·((1 - 3) + 0.2·(1 - ½))
    method = Dada(mu1=0.1, gamma=1e-12)
    box = told([1.0, -1.0], [0.0] * 2, [1.0] * 2)
    state, _ = guarded_mix(method, ONE, linked(1.0, 0, 0.75, 0.25, 0), box, sure(0.5), moment())
    assert theta(state) == 1.0  # models are not replaced
    assert values(anchor(state)) == pytest.approx([0.5], abs=1e-9)
    new, _ = method.local(ONE, state, batch(y=3.0), moment())
    assert theta(new) == pytest.approx(1.19, abs=1e-9)
    closing, _ = method.local(ONE, state, batch(y=3.0), moment(t=101, last=100))
    assert theta(closing) == pytest.approx(1.2, abs=1e-15)


def test_no_step_goes_past_what_pulls() -> None:
    # a pull of 100/1 with a step of 0.1 would go to 1 - 10·(1 - 0): it is 1/0.1, and 1 - 0.1·(0 + 10·1) = 0
    state, _ = guarded_mix(
        Dada(mu1=100.0, gamma=1e-12), ONE, linked(1.0), told([0.0], [0.0], [1.0]), sure(), moment()
    )
    new, _ = Dada(mu1=100.0).local(ONE, state, batch(y=1.0), moment())
    assert theta(new) == pytest.approx(0.0, abs=1e-12)


def test_without_links_nothing_pulls() -> None:
    state, _ = guarded_mix(CODE, ONE, linked(0.0, 0, 0.1, 0, 0), told([9.0], [0.0], [1.0]), sure(), moment())
    assert state.rows["w"].tolist() == [0, 0, 0, 0]
    assert float(state.memory[PULL]) == 0.0


@pytest.mark.parametrize(
    ("adoption", "want"),
    [
        ("mix", (0.0, 1.75)),  # u: 1, then 3/8 of the way to 3, since w = 3/8 against 1 of the most trusted
        ("replace", (3.0, 1.0)),
        ("average", (1.5, 1.0)),
        ("ignore", (0.0, 1.0)),
    ],
)
def test_a_broadcast_pulls_as_far_as_its_sender_is_trusted(
    adoption: Adoption, want: tuple[float, float]
) -> None:
    method = Dada(gamma=1e-12, adoption=adoption)
    state = linked(0.0, 0, 1.0, 0.375, 0)
    state, _ = guarded_mix(method, ONE, state, told([1.0], [0.0], [1.0]), sure(), moment())
    one = told([3.0], [0.0], [1.0])._replace(slot=torch.tensor([2]))
    new, _ = guarded_adopt(method, ONE, state, one, sure(), moment())
    assert (theta(new), *values(anchor(new))) == pytest.approx(want, abs=1e-9)


def test_the_first_broadcast_pulls_alone() -> None:
    method = Dada(gamma=1e-12)
    one = told([3.0], [0.0], [1.0])._replace(slot=torch.tensor([2]))
    new, _ = guarded_adopt(method, ONE, linked(0.0, 0, 1.0, 0.375, 0), one, sure(), moment())
    assert (theta(new), *values(anchor(new))) == (0.0, 3.0)
    assert float(new.memory[PULL]) == pytest.approx(0.1)


@pytest.mark.parametrize("adoption", ["mix", "ignore"])
def test_without_the_pull_it_is_local(adoption: Adoption) -> None:
    mine, other = (lived(method, world()) for method in (Dada(mu1=0.0, adoption=adoption), Local()))
    same(mine[0][:3], other[0][:3])
    for (state, _), (want, _) in zip(mine[1:], other[1:], strict=True):
        same(state[:3], want[:3])
