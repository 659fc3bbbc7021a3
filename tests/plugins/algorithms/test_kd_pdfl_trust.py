"""KD-PDFL's reading `trust`: judgement, weights, the mixed model and the mean by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.ingredients.closing_mean import begin_mean, mean_or_model, update_mean
from coterie.core.ingredients.messages import resized
from coterie.core.tasks.task import Task
from coterie.core.types import Inbox, Probe, Reachable, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.kd_pdfl import KDPDFL
from coterie.plugins.algorithms.kd_pdfl_trust import TrustReading
from coterie.plugins.tasks.classification import label_loss
from coterie.plugins.tasks.regression import Regression
from tests.engine.small import experiment, simulator
from tests.plugins.algorithms.scalars import ctx, numbers
from tests.trees import same


class Pair(nn.Module):
    """Logits (0, θ·x): label 1 is likelier where θ·x is above 0; a weight beside θ says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(1, 1, bias=False)
        self.rest = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x), self.out(x)], dim=1)


TASK = Task(Pair().double())
LN3 = math.log(3)
SIZE = 10.0
"""The Euclidean norm of all models here, for which the weight that says nothing is chosen."""


def star(model: float, fit: tuple[float, ...] = (0, 0, 0, 0)) -> State:
    own = State({"out.weight": numbers([model]).view(1, 1), "rest": rest(model)}, {}, {}, {}, {})
    rows = {"w": numbers([0, 0.25, 0.25, 0.25]), "fit": numbers(fit)}
    return begin_mean(own)._replace(rows=rows)


def rest(*models: float) -> Tensor:
    return (SIZE**2 - numbers(models).square()).clamp_min(0).sqrt()


def inbox(*models: float) -> Inbox:
    messages = {"out.weight": numbers(models).view(-1, 1, 1), "rest": rest(*models)[:, None]}
    return Inbox(messages, torch.ones(len(models), dtype=torch.bool), torch.tensor(range(1, len(models) + 1)))


def probe(x: list[float], y: list[int], mask: list[bool] | None = None) -> Probe:
    there = torch.tensor(mask or [True] * len(x))
    size = there.sum().double()
    return Probe(numbers(x)[:, None], torch.tensor(y), there, size, torch.zeros_like(there))


# Two samples, one of each label: π = (1½, 1½) / 3 = (½, ½), so log π does not matter.
BOTH = probe([-1.0, 1.0], [0, 1])


def theta(state: State) -> float:
    return float(state.params["out.weight"])


def test_a_neighbour_is_judged_by_the_own_labels() -> None:
    # θ = 2 ln 3: logits (0, ∓2 ln 3), mean (0, 0); the label's probability is 9/10 on both samples.
    z = numbers([0, -2 * LN3, 0, 2 * LN3]).view(1, 2, 2)
    assert label_loss(z, BOTH).tolist() == pytest.approx([-math.log(0.9)])


def test_who_prefers_a_label_throughout_is_no_stranger() -> None:
    # The same logits, label 1 preferred by 7 on every sample: centred, they are the same.
    z = numbers([0, 7 - 2 * LN3, 0, 7 + 2 * LN3]).view(1, 2, 2)
    assert label_loss(z, BOTH).tolist() == pytest.approx([-math.log(0.9)])


def test_own_frequencies_of_labels_are_the_prior() -> None:
    # One sample, of label 1: centred logits are 0; π = (½, 1½) / 2 = (¼, ¾), the loss is -log ¾.
    assert label_loss(numbers([3, -9]).view(1, 1, 2), probe([1.0], [1])).tolist() == pytest.approx(
        [-math.log(0.75)]
    )


def test_padding_says_nothing() -> None:
    z = numbers([0, -2 * LN3, 0, 2 * LN3, 5, -5]).view(1, 3, 2)
    padded = probe([-1.0, 1.0, 0.0], [0, 1, 0], [True, True, False])
    assert label_loss(z, padded).tolist() == pytest.approx([-math.log(0.9)])


def test_the_mixed_model() -> None:
    # Fits: 9/10 and, for θ = ln 3, ¾; τ = ½: w = 1 and (0.75 / 0.9)² = 25/36.
    # θ = (θ_i + 1·2 ln 3 + 25/36·ln 3) / (1 + 1 + 25/36) with θ_i = ln 3: ln 3 · 133/97.
    new, info = guarded_mix(TrustReading(tau=0.5), TASK, star(LN3), inbox(2 * LN3, LN3), BOTH, ctx())
    assert new.rows["fit"].tolist() == pytest.approx([0, 0.9, 0.75, 0])
    assert new.rows["w"].tolist() == pytest.approx([0, 1, 25 / 36, 0.25])  # who was never heard stays
    assert info["distance"].tolist() == pytest.approx([-math.log(0.9), -math.log(0.75)])
    assert float(info["confidence"]) == pytest.approx(36 / 97)
    assert theta(new) == pytest.approx(LN3 * 133 / 97)


