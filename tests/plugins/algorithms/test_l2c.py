"""L2C: weights and their gradient by hand, who is asked, and the special cases."""

from __future__ import annotations

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.types import Inbox, Probe, Reachable, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.l2c import L2C
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, numbers, probe, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same


def samples(*y: float, held: list[bool] | None = None) -> Probe:
    """Samples x = 1, so that a model's loss on y is ½(θ - y)²."""
    mine = probe([1.0] * len(y))._replace(y=numbers(y))
    return mine if held is None else mine._replace(held=torch.tensor(held))


def mixed(method: L2C, state: State, box: Inbox, own: Probe) -> tuple[State, list[float]]:
    new, info = guarded_mix(method, ONE, state, box, own, moment())
    return new, info["weight"].tolist()


def test_the_gradient_of_the_weights_by_hand() -> None:
    # θ = ½·0 + ½·1, ∇F = ½ - 1; dα of the own ½·(-½)·(0 - ½) = ⅛, of the other ½·(-½)·(1 - ½) = -⅛.
    # Adam keeps a tenth of it, and its first step is as long as the rate.
    method = L2C(rate=0.25)
    new, weight = mixed(method, client(method, ONE, 0.0), inbox([1.0]), samples(1.0))
    assert theta(new) == 0.5
    assert weight == [0.5]
    assert float(new.memory["own.first.alpha"]) == pytest.approx(0.0125)
    assert new.rows["first.alpha"].tolist() == pytest.approx([0, -0.0125, 0, 0])
    assert float(new.memory["own.alpha"]) == pytest.approx(-0.25, abs=1e-6)
    assert new.rows["alpha"].tolist() == pytest.approx([0, 0.25, 0, 0], abs=1e-6)
    # the next average is under softmax(-¼, ¼), of which the second is 1 / (1 + e^-½) = 0.62246
    again, weight = mixed(method, new, inbox([1.0]), samples(1.0))
    assert weight == pytest.approx([0.62246], abs=1e-5)
    assert theta(again) == pytest.approx(0.5 + 0.5 * 0.62246, abs=1e-5)


def test_held_out_samples_decide_if_there_are_any() -> None:
    method, box = L2C(), inbox([1.0])
    state = client(method, ONE, 0.0)
    towards, _ = mixed(method, state, box, samples(9.0, -1.0, held=[True, False]))
    away, _ = mixed(method, state, box, samples(9.0, -1.0, held=[False, True]))
    all_, _ = mixed(method, state, box, samples(9.0, -1.0))
    assert [float(s.rows["alpha"][1]) > 0 for s in (towards, away, all_)] == [True, False, True]


def test_those_not_heard_keep_what_they_have() -> None:
    method = L2C()
    state, _ = mixed(method, client(method, ONE, 0.0), inbox([1.0, 2.0, 4.0]), samples(3.0))
    box = inbox([1.0, 0.0, 2.0], heard=[True, False, True], slot=[1, 0, 3])
    new, weight = mixed(method, state, box, samples(3.0))
    assert weight[1] == 0
    for name, row in new.rows.items():
        assert row[[0, 2]].tolist() == state.rows[name][[0, 2]].tolist()
        assert (row[[1, 3]] != state.rows[name][[1, 3]]).all()


def test_equal_models_change_no_weight() -> None:
    method = L2C()
    new, _ = mixed(method, client(method, ONE, 2.0), inbox([2.0, 2.0]), samples(5.0))
    assert theta(new) == 2.0
    assert new.rows["alpha"].tolist() == [0, 0, 0, 0]
    assert float(new.memory["own.alpha"]) == 0


def test_updates_by_hand() -> None:
    # old 1, since then +2; heard +4: 1 + (2 + 4)/2; the next update is counted from there
    method = L2C(signal="updates")
    state = client(method, ONE, 1.0)
    state = state._replace(params={"0.weight": state.params["0.weight"] + 2})
    new, _ = mixed(method, state, inbox([4.0]), samples(9.0))
    assert theta(new) == 4.0
    assert float(method.offer(ONE, new, probe(), moment())["0.weight"]) == 0


def test_from_some_time_on_it_asks_those_with_the_largest_weights() -> None:
    method = L2C(top=2, switch=50)
    state = client(method, ONE, 0.0)._replace(rows={"alpha": numbers([0.0, 0.1, -0.3, 0.2])})

    def asked(t: int, *slots: int) -> list[bool]:
        reachable = Reachable(torch.tensor(slots, dtype=torch.int64), torch.tensor(slots) > 0)
        found: list[bool] = method.ask(ONE, state, reachable, moment(t)).tolist()
        return found

    assert asked(49, 1, 2, 3, 0) == [True, True, True, False]
    assert asked(50, 1, 2, 3, 0) == [True, False, True, False]
    assert asked(50, 2, 0) == [True, False]
    assert asked(50) == []
    state = state._replace(rows={"alpha": numbers([0.0, 0.0, 0.0, 0.2])})
    assert asked(50, 1, 2, 3) == [True, True, True]  # equals are not told apart


@pytest.mark.parametrize(("adoption", "share"), [("ignore", "all"), ("mix", "all"), ("replace", "base")])
def test_weights_that_do_not_learn_are_fedavgs(adoption: Adoption, share: str) -> None:
    mine = lived(L2C(rate=0.0, adoption=adoption, share=share), world())
    fedavg = lived(FedAvg(adoption=adoption, share=share), world())
    for (state, _), (other, _) in zip(mine[1:], fedavg[1:], strict=True):
        same(state[:3], other[:3])


def test_updates_are_not_broadcast() -> None:
    with pytest.raises(ConfigError, match="adoption = \"ignore\", got 'mix'"):
        L2C(signal="updates", adoption="mix")


def test_a_cut_that_never_comes_is_told() -> None:
    assert L2C(switch=10).unused_options(10) is None
    assert "switch = 11" in str(L2C(switch=11).unused_options(10))
