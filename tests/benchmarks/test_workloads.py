"""What is timed is what it says: the paper's models, the operations counted by hand, and learning."""

from __future__ import annotations

import pytest
import torch

from benchmarks.simulator.engine_contender import Engine, experiment
from benchmarks.simulator.machine import Limit, flops, gemm_rate, machine, traffic
from benchmarks.simulator.workloads import WORKS, Loop, Work, deal, mean_state, network, samples
from coterie.core.registry import build

W0, W1, W2 = WORKS["W0"], WORKS["W1"], WORKS["W2"]


@pytest.mark.parametrize(("work", "parameters"), [(W0, 4_810), (W1, 39_769), (W2, 970_847)])
def test_the_loop_has_the_model_of_the_experiment(work: Work, parameters: int) -> None:
    plain, registered = network(work), build("model", work.model, {}, "").build(work.inputs, work.classes)
    shapes = {k: v.shape for k, v in plain.state_dict().items()}
    assert shapes == {k: v.shape for k, v in registered.state_dict().items()}
    assert sum(p.numel() for p in plain.parameters()) == parameters
    assert [type(m) for m in plain.children()] == [type(m) for m in registered.children()]


# W1: 296 · 128 + 128 · 9 = 39,040 weights. W2: 24² positions of 5² · 32 weights, 8² of 5² · 32 · 64,
# 1024 · 857 and 857 · 47: 460,800 + 3,276,800 + 877,568 + 40,279 = 4,655,447. Times 6, times 16 samples.
@pytest.mark.parametrize(
    ("work", "operations", "moved"), [(W1, 3_747_840, 636_304), (W2, 446_922_912, 15_533_552)]
)
def test_what_a_client_step_costs(work: Work, operations: int, moved: int) -> None:
    assert flops(work) == operations
    assert traffic(work) == moved == 4 * 4 * sum(p.numel() for p in network(work).parameters())


def test_a_round_is_as_many_local_steps_and_one_exchange() -> None:
    for work, steps, every in ((W1, 18, 20), (W2, 4, 6)):
        chosen = experiment(work, 20)
        assert (work.local_steps, work.batch, work.owned) == (steps, 16, 64)
        assert chosen.exchange.every == every
        assert chosen.data.sizes == (64, 64)
        assert chosen.exchange.channel.options == {"neighbours": 5}
    assert (W1.paper_every, W2.paper_every) == (20, 5)


def test_limit() -> None:
    assert Limit("arithmetic", 100.0, 4).client_steps == 25
    assert gemm_rate(64) > 0


def test_samples_are_the_same_for_everybody_and_every_label_occurs() -> None:
    x, y = samples(W1)
    assert x.shape == (2000, 296)
    assert sorted(set(y.tolist())) == list(range(9))
    torch.testing.assert_close(x, samples(W1)[0], rtol=0, atol=0)
    rows = deal(W1, 3)
    assert rows.shape == (3, 64)
    assert int(rows.max()) < 2000


def test_the_mean_of_models() -> None:
    states = [
        {"a": torch.tensor([1.0, 3.0]), "n": torch.tensor(1)},
        {"a": torch.tensor([3.0, 5.0]), "n": torch.tensor(2)},
    ]
    mean = mean_state(states)
    assert mean["a"].tolist() == [2, 4]
    assert mean["n"] == 1.5


def test_loop_and_engine_learn_and_count_their_steps() -> None:
    clients = 7
    loop, engine = Loop(W1, clients), Engine(W1, clients, compiling="off")
    for contender in (loop, engine):
        contender.round()  # the engine's first has no broadcast yet, so one local step more
        assert contender.round() == 18 * clients
        first = contender.loss()
        for _ in range(6):
            contender.round()
        assert contender.loss() < 0.8 * first, type(contender).__name__


def test_those_who_met_in_the_loop_have_one_model() -> None:
    loop = Loop(W1, 4)
    loop.round()
    weights = [m.state_dict()["3.weight"] for m in loop.models]
    assert all(torch.equal(w, weights[0]) for w in weights), "a star and three neighbours are all there are"
    loop = Loop(W1, 9)
    loop.round()
    equal = [
        sum(torch.equal(a.state_dict()["3.weight"], b.state_dict()["3.weight"]) for b in loop.models)
        for a in loop.models
    ]
    assert sorted(equal) == [1, 1, 1, 6, 6, 6, 6, 6, 6]


def test_both_work_on_images() -> None:
    loop, engine = Loop(W2, 2), Engine(W2, 2, compiling="off")
    for contender in (loop, engine):
        contender.round()
        assert contender.round() == 4 * 2
        first = contender.loss()
        for _ in range(2):
            contender.round()
        assert 0 < contender.loss() < first


def test_the_machine_is_named() -> None:
    found = machine("cpu")
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["memory"] > 1e8
    assert found["gpu"] is None
    assert found["torch"] == torch.__version__