@pytest.mark.parametrize(("fit", "heard"), [(0.5, False), (0.57, False), (0.59, True)])
def test_who_knows_less_than_a_quarter_has_no_say(fit: float, heard: bool) -> None:
    # The own model fits with 0.9, nothing at all with ½: it knows ln 1.8. A quarter of that is a fit of
    # ½ · 1.8^¼ = 0.579.
    sender = math.log(fit / (1 - fit))
    new, info = guarded_mix(TrustReading(), TASK, star(2 * LN3), inbox(sender), BOTH, ctx())
    assert (theta(new) != 2 * LN3) == heard
    assert info["weight"].tolist() == [float(heard)]


class Product(nn.Module):
    """Logits (0, a·b·x): (a, b) and (-a, -b) say the same, and half way between them nothing is left."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x), self.b(self.a(x))], dim=1)


PRODUCT = Task(Product().double())


def product(*ab: float) -> dict[str, Tensor]:
    return {f"{name}.weight": numbers([one]).view(1, 1) for name, one in zip("ab", ab, strict=True)}


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ((2.0, 1.0), True),  # the own model
        ((1.0, 2.0), True),  # says the same; half way (1½, 1½) more is known
        ((-2.0, -1.0), False),  # says the same; half way there is nothing
        ((-1.0, -2.0), False),
        ((2.2, -0.4), False),  # knows less than nothing
    ],
)
def test_who_cannot_be_averaged_has_no_say(sent: tuple[float, float], says: bool) -> None:
    own = star(0.0)._replace(params=product(2.0, 1.0))
    heard = {k: m[None] for k, m in product(*sent).items()}
    box = Inbox(heard, torch.tensor([True]), torch.tensor([1]))
    new, info = TrustReading().mix(PRODUCT, own, box, BOTH, ctx())
    assert info["weight"].tolist() == [float(says)]
    if not says:
        same(new.params, own.params)
    fit = float(new.rows["fit"][1])
    assert fit == pytest.approx(1 / (1 + math.exp(-2))) if says else fit <= 0.5 + 1e-12
    # As a teacher, whose model is not averaged, it is judged by what it says alone.
    _, taught = TrustReading(own_shape="distil").mix(PRODUCT, own, box, BOTH, ctx())
    assert taught["weight"].tolist() == [float(sent[0] * sent[1] > 0)]


@pytest.mark.parametrize(
    ("adoption", "share"),
    # The sender fits with ¾, the best seen so far with 0.9: w = 25/36; the own model is 0.
    [("replace", 25 / 36), ("average", 25 / 72), ("mix", 25 / 61), ("ignore", 0.0)],
)
def test_a_broadcast_is_taken_as_far_as_its_sender_is_trusted(adoption: Any, share: float) -> None:
    method = TrustReading(tau=0.5, adoption=adoption)
    new, _ = guarded_adopt(method, TASK, star(0.0, (0, 0, 0.9, 0)), inbox(LN3), BOTH, ctx())
    assert theta(new) == pytest.approx(share * LN3)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_model_is_made_as_large_as_the_own_one(factor: float) -> None:
    own, heard = star(2 * LN3), inbox(2 * LN3)
    heard = heard._replace(messages={k: factor * m for k, m in heard.messages.items()})
    new, info = guarded_mix(TrustReading(), TASK, own, heard, BOTH, ctx())
    assert info["distance"].tolist() == pytest.approx([-math.log(0.9)])
    same(new.params, own.params, 1e-12)


def test_what_has_no_size_stays() -> None:
    nothing, something = {"a": numbers([0, 0])}, {"a": numbers([0, 0, 3, 4, math.inf, 1]).view(3, 2)}
    assert torch.equal(resized(nothing, something)["a"], something["a"])
    # The own size is 10, theirs are 0, 5 and endless.
    of_ten = resized({"a": numbers([6, 8])}, something)["a"].tolist()
    assert of_ten == [[0, 0], [6, 8], [math.inf, 1]]


def test_models_of_numbers_keep_their_size() -> None:
    """Where outputs are what is predicted, size is not how sure a model is."""
    task = Task(nn.Linear(1, 1, bias=False).double(), Regression())
    own = State({"weight": numbers([2]).view(1, 1)}, {}, {}, {}, {"fit": numbers([0, 0])})
    heard = inbox(1.0)._replace(messages={"weight": numbers([1]).view(1, 1, 1)})
    assert TrustReading().resized(task, own, heard) is heard


def test_nobody_better_is_taken_whole() -> None:
    new, info = guarded_adopt(TrustReading(), TASK, star(0.0), inbox(2 * LN3), BOTH, ctx())
    assert theta(new) == pytest.approx(2 * LN3)
    assert info["weight"].tolist() == [1.0]


@pytest.mark.parametrize("wild", [-1e308, -1e5])
def test_a_wild_model_has_no_weight_and_does_no_harm(wild: float) -> None:
    # Its logits overflow, or its loss is so large that its fit is 0.
    new, _ = guarded_mix(TrustReading(), TASK, star(LN3), inbox(wild, LN3), BOTH, ctx())
    assert theta(new) == pytest.approx(LN3)
    alone, _ = guarded_mix(TrustReading(), TASK, star(LN3), inbox(wild), BOTH, ctx())
    assert theta(alone) == pytest.approx(LN3)


def test_without_judgement_it_is_fedavg() -> None:
    """At an endless temperature all who know anything are trusted."""
    for act, box in ((guarded_mix, inbox(2 * LN3, LN3, 0.9)), (guarded_adopt, inbox(0.9))):
        ours, _ = act(KDPDFL(tau=1e30), TASK, star(LN3), box, BOTH, ctx())
        theirs, _ = act(FedAvg(), TASK, star(LN3), box, BOTH, ctx())
        same(ours.params, theirs.params, 1e-12)


def test_the_mean_over_the_closing_phase() -> None:
    """Models 1, 2, 6 after three of its steps: the mean is 1, then 3/2, then 3; before, the model."""
    method, at = TrustReading(), star(5.0)
    assert method.model(at)[0]["out.weight"].item() == 5
    for model, mean in ((1.0, 1.0), (2.0, 1.5), (6.0, 3.0)):
        at = update_mean(at._replace(params={"out.weight": numbers([model]).view(1, 1)}))
        assert mean_or_model(at)[0]["out.weight"].item() == pytest.approx(mean)
        assert theta(at) == model  # which learns on


def test_options_of_the_paper_are_refused_in_this_reading() -> None:
    with pytest.raises(ConfigError, match=r"mu2 = 0\.1 has no effect.*reading = \"paper\"; set that, or"):
        KDPDFL(mu2=0.1)
    assert KDPDFL(reading="paper", mu2=0.1).search_space().keys() == {"adoption", "outputs", "mu2"}
    assert KDPDFL().search_space() == {}


def test_a_step_of_the_closing_phase_is_settled_once() -> None:
    """The mean that the engine keeps is that of the models it went through, one by one."""
    s = simulator(experiment(methods=["KD-PDFL"], train__iterations=12, train__personalize=0.25))
    seen = []
    while s.t < 12:
        assert bool(s.clients.parts[0].memory) == (s.t > 9)  # until then there is no room taken for it
        s.step_to_next_event()
        if s.t > 9:
            seen.append(s.clients.parts[0].params["1.weight"].clone())
    assert [s.clients.parts[0].memory["steps"].tolist(), len(seen)] == [[3.0] * 4, 3]
    same(s.clients.parts[0].memory["mean.1.weight"], torch.stack(seen).mean(dim=0), 1e-12)


def test_whom_to_ask() -> None:
    """Of four, two: chances are as the weights, here 1, 1/9 and, never heard, 1 and 1."""
    method, counts = TrustReading(tau=0.5, asked=2), torch.zeros(4)
    state = star(0.0)._replace(rows={"fit": numbers([0.9, 0.3, 0, 0])})
    reachable = Reachable(torch.arange(4), torch.ones(4, dtype=torch.bool))
    for t in range(600):
        chosen = method.ask(TASK, state, reachable, ctx(t))
        assert int(chosen.sum()) == 2
        counts += chosen
    # The second is drawn first with 1/28, or second with 3 · 9/28 · 1/19: 0.0865 in all; the others alike.
    assert (counts / 600).tolist() == pytest.approx([0.638, 0.0865, 0.638, 0.638], abs=0.05)
    everybody = TrustReading(asked=0)
    assert everybody.ask(TASK, state, reachable, ctx()).all()
    assert (method.chooses, everybody.chooses) == (True, False)
    nobody = state._replace(rows={"fit": torch.zeros(4).double()})
    some = Reachable(torch.arange(4), torch.tensor([True, False, True, False]))
    assert method.ask(TASK, nobody, some, ctx()).tolist() == [True, False, True, False]
