"""FedRep and FedPer: head and base by hand, whose turn it is, and what they are special cases of."""

from __future__ import annotations

import pytest

from coterie.core.algorithm import Adoption, guarded_mix
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fedper import FedPer
from coterie.plugins.algorithms.fedrep import FedRep
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe
from tests.plugins.algorithms.squares import TWO, batch, client, moment, values
from tests.trees import same


def test_head_then_base_by_hand() -> None:
    # b = h = 1, y = 3: h ← 1 + 0.1·2, then b ← 1 + 0.1·1.2·1.8; with b_j = 2 the mean base is 1.608
    method = FedRep()
    state = client(method, TWO, 1.0, 1.0)
    for t, want in ((2, [1.0, 1.2]), (3, [1.216, 1.2])):
        state, _ = method.local(TWO, state, batch(y=3.0), moment(t, every=4))
        assert values(state.params) == pytest.approx(want, abs=1e-15)
    assert method.offer(TWO, state, probe(), moment()).keys() == {"0.weight"}
    state, _ = guarded_mix(method, TWO, state, inbox([2.0]), probe(), moment())
    assert values(state.params) == pytest.approx([1.608, 1.2], abs=1e-15)


def test_fedper_by_hand() -> None:
    method = FedPer()
    state, _ = method.local(TWO, client(method, TWO, 1.0, 1.0), batch(y=3.0), moment())
    assert values(state.params) == pytest.approx([1.2, 1.2], abs=1e-15)
    assert method.offer(TWO, state, probe(), moment()).keys() == {"0.weight"}


@pytest.mark.parametrize(
    ("head", "turns"),
    [(0.0, "bbbbb"), (0.2, "hbbbb"), (0.5, "hhhbb"), (0.8, "hhhhb"), (1.0, "hhhhh")],
)
def test_whose_turn_it_is(head: float, turns: str) -> None:
    """Of the five local steps of a round of seven, in every round alike."""
    method = FedRep(head=head, head_rate=0.5)
    first = client(method, TWO, 1.0, 1.0)
    for start in (0, 7, 70):
        found = ""
        for t in range(start + 2, start + 7):
            base, own = values(method.local(TWO, first, batch(y=3.0), moment(t, every=7))[0].params)
            found += "h" if base == 1 else "b"
            assert (base, own) == pytest.approx((1.0, 1.1) if base == 1 else (1.2, 1.0), abs=1e-15)
        assert found == turns


@pytest.mark.parametrize("t", [101, 103])
def test_all_learns_in_the_closing_phase(t: int) -> None:
    fedrep, fedper = FedRep(head_rate=3.0), FedPer()
    one, other = client(fedrep, TWO, 1.0, 1.0), client(fedper, TWO, 1.0, 1.0)
    now = moment(t, last=100)
    same(fedrep.local(TWO, one, batch(3.0), now), fedper.local(TWO, other, batch(3.0), now))


@pytest.mark.parametrize("adoption", ["replace", "average", "mix"])
def test_fedper_is_fedavg_of_the_base(adoption: Adoption) -> None:
    same(lived(FedPer(adoption=adoption), world()), lived(FedAvg(adoption=adoption, share="base"), world()))
    same(lived(FedPer(adoption=adoption, share="all"), world()), lived(FedAvg(adoption=adoption), world()))


def test_with_the_head_alone_the_base_stands_still() -> None:
    first, (one, _), (two, _), *_ = lived(FedRep(head=1.0), world())
    base = [k for k in first.params if not k.startswith("4.")]
    for name in base:
        same(
            (two.params[name], two.optim[f"velocity.{name}"]),
            (first.params[name], first.optim[f"velocity.{name}"]),
        )
    # one step of the head is FedAvg's, which does not depend on how the base moves
    _, (other, _), *_ = lived(FedAvg(), world())
    for name in first.params.keys() - set(base):
        same(one.params[name], other.params[name])
