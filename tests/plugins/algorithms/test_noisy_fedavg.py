"""FedAvg under Gaussian noise: the norm that is sent, how noisy it is; without either it is FedAvg."""

from __future__ import annotations

import pytest
import torch

from coterie.core.algorithm import Adoption, guarded_mix
from coterie.core.sampling import context
from coterie.core.tasks.task import Task
from coterie.core.types import Message, Start
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.noisy_fedavg import NoisyFedAvg
from tests.conformance import lived, world
from tests.plugins.algorithms.scalars import inbox, probe, row
from tests.plugins.algorithms.squares import TWO, client, moment, values
from tests.trees import pick, same


def sent(method: NoisyFedAvg, *weights: float) -> Message:
    return method.offer(TWO, client(method, TWO, *weights), probe(), moment())


def test_the_norm_of_all_parameters_is_clipped() -> None:
    # ‖(3, 4)‖ = 5
    assert values(sent(NoisyFedAvg(clip=1.0, noise=0.0), 3.0, 4.0)) == pytest.approx([0.6, 0.8], abs=1e-15)
    assert values(sent(NoisyFedAvg(clip=5.0, noise=0.0), 3.0, 4.0)) == [3.0, 4.0]
    assert values(sent(NoisyFedAvg(clip=1.0, noise=0.0), 0.0, 0.0)) == [0.0, 0.0]


def test_the_own_model_is_neither_clipped_nor_noisy() -> None:
    method = NoisyFedAvg(clip=1.0, noise=5.0)
    state = client(method, TWO, 3.0, 4.0)
    box = inbox([5.0])._replace(messages={f"{i}.weight": torch.full((1, 1, 1), 5.0).double() for i in (0, 1)})
    mixed, _ = guarded_mix(method, TWO, state, box, probe(), moment())
    assert values(mixed.params) == [4.0, 4.5]


def test_the_noise_is_normal_and_new_in_every_message() -> None:
    task = Task(torch.nn.Linear(100, 50))
    method = NoisyFedAvg(noise=0.3)
    params = {k: torch.zeros_like(v) for k, v in task.given()[0].items()}
    state = method.init(task, Start(params, {}, row(), torch.tensor(0)), moment(0))

    def noise(t: int, client: int) -> torch.Tensor:
        return method.offer(task, state, probe(), context("offer", 0, t, client, last=9, every=5))["weight"]

    first = noise(5, 0)
    assert float(first.mean()) == pytest.approx(0, abs=0.02)  # 0.3 / √5000, five times
    assert float(first.std()) == pytest.approx(0.3, rel=0.05)
    same(noise(5, 0), first)
    for other in (noise(6, 0), noise(5, 1)):
        assert abs(float((first * other).mean())) < 0.3**2 * 5 / 5000**0.5


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_without_noise_and_clipping_it_is_fedavg(adoption: Adoption) -> None:
    quiet = NoisyFedAvg(clip=1e9, noise=0.0, adoption=adoption, share="base")
    same(lived(quiet, world()), lived(FedAvg(adoption=adoption, share="base"), world()))


def test_running_statistics_are_sent_as_they_are() -> None:
    method, w = NoisyFedAvg(noise=1.0), world()
    state = pick(lived(method, w)[-1][0], 0)
    message, own = method.offer(w.task, state, probe(), moment()), {**state.params, **state.buffers}
    assert {k for k, m in message.items() if (m - own[k]).any()} == state.params.keys()
