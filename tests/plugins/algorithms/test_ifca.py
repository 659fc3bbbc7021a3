"""IFCA: centres by hand, who is averaged with whom, and FedAvg where there is one centre."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.sampling import context
from coterie.core.types import Inbox, Probe, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.ifca import CHOSEN, IFCA, NUMBER, centres_of, with_centre
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe
from tests.plugins.algorithms.squares import ONE, TWO, batch, client, moment, values
from tests.trees import pick, same


def samples(y: float) -> Probe:
    """One sample, x = 1, so that the loss of θ is ½(θ - y)²."""
    return probe()._replace(y=numbers([y]))


def of_centres(centres: list[float], number: int) -> State:
    """A client with these centres, of which it has chosen one."""
    method = IFCA(centres=len(centres))
    stacked = {"0.weight": numbers(centres).view(-1, 1, 1)}
    return with_centre(ONE, client(method, ONE, 0.0), stacked, torch.tensor(number))


def tagged(models: list[float], centres: list[int], of: int = 2) -> Inbox:
    """Replies of clients that have chosen these centres."""
    box = inbox(models)
    return box._replace(messages={**box.messages, NUMBER: torch.eye(of).double()[centres]})


def known(state: State) -> list[float]:
    """The centres, then the own model and its centre's number."""
    return centres_of(state)["0.weight"].flatten().tolist() + values(state.params) + [state.memory[CHOSEN]]


def test_like_centres_are_averaged_and_the_better_one_is_chosen() -> None:
    # centre 0: 2 alone, since the own model is of centre 1: (10 + 12)/2; on y = 9: losses ½·7², ½·2²
    new, info = guarded_mix(
        IFCA(), ONE, of_centres([0.0, 10.0], 1), tagged([2.0, 12.0], [0, 1]), samples(9.0), moment()
    )
    assert known(new) == [2.0, 11.0, 11.0, 1]
    assert info["weight"].tolist() == [0.0, 1.0]
    # on y = 3 the losses are ½·1² and ½·8²
    new, info = guarded_mix(
        IFCA(), ONE, of_centres([0.0, 10.0], 1), tagged([2.0, 12.0], [0, 1]), samples(3.0), moment()
    )
    assert known(new) == [2.0, 11.0, 2.0, 0]
    assert (info["weight"].tolist(), int(info["centre"])) == ([1.0, 0.0], 0)


def test_of_a_centre_that_nobody_has_the_last_copy_stays() -> None:
    new, _ = guarded_mix(IFCA(), ONE, of_centres([4.0, 1.0], 1), tagged([5.0], [1]), samples(3.0), moment())
    assert known(new) == [4.0, 3.0, 3.0, 1]
    wild = of_centres([4.0, 1e200], 1)  # a loss that is not finite is never the best
    new, _ = guarded_mix(IFCA(), ONE, wild, tagged([1e200], [1]), samples(3.0), moment())
    assert known(new)[2:] == [4.0, 0]


@pytest.mark.parametrize(
    ("adoption", "want"),
    [
        ("replace", [6.0, 1.0, 6.0, 0]),  # 6 is better than 1 on y = 5
        ("average", [3.0, 1.0, 3.0, 0]),  # (0 + 6)/2
        ("mix", [6.0, 1.0, 6.0, 0]),  # the only one of its centre
        ("ignore", [0.0, 1.0, 1.0, 1]),
    ],
)
def test_a_broadcast_of_the_other_centre_can_win_a_neighbour(adoption: Adoption, want: list[float]) -> None:
    state, method = of_centres([0.0, 1.0], 1), IFCA(adoption=adoption)
    new, _ = guarded_adopt(method, ONE, state, tagged([6.0], [0]), samples(5.0), moment())
    assert known(new) == want


def test_the_chosen_centre_learns() -> None:
    state, _ = IFCA().local(ONE, of_centres([0.0, 10.0], 1), batch(y=9.0), moment())
    assert known(state) == pytest.approx([0.0, 9.9, 9.9, 1], abs=1e-15)
    message = IFCA().offer(ONE, state, probe(), moment())
    assert (float(message["0.weight"]), message[NUMBER].tolist()) == (values(state.params)[0], [0.0, 1.0])


