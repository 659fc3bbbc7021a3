"""KD-PDFL: equations 2, 3, 4 and the mixed model by hand, and what must hold for all numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.tasks.task import Task
from coterie.core.types import Inbox, Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.kd_pdfl import BARRIER, PaperReading
from tests.plugins.algorithms.scalars import TASK, ctx, inbox, numbers, probe, row, state, theta
from tests.trees import same

LN3 = math.log(3)
LOGITS = PaperReading(outputs="logits")


# Equation 2 -------------------------------------------------------------------------------------
# Senders 1, 2, 3 with w = 1/4 each; sender 2 is not heard. degree: ∇g = -1/Σw = -1/0.75 = -4/3.


@pytest.mark.parametrize(
    ("options", "d", "want"),
    [
        # ∇h = d - 0.3·4/3 = (0.3, ·, -0.4), ‖∇h‖ = 0.5: w = ¼ - 0.6 → 0 and ¼ + 0.8
        ({"step": "unit", "mu2": 0.3}, (0.7, 9.0, 0.0), (0, 0, 0.25, 1.05)),
        # the same gradient, element-wise: ¼ - 1 → 0 and ¼ + 1
        ({"step": "sign", "mu2": 0.3}, (0.7, 9.0, 0.0), (0, 0, 0.25, 1.25)),
        # the same gradient, η = ½: ¼ - 0.15 and ¼ + 0.2
        ({"step": "fixed", "eta": 0.5, "mu2": 0.3}, (0.7, 9.0, 0.0), (0, 0.1, 0.25, 0.45)),
        # mu1 = 2: ∇h = (2·0.5 - 0.4, ·, 2·0.1 - 0.4) = (0.6, ·, -0.2), η = ¼
        ({"step": "fixed", "eta": 0.25, "mu1": 2.0, "mu2": 0.3}, (0.5, 9.0, 0.1), (0, 0.1, 0.25, 0.3)),
        # exp(-d/τ), scaled only when models are mixed; what was there before does not matter
        ({"step": "softmax", "tau": 0.5}, (0.0, 0.0, 0.5 * LN3), (0, 1, 0.25, 1 / 3)),
        # l2: ∇g = w_j, ∇h = d + 0.4·¼ = (0.3, ·, 0.4), ‖∇h‖ = 0.5: both ¼ - 0.6, ¼ - 0.8 → 0
        ({"step": "unit", "regularizer": "l2", "mu2": 0.4}, (0.2, 9.0, 0.3), (0, 0, 0.25, 0)),
        # the same gradient, η = ½: ¼ - 0.15, ¼ - 0.2
        (
            {"step": "fixed", "eta": 0.5, "regularizer": "l2", "mu2": 0.4},
            (0.2, 9.0, 0.3),
            (0, 0.1, 0.25, 0.05),
        ),
        ({"step": "sign", "regularizer": "l2", "mu2": 0.4}, (0.2, 9.0, 0.3), (0, 0, 0.25, 0)),
        # ∇h = 0 (mu1 = mu2 = 0): no move
        ({"step": "unit", "mu1": 0.0, "mu2": 0.0}, (0.2, 9.0, 0.3), (0, 0.25, 0.25, 0.25)),
        ({"step": "sign", "mu1": 0.0, "mu2": 0.0}, (0.2, 9.0, 0.3), (0, 0.25, 0.25, 0.25)),
        # a single element without gradient does not move under sign: ∇h = (0.4 - 0.4, ·, -0.4)
        ({"step": "sign", "mu1": 1.0, "mu2": 0.375}, (0.5, 9.0, 0.0), (0, 0.25, 0.25, 1.25)),
    ],
)
def test_equation_2(options: dict[str, Any], d: tuple[float, ...], want: tuple[float, ...]) -> None:
    box = inbox([0, 0, 0], heard=[True, False, True])
    got = PaperReading(**options).conn_vector_update(row(), numbers(d), box)
    assert got.tolist() == pytest.approx(want, abs=1e-12)


def test_the_whole_row_counts_in_the_degree() -> None:
    # Σ w = 0.1 + 0.3 + 1.6 = 2, of which only sender 3 is heard: ∇h = 0.5 - 0.4/2 = 0.3, η = 1
    method = PaperReading(step="fixed", eta=1.0, mu2=0.4)
    got = method.conn_vector_update(row(0, 0.1, 0.3, 1.6), numbers([0.5]), inbox([0], slot=[3]))
    assert got.tolist() == pytest.approx([0, 0.1, 0.3, 1.3])


def test_slots_say_who_sent_what() -> None:
    method = PaperReading(step="fixed", eta=1.0, mu2=0.0)
    got = method.conn_vector_update(row(0, 1, 1, 1), numbers([0.25, 0.5]), inbox([0, 0], slot=[3, 1]))
    assert got.tolist() == [0, 0.5, 1, 0.75]


def test_a_row_of_zeros_stays_finite_and_recovers() -> None:
    # Σ w = 0: the barrier holds ∇g at -1/0.01 = -100, so ∇h = 2 - 0.5·100 = -48 < 0 and w grows again.
    assert BARRIER == 0.01
    got = PaperReading(step="fixed", eta=0.01).conn_vector_update(
        row(0, 0, 0, 0), numbers([2, 2]), inbox([0, 0])
    )
    assert got.tolist() == pytest.approx([0, 0.48, 0.48, 0])
    own = state(1.0, row(0, 0, 0, 0))
    new, _ = guarded_mix(
        PaperReading(outputs="logits", mu2=0.5), TASK, own, inbox([2.0, 1.0]), probe(), ctx()
    )
    assert (new.rows["w"][1:3] > 0).all()


# Equation 3 -------------------------------------------------------------------------------------


def test_equation_3_is_the_mean_over_real_samples_of_the_summed_squares() -> None:
    z_i = numbers([0.5, 0.5, 0.25, 0.75, 0, 1]).view(3, 2)
    z_j = numbers([0.25, 0.75, 0.25, 0.75, 1, 0]).view(1, 3, 2)
    # samples: 2·(1/4)² = 1/8, 0, and 2, which is padding: (1/8 + 0) / 2
    task = Task(torch.nn.Linear(1, 2))
    d = PaperReading().statistical_distance(task, z_i, z_j, probe([0, 0, 0], mask=[True, True, False]))
    assert d.tolist() == [0.0625]


def test_equation_3_through_two_models() -> None:
    # logits x·(0, θ): θ_i = 0 says (½, ½), θ_j = ln 3 says (¼, ¾) at x = 1 and (½, ½) at x = 0.
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(1, 1, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([torch.zeros_like(x), self.out(x)], dim=1)

    task = Task(Pair().double())
    own = State({"out.weight": torch.zeros(1, 1).double()}, {}, {}, {}, {"w": row()})
    box = Inbox({"out.weight": numbers([LN3, 0]).view(2, 1, 1)}, *inbox([0, 0])[1:])
    _, info = PaperReading().mix(task, own, box, probe([1, 0]), ctx())
    # (2·(1/4)² + 0) / 2 = 1/16
    assert info["distance"].tolist() == pytest.approx([0.0625, 0], abs=1e-15)


# Equation 4 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "c_base", "heard", "want"),
    [
        (10, 100, [True, True], 0.1),  # min(0.1, 1/3)
        (50, 100, [True, True], 1 / 3),  # min(0.5, 1/3)
        (50, 100, [True, False], 0.5),  # min(0.5, 1/2): only those heard count
        (500, 100, [True], 0.5),
        (30, 40, [False, False], 0.75),  # min(0.75, 1/1)
    ],
)
def test_equation_4(size: float, c_base: float, heard: list[bool], want: float) -> None:
    got = PaperReading(c_base=c_base).confidence(probe(size=size), inbox([0.0] * len(heard), heard=heard))
    assert float(got) == pytest.approx(want, abs=1e-15)


# The mixed model --------------------------------------------------------------------------------


def test_the_mixed_model() -> None:
    method = PaperReading(outputs="logits", step="fixed", eta=0.25, mu1=0.6, mu2=0.3)
    box = inbox([2.0, 77.0, 1.0], heard=[True, False, True])
    new, info = method.mix(TASK, state(1.0), box, probe([1.0, 5.0], mask=[True, False]), ctx())
    # d = (1-2)² = 1 and 0; ∇h = 0.6·d - 0.3·4/3 = (0.2, -0.4); w = (¼ - 0.05, ¼ + 0.1) = (0.2, 0.35)
    # c = min(10/100, 1/3) = 0.1; θ = 0.9·(0.2·2 + 0.35·1)/0.55 + 0.1·1 = 0.9·15/11 + 0.1
    assert info["distance"].tolist()[::2] == pytest.approx([1, 0])
    assert info["weight"].tolist() == pytest.approx([0.2, 0, 0.35])
    assert float(info["confidence"]) == pytest.approx(0.1)
    assert new.rows["w"].tolist() == pytest.approx([0, 0.2, 0.25, 0.35])
    assert theta(new) == pytest.approx(0.9 * 15 / 11 + 0.1, abs=1e-14)


def test_the_mixed_model_with_softmax() -> None:
    # d = (1, 4), τ = 3/ln 3: w = (1, 3^-1)·exp(-1/τ), scaled to (3/4, 1/4); θ = 0.9·(¾·2 + ¼·3) + 0.1·1
    method = dataclasses.replace(LOGITS, step="softmax", tau=3 / LN3)
    new, _ = method.mix(TASK, state(1.0), inbox([2.0, 3.0]), probe(), ctx())
    assert theta(new) == pytest.approx(0.9 * 2.25 + 0.1, abs=1e-14)


def test_the_mixed_model_with_unit_steps() -> None:
    # d = (1, 4): ∇h = 0.5·d - 0.9/0.75 = (0.5 - 1.2, 2 - 1.2) = (-0.7, 0.8), norm √1.13
    # w = (¼ + 0.7/√1.13, ¼ - 0.8/√1.13 → 0): only sender 1 is left; c = 0.1; θ = 0.9·2 + 0.1·1
    method = dataclasses.replace(LOGITS, mu1=0.5, mu2=0.9)
    new, _ = method.mix(TASK, state(1.0), inbox([2.0, 3.0]), probe(), ctx())
    assert new.rows["w"].tolist() == pytest.approx([0, 0.25 + 0.7 / math.sqrt(1.13), 0, 0.25])
    assert theta(new) == pytest.approx(1.9)


def test_nobody_trusted_keeps_the_own_model() -> None:
    # d = 9 and 16, no reward: both weights fall to zero
    new, info = dataclasses.replace(LOGITS, mu2=0.0).mix(TASK, state(1.0), inbox([4.0, 5.0]), probe(), ctx())
    assert new.rows["w"].tolist()[1:3] == pytest.approx([0, 0])
    assert theta(new) == 1.0
    assert info["confidence"] == 1


def test_the_row_starts_as_the_paper_says() -> None:
    first = PaperReading().init(TASK, Start(state(1.0).params, {}, row(), torch.tensor(0)), ctx())
    assert first.rows["w"].tolist() == [0, 0.25, 0.25, 0.25]


def test_only_models_travel() -> None:
    assert set(PaperReading().offer(TASK, state(1.0), probe(), ctx())) == {"0.weight"}


# Adoption ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adoption", "want"),
    [
        ("replace", 2.0),
        ("average", 1.5),
        # c = min(0.1, ½) = 0.1; the star is now trusted most, so fully: 0.9·2 + 0.1·1
        ("mix", 1.9),
        ("ignore", 1.0),
    ],
)
def test_adoption(adoption: Adoption, want: float) -> None:
    method = PaperReading(outputs="logits", adoption=adoption, mu1=0.1, mu2=0.5)
    new, _ = guarded_adopt(method, TASK, state(1.0), inbox([2.0], slot=[3]), probe(), ctx())
    assert theta(new) == pytest.approx(want)
    # mix alone looks at the star: ∇h = 0.1·1 - 0.5/0.75 < 0, a unit step up
    w = [0, 0.25, 0.25, 1.25 if adoption == "mix" else 0.25]
    assert new.rows["w"].tolist() == pytest.approx(w)


def test_adoption_by_mix_goes_as_far_as_the_star_is_trusted() -> None:
    # d = 1, η = ¼: ∇h = 0.6 - 0.2/1 = 0.4, so w_i = 0.5 - 0.1 = 0.4, against 0.5 for the most trusted;
    # the share is (1 - 0.1)·0.4/0.5 = 0.72; θ = 0.72·2 + 0.28·1
    method = PaperReading(outputs="logits", adoption="mix", step="fixed", eta=0.25, mu1=0.6, mu2=0.2)
    own = state(1.0, row(0, 0.5, 0, 0.5))
    new, info = guarded_adopt(method, TASK, own, inbox([2.0], slot=[3]), probe(), ctx())
    assert new.rows["w"].tolist() == pytest.approx([0, 0.5, 0, 0.4])
    assert theta(new) == pytest.approx(1.72, abs=1e-14)
    assert float(info["confidence"]) == pytest.approx(0.28, abs=1e-14)


def test_adoption_by_mix_refuses_a_stranger() -> None:
    method = PaperReading(outputs="logits", adoption="mix", mu1=1.0, mu2=0.1)
    new, _ = guarded_adopt(method, TASK, state(1.0), inbox([9.0], slot=[3]), probe(), ctx())
    assert theta(new) == 1.0
    assert new.rows["w"].tolist() == [0, 0.25, 0.25, 0]


def test_adoption_by_mix_leaves_what_cannot_be_measured() -> None:
    method = PaperReading(outputs="logits", adoption="mix", mu1=0.1, mu2=0.5)
    new, info = guarded_adopt(method, TASK, state(1.0), inbox([1e200], slot=[3]), probe(), ctx())
    assert theta(new) == 1.0
    assert new.rows["w"].tolist() == [0, 0.25, 0.25, 0.25]
    assert info["heard"].tolist() == [False]


# What is shared ---------------------------------------------------------------------------------


def test_the_base_is_mixed_and_the_head_stays() -> None:
    task = Task(nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 2, bias=False)).double())

    def client(base: float) -> State:
        head = numbers([base, 0]).view(2, 1)
        return State({"0.weight": numbers([base]).view(1, 1), "1.weight": head}, {}, {}, {}, {"w": row()})

    method = PaperReading(share="base", outputs="0", mu1=0.0, mu2=0.0, c_base=1.0)
    offers = [method.offer(task, client(b), probe(), ctx()) for b in (2.0, 6.0)]
    assert [set(o) for o in offers] == [{"0.weight"}] * 2
    box = Inbox({"0.weight": torch.stack([o["0.weight"] for o in offers])}, *inbox([0, 0])[1:])
    new, info = method.mix(task, client(1.0), box, probe(), ctx())
    assert float(new.params["0.weight"]) == pytest.approx(3.0)  # (1 + 2 + 6) / 3
    assert new.params["1.weight"].flatten().tolist() == [1, 0]
    assert info["distance"].tolist() == [1, 25]
    # through the whole model the sender's base speaks with the star's own head (1, 0): same distances
    _, info = dataclasses.replace(method, outputs="logits").mix(task, client(1.0), box, probe(), ctx())
    assert info["distance"].tolist() == [1, 25]


def test_a_distance_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="compares probabilities"):
        PaperReading(distance="wasserstein1", outputs="logits")
    with pytest.raises(ConfigError, match="unknown distance 'nearness'"):
        PaperReading(distance="nearness")


# For all numbers --------------------------------------------------------------------------------

models = st.floats(-5, 5)
METHODS = st.builds(
    PaperReading,
    mu1=st.floats(0, 5),
    mu2=st.floats(0, 5),
    step=st.sampled_from(["unit", "sign", "fixed", "softmax"]),
    regularizer=st.sampled_from(["degree", "l2"]),
    eta=st.floats(0.01, 2),
    tau=st.floats(0.05, 2),
    c_base=st.floats(1, 200),
    outputs=st.just("logits"),
)
rows = st.lists(st.floats(0, 3), min_size=3, max_size=3).map(lambda w: row(0, *w))
boxes = st.lists(st.tuples(models, st.booleans()), min_size=3, max_size=3).map(
    lambda replies: inbox([m for m, _ in replies], heard=[h for _, h in replies])
)
PROBE = probe([1.0, -0.5, 2.0], mask=[True, True, False], size=20.0)


@given(METHODS, models, rows, boxes)
def test_weights_are_never_negative_and_the_unheard_never_move(
    method: PaperReading, own: float, w: Tensor, box: Inbox
) -> None:
    new, _ = guarded_mix(method, TASK, state(own, w), box, PROBE, ctx())
    after = new.rows["w"]
    assert after.isfinite().all()
    assert (after >= 0).all()
    assert after[0] == 0
    unheard = torch.cat([torch.tensor([True]), ~box.heard])
    assert torch.equal(after[unheard], w[unheard])


@given(METHODS, models, rows, boxes)
def test_mixing_weights_sum_to_one(method: PaperReading, own: float, w: Tensor, box: Inbox) -> None:
    new, info = guarded_mix(method, TASK, state(own, w), box, PROBE, ctx())
    c, weight = float(info["confidence"]), info["weight"]
    assert 0 < c <= 1
    shares = (1 - c) * weight / weight.sum() if weight.sum() > 0 else weight
    assert c + float(shares.sum()) == pytest.approx(1, abs=1e-12)
    heard = [float(m) for m, h in zip(box.messages["0.weight"], box.heard, strict=True) if h]
    # so the new model lies between those it was made of
    assert min([own, *heard]) - 1e-9 <= theta(new) <= max([own, *heard]) + 1e-9
    want = c * own + float((shares * box.messages["0.weight"].flatten()).sum())
    assert theta(new) == pytest.approx(want, abs=1e-9)


@given(METHODS, models, rows, st.lists(st.booleans(), min_size=3, max_size=3))
def test_equal_models_are_a_fixed_point(
    method: PaperReading, own: float, w: Tensor, heard: list[bool]
) -> None:
    new, _ = guarded_mix(method, TASK, state(own, w), inbox([own] * 3, heard=heard), PROBE, ctx())
    assert theta(new) == pytest.approx(own, abs=1e-12)


@given(
    models,
    boxes,
    st.floats(1, 20),
    st.sampled_from(["unit", "sign", "fixed"]),
    st.sampled_from(["degree", "l2"]),
)
def test_without_mu_it_is_exactly_fedavg(own: float, box: Inbox, c_base: float, step: Any, reg: Any) -> None:
    method = PaperReading(mu1=0.0, mu2=0.0, c_base=c_base, step=step, regularizer=reg, outputs="logits")
    ours, _ = guarded_mix(method, TASK, state(own), box, PROBE, ctx())
    theirs, _ = guarded_mix(FedAvg(), TASK, state(own), box, PROBE, ctx())
    same(ours, theirs, 1e-12)


@given(METHODS, models, rows, boxes, st.floats(-1e6, 1e6))
def test_lost_replies_never_enter(
    method: PaperReading, own: float, w: Tensor, box: Inbox, other: float
) -> None:
    changed = {"0.weight": torch.where(box.heard.view(-1, 1, 1), box.messages["0.weight"], other)}
    one, _ = guarded_mix(method, TASK, state(own, w), box, PROBE, ctx())
    two, _ = guarded_mix(method, TASK, state(own, w), box._replace(messages=changed), PROBE, ctx())
    same(one, two)


@given(METHODS, models, rows, boxes, st.permutations(range(3)))
def test_the_order_of_replies_does_not_matter(
    method: PaperReading, own: float, w: Tensor, box: Inbox, order: list[int]
) -> None:
    moved = Inbox({"0.weight": box.messages["0.weight"][order]}, box.heard[order], box.slot[order])
    one, _ = guarded_mix(method, TASK, state(own, w), box, PROBE, ctx())
    two, _ = guarded_mix(method, TASK, state(own, w), moved, PROBE, ctx())
    same(one, two, 1e-12)


@given(METHODS, models, rows, boxes)
def test_padding_of_the_probe_does_not_matter(
    method: PaperReading, own: float, w: Tensor, box: Inbox
) -> None:
    bare = Probe(PROBE.x[:2], PROBE.y[:2], PROBE.mask[:2], PROBE.size, PROBE.held[:2])
    one, _ = guarded_mix(method, TASK, state(own, w), box, PROBE, ctx())
    two, _ = guarded_mix(method, TASK, state(own, w), box, bare, ctx())
    same(one, two, 1e-12)


def test_one_neighbour_out_of_all_bounds_does_not_silence_the_others() -> None:
    # 1e200 squared is an infinity: that neighbour is not to be measured, the other one is.
    method = PaperReading(outputs="logits", mu1=0.1, mu2=0.5)
    want, _ = guarded_mix(method, TASK, state(1.0), inbox([2.0, 1e200], heard=[True, False]), probe(), ctx())
    got, _ = guarded_mix(method, TASK, state(1.0), inbox([2.0, 1e200]), probe(), ctx())
    assert theta(want) == pytest.approx(1.9)
    assert theta(got) == pytest.approx(1.9)
    assert got.rows["w"].tolist() == pytest.approx(want.rows["w"].tolist())
