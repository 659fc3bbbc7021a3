"""CoBo: gradients at the midpoint by hand, weights, the pull; without it, Local."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.types import Inbox, Message, Probe, State
from coterie.plugins.algorithms.cobo import GRADIENT, CoBo
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same


def samples(y: float) -> Probe:
    """One sample x = 1, so that the gradient at θ is θ - y; one more is padding."""
    two = probe([1.0, 50.0], mask=[True, False])
    return two._replace(y=numbers([y, 7.0]))


def star(method: CoBo, model: float, *w: float) -> State:
    return client(method, ONE, model)._replace(rows={"w": numbers(w)})


def answer(method: CoBo, model: float, y: float, question: Message) -> Message:
    """What a neighbour with this model and this sample replies."""
    return method.reply(ONE, client(method, ONE, model), question, samples(y), moment())


def heard(*replies: Message) -> Inbox:
    box = inbox([0.0] * len(replies))
    return box._replace(messages={k: torch.stack([r[k] for r in replies]) for k in replies[0]})


@pytest.mark.parametrize(("y", "gradient", "w"), [(3.0, -2.0, 0.48), (-1.0, 2.0, 0.52)])
def test_the_weight_by_hand(y: float, gradient: float, w: float) -> None:
    # θ = (0, 2), so the midpoint is 1: gradients 1 - 0 of the star and 1 - y of the other
    method = CoBo(gamma=0.01, rho=0.1)
    own = star(method, 0.0, 0, 0.5, 0.5, 0.5)
    question = method.question(ONE, own, samples(0.0), moment())
    assert float(question["0.weight"]) == 0.0
    reply = answer(method, 2.0, y, question)
    assert reply[GRADIENT].tolist() == [gradient]
    new, info = guarded_mix(method, ONE, own, heard(reply), samples(0.0), moment())
    assert info["weight"].tolist() == pytest.approx([w], abs=1e-15)
    assert info["product"].tolist() == [gradient]
    assert new.rows["w"].tolist() == pytest.approx([0, w, 0.5, 0.5], abs=1e-15)
    assert theta(new) == pytest.approx(0.1 * w * 2, abs=1e-15)  # 0 - ρ w (0 - 2)


def test_one_sided_gradients_are_those_at_each_own_model() -> None:
    # θ = (1, 2), y = (0, 3): gradients 1 and -1
    method = CoBo(gamma=0.01, rho=0.1, sides="one")
    assert not method.answers
    offer = method.offer(ONE, client(method, ONE, 2.0), samples(3.0), moment())
    assert offer[GRADIENT].tolist() == [-1.0]
    new, info = guarded_mix(
        method, ONE, star(method, 1.0, 0, 0.5, 1, 1), heard(offer), samples(0.0), moment()
    )
    assert info["weight"].tolist() == pytest.approx([0.49], abs=1e-15)
    assert theta(new) == pytest.approx(1 + 0.1 * 0.49 * (2 - 1), abs=1e-15)


def test_weights_stay_between_0_and_1_and_the_pull_ends_at_the_mean() -> None:
    # the first agrees, the second does not; with ρ Σ w > 1 the star goes all the way
    method = CoBo(gamma=100.0, rho=5.0)
    own = star(method, 0.0, 0, 0.5, 0.5, 0.5)
    question = method.question(ONE, own, samples(-1.0), moment())
    replies = answer(method, 2.0, -1.0, question), answer(method, 4.0, 9.0, question)
    new, info = guarded_mix(method, ONE, own, heard(*replies), samples(-1.0), moment())
    assert info["weight"].tolist() == [1.0, 0.0]
    assert theta(new) == 2.0


def test_what_is_not_heard_or_has_no_gradient_changes_no_weight() -> None:
    method = CoBo()
    own = star(method, 0.0, 0, 0.5, 0.5, 0.5)
    question = method.question(ONE, own, samples(0.0), moment())
    replies = [answer(method, theirs, 3.0, question) for theirs in (2.0, 1e200, 4.0)]
    box = heard(*replies)._replace(heard=torch.tensor([False, True, False]))
    new, info = guarded_mix(method, ONE, own, box, samples(0.0), moment())
    assert not info["heard"].any()
    assert new.rows["w"].tolist() == [0, 0.5, 0.5, 0.5]
    assert theta(new) == 0.0


def test_a_broadcast_pulls_as_far_as_its_star_was_trusted() -> None:
    method = CoBo(adoption="mix", rho=0.2)
    own = star(method, 1.0, 0, 0.5, 1, 1)
    told = inbox([3.0])
    assert method.offer(ONE, own, samples(0.0), moment()).keys() == told.messages.keys()  # no gradient
    new, info = guarded_adopt(method, ONE, own, told, samples(0.0), moment())
    assert theta(new) == pytest.approx(1 + 0.2 * 0.5 * (3 - 1), abs=1e-15)
    assert info["weight"].tolist() == [0.5]
    assert new.rows["w"].tolist() == [0, 0.5, 1, 1]


@pytest.mark.parametrize("sides", ["both", "one"])
@pytest.mark.parametrize("adoption", ["mix", "ignore"])
def test_without_the_pull_it_is_local(sides: Literal["both", "one"], adoption: Adoption) -> None:
    methods = CoBo(rho=0.0, sides=sides, adoption=adoption), Local()
    (mine, alone), *lives = zip(*(lived(method, world()) for method in methods), strict=True)
    same(mine[:3], alone[:3])
    for (mine, _), (alone, _) in lives:
        same(mine[:3], alone[:3])


def test_its_gradients_are_those_of_the_replies_and_of_the_star() -> None:
    assert CoBo().exchange_gradients(asked=3, heard=2, told=3) == 5
    assert CoBo(sides="one").exchange_gradients(asked=3, heard=2, told=3) == 4
    assert CoBo(sides="one").exchange_gradients(asked=3, heard=0, told=0) == 3