def test_two_groups_find_their_centres() -> None:
    """Clients of y = 5, 5, -5, -5 begin in a mixed pair of centres ±1 and end at ±5, two by two."""
    method, truth = IFCA(), [5.0, 5.0, -5.0, -5.0]
    states = [of_centres([1.0, -1.0], number) for number in (0, 1, 0, 1)]
    for t in range(60):
        for i, y in enumerate(truth):
            states[i], _ = method.local(ONE, states[i], batch(y), moment())
        star = t % 4
        others = [method.offer(ONE, s, probe(), moment()) for i, s in enumerate(states) if i != star]
        box = Inbox(
            {k: torch.stack([m[k] for m in others]) for k in others[0]},
            torch.ones(3).bool(),
            torch.arange(1, 4),
        )
        states[star], _ = guarded_mix(method, ONE, states[star], box, samples(truth[star]), moment())
    first, second, third, fourth = (int(s.memory[CHOSEN]) for s in states)
    assert first == second != third == fourth
    assert [values(s.params)[0] for s in states] == pytest.approx(truth, abs=0.05)


def test_with_heads_alone_the_base_is_one_for_all() -> None:
    """Bases 1, 1 and 4 of both centres average to 2, heads 10 and 12 of the own one to 11."""
    method = IFCA(part="head")
    start = client(method, TWO, 1.0, 0.0)
    state = with_centre(TWO, start, {"1.weight": numbers([0.0, 10.0]).view(2, 1, 1)}, torch.tensor(1))
    models = {"0.weight": [1.0, 4.0], "1.weight": [7.0, 12.0]}
    messages = {k: numbers(v).view(-1, 1, 1) for k, v in models.items()} | {NUMBER: torch.eye(2).double()}
    box = Inbox(messages, torch.ones(2).bool(), torch.tensor([1, 2]))
    new, _ = guarded_mix(method, TWO, state, box, samples(22.0), moment())
    assert values(new.params) == [2.0, 11.0]
    assert centres_of(new)["1.weight"].flatten().tolist() == [7.0, 11.0]
    one = Inbox({k: m[:1] for k, m in messages.items()}, box.heard[:1], box.slot[:1])
    told, _ = guarded_adopt(method, TWO, new, one, samples(22.0), moment())
    assert values(told.params) == [1.0, 11.0]


@pytest.mark.parametrize("start", ["shuffled", "same"])
def test_all_clients_begin_with_the_same_centres_and_not_all_with_the_same_one(
    start: Literal["shuffled", "same"],
) -> None:
    w, method = world(), IFCA(centres=3, start=start)
    first = pick(w.starts, 0)
    states = [method.init(w.task, first, context("init", 0, 0, i, last=5, every=3)) for i in range(20)]
    assert {int(s.memory[CHOSEN]) for s in states} == {0, 1, 2}
    for state in states[1:]:
        same(centres_of(state), centres_of(states[0]))
    for k, v in centres_of(states[0]).items():
        own = {**first.params, **first.buffers}[k]
        assert torch.equal(v[0], own)
        assert torch.equal(v.flatten(1).sort().values, own.flatten().sort().values.expand(3, -1))
        same_order = start == "same" or k.startswith("1.")  # layer 1 is BatchNorm
        assert torch.equal(v[1], own) == torch.equal(v[1], v[2]) == same_order


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_one_centre_is_fedavg(adoption: Adoption) -> None:
    mine, fedavg = (
        lived(m, world()) for m in (IFCA(centres=1, adoption=adoption), FedAvg(adoption=adoption))
    )
    same(mine[0][:3], fedavg[0][:3])
    for (state, _), (other, _) in zip(mine[1:], fedavg[1:], strict=True):
        same(state[:3], other[:3])


def test_heads_that_are_not_sent_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"share = 'base' sends none of it.*use share = 'all'"):
        client(IFCA(part="head", share="base"), TWO, 1.0, 1.0)
