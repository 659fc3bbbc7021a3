"""FedProto: prototypes, the step and predictions by hand; without them it is Local."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.errors import ModelError
from coterie.core.ingredients.label_means import LabelMeans
from coterie.core.tasks.task import Task
from coterie.core.types import Start, State
from coterie.plugins.algorithms.fedproto import FedProto
from coterie.plugins.algorithms.local import Local
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import row
from tests.plugins.algorithms.squares import moment
from tests.plugins.algorithms.tables import IDENTITY, batch, client, probe, tables
from tests.trees import same

OWN = probe([(0, 0), (2, 2)], [0, 0])
"""Two samples of label 0, of mean (1, 1)."""


def heard(method: FedProto, *senders: Any) -> State:
    return guarded_mix(method, IDENTITY, client(method), tables(*senders), OWN, moment())[0]


def prototypes(state: State) -> list[list[float]]:
    return LabelMeans.remembered(state).mean.tolist()


def test_a_table_holds_the_mean_features_not_the_logits() -> None:
    method = FedProto(weights="samples")
    sent = method.offer(IDENTITY, client(method, head=7.0), OWN, moment())
    assert sent["labels.mean"].tolist() == [[1, 1], [0, 0]]
    assert sent["labels.weight"].tolist() == [2, 0]
    equal = FedProto().offer(IDENTITY, client(method), OWN, moment())
    assert equal["labels.weight"].tolist() == [1, 0]


@pytest.mark.parametrize(("weights", "want"), [("equal", 2), ("samples", 5 / 3)])
def test_the_mean_over_clients(weights: Literal["equal", "samples"], want: float) -> None:
    # own mean 1 of 2 samples, heard 3 of 1 sample: (1 + 3) / 2, or (2·1 + 1·3) / 3
    state = heard(FedProto(weights=weights), ((3, 3), None))
    assert prototypes(state)[0] == pytest.approx([want, want], abs=1e-15)


def test_a_broadcast_is_averaged_with_the_own_prototypes() -> None:
    state = heard(FedProto(), ((3, 3), None))
    method = FedProto()
    told, _ = guarded_adopt(method, IDENTITY, state, tables(((4, 0), (5, 5))), OWN, moment())
    assert prototypes(told) == [[3, 1], [5, 5]]
    same(told.params, state.params)


def test_the_step_by_hand() -> None:
    # features (1, 0), prototype (2, 2): the mean of squares has the gradient (1 - 2, 0 - 2), through which
    # the first layer's weights at the first input move; the label's part is the same with λ = 0
    state, one = heard(FedProto(), ((3, 3), None)), batch([(1, 0)], [0])
    with_, without = (FedProto(lam=lam).local(IDENTITY, state, one, moment())[0].params for lam in (0.5, 0.0))
    change = (without["0.weight"] - with_["0.weight"])[:, 0] / 0.1
    assert change.tolist() == pytest.approx([-0.5, -1.0], abs=1e-14)
    assert torch.equal(with_["1.weight"], without["1.weight"])  # the head is not drawn
    closing, _ = FedProto(lam=0.5).local(IDENTITY, state, one, moment(t=101))
    same(closing.params, FedProto(lam=0.0).local(IDENTITY, state, one, moment())[0].params)


def test_the_nearest_prototype_predicts() -> None:
    method = FedProto()
    state = heard(method, ((3, 3), (9, 9)))  # (2, 2) and (9, 9)
    x = torch.tensor([(2.0, 3.0), (7.0, 6.0)]).double()
    scores = method.predict(IDENTITY, state, x, OWN)
    assert scores.tolist() == [[-1, -85], [-41, -13]]
    only_one = heard(method, ((3, 3), None))
    assert method.predict(IDENTITY, only_one, x, OWN).argmax(dim=-1).tolist() == [0, 0]
    own = FedProto(prediction="own").predict(IDENTITY, state, x, OWN)
    assert own.tolist() == [[-5, -85], [-61, -13]]  # label 0 by the own samples (1, 1)


def test_the_head_predicts_where_it_should_or_as_long_as_there_is_no_prototype() -> None:
    x = torch.tensor([(2.0, 3.0)]).double()
    for method in (FedProto(), FedProto(prediction="head")):
        assert method.predict(IDENTITY, client(method), x, OWN).tolist() == x.tolist()


def test_without_prototypes_it_is_local() -> None:
    methods = FedProto(lam=0.0, prediction="head"), Local()
    (mine, alone), *lives = zip(*(lived(method, world()) for method in methods), strict=True)
    same(mine[:3], alone[:3])
    for (mine, _), (alone, _) in lives:
        same(mine[:3], alone[:3])


def test_a_head_of_unknown_width_is_refused() -> None:
    task = Task(torch.nn.Sequential(torch.nn.Conv1d(2, 2, 1), torch.nn.Flatten()))
    start = Start(*task.given(), row(), torch.tensor(0))
    with pytest.raises(ModelError, match=r"head '0' of model Sequential has no linear layer"):
        FedProto().init(task, start, moment())
