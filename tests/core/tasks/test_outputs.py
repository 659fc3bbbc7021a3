"""What a model says about the client's own samples."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.func import vmap

from coterie.core.errors import ConfigError
from coterie.core.registry import registered
from coterie.core.tasks.outputs import distance, of_probabilities, outputs
from coterie.core.tasks.task import Task
from coterie.core.types import Probe, State

LN3 = math.log(3)


def scores() -> tuple[Task, State]:
    """The logits are x · (0, ln 3)."""
    task = Task(nn.Sequential(nn.Linear(1, 2, bias=False)).double())
    return task, State({"0.weight": torch.tensor([[0.0], [LN3]]).double()}, {}, {}, {}, {})


def probe(*x: float, mask: list[bool] | None = None) -> Probe:
    n = len(x)
    return Probe(
        torch.tensor(x).double()[:, None],
        torch.zeros(n, dtype=torch.int64),
        torch.tensor(mask or [True] * n),
        torch.tensor(float(n)).double(),
        torch.zeros(n, dtype=torch.bool),
    )


def test_probabilities_and_logits() -> None:
    task, state = scores()
    # x = 1: softmax(0, ln 3) = (1, 3) / 4; x = -1: softmax(0, -ln 3) = (1, 1/3) / (4/3) = (3, 1) / 4
    want = torch.tensor([[0.25, 0.75], [0.75, 0.25]]).double()
    torch.testing.assert_close(outputs(task, state, probe(1, -1), "probabilities"), want)
    logits = torch.tensor([[0.0, LN3], [0.0, -LN3]]).double()
    torch.testing.assert_close(outputs(task, state, probe(1, -1), "logits"), logits)


def test_centred_subtracts_the_mean_logit_of_real_samples() -> None:
    task, state = scores()
    # x = 1, 3, and padding at 100: mean logit (0, 2 ln 3), so what is left is (0, -ln 3) and (0, ln 3).
    got = outputs(task, state, probe(1, 3, 100, mask=[True, True, False]), "centred")
    want = torch.tensor([[0.75, 0.25], [0.25, 0.75]]).double()
    torch.testing.assert_close(got[:2], want)


def test_centred_models_that_differ_in_label_priors_only_agree() -> None:
    task = Task(nn.Sequential(nn.Linear(1, 3)).double())
    weight = torch.tensor([[1.0], [-1.0], [0.5]]).double()
    one = State({"0.weight": weight, "0.bias": torch.tensor([3.0, 0.0, -1.0]).double()}, {}, {}, {}, {})
    two = State({"0.weight": weight, "0.bias": torch.tensor([-2.0, 1.0, 5.0]).double()}, {}, {}, {}, {})
    seen = [outputs(task, s, probe(1, 2, 5), "centred") for s in (one, two)]
    torch.testing.assert_close(seen[0], seen[1])


def test_a_named_layer_and_an_unknown_one() -> None:
    task = Task(nn.Sequential(nn.Linear(1, 2, bias=False), nn.Tanh(), nn.Linear(2, 2)).double())
    params, buffers = task.init_params(0)
    state = State(params, buffers, {}, {}, {})
    x = probe(1, 2)
    torch.testing.assert_close(outputs(task, state, x, "1"), torch.tanh(x.x @ params["0.weight"].T))
    with pytest.raises(ConfigError, match="no layer 'proba'; there are: 0, 1, 2"):
        outputs(task, state, x, "proba")


def test_padding_under_vmap_is_the_unpadded_client() -> None:
    task, state = scores()
    padded = probe(1, 3, 0, mask=[True, True, False])
    batched = Probe(*(torch.stack([p, p]) for p in padded))
    together = vmap(lambda p: outputs(task, state, p, "centred"))(batched)
    torch.testing.assert_close(together[0, :2], outputs(task, state, probe(1, 3), "centred"))


STRICT = ("jensen_shannon", "symmetric_kl", "wasserstein1")


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize("form", ["logits", "features.3"])
def test_distances_of_probabilities_refuse_other_outputs(name: str, form: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'{name}' compares probabilities, but outputs = '{form}' are none"
    ):
        distance(name, form)


@pytest.mark.parametrize("name", registered("distance"))
@pytest.mark.parametrize("form", ["probabilities", "centred"])
def test_every_distance_takes_probabilities(name: str, form: str) -> None:
    p, q = torch.tensor([[0.25, 0.75]]), torch.tensor([[0.5, 0.5]])
    assert torch.equal(distance(name, form)(p, q), registered("distance")[name](p, q))


@pytest.mark.parametrize("name", sorted(set(registered("distance")) - set(STRICT)))
def test_the_others_take_anything(name: str) -> None:
    p, q = torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, 0.0]])
    for form in ("logits", "any.layer"):
        assert torch.equal(distance(name, form)(p, q), registered("distance")[name](p, q))


def test_the_decorator_returns_the_function_itself() -> None:
    def mine(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return p

    assert of_probabilities(mine) is mine
