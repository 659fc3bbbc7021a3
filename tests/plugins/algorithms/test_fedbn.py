"""FedBN by hand: own normalisation, and shifts of inputs that it undoes."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Batch, Inbox, Message, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fedbn import FedBN
from tests.plugins.algorithms.scalars import inbox, probe, row, theta
from tests.plugins.algorithms.squares import ONE, client, moment
from tests.trees import same

FEDBN = FedBN()
TWO_LAYERS = Task(nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1, bias=False)).double())
FEATURES, CLASSES = 3, 4
NORMALISING = Task(
    nn.Sequential(nn.BatchNorm1d(FEATURES, eps=1e-12, momentum=1.0), nn.Linear(FEATURES, CLASSES)).double()
)
"""Running statistics are those of the last mini-batch."""


def begun(method: FedAvg, task: Task, params: Message, buffers: Message) -> State:
    return method.init(task, Start(params, buffers, row(), torch.tensor(0)), moment(0))


def normalised(gamma: float, weight: float) -> State:
    """A client of this weight, whose normalisation is all γ."""
    params, buffers = TWO_LAYERS.given()
    params = {k: torch.full_like(v, weight if k == "1.weight" else gamma) for k, v in params.items()}
    return begun(FEDBN, TWO_LAYERS, params, {k: torch.full_like(v, gamma) for k, v in buffers.items()})


def alone(message: Message) -> Inbox:
    return Inbox({k: m[None] for k, m in message.items()}, torch.tensor([True]), torch.tensor([1]))


def test_two_clients_by_hand() -> None:
    # weights (2, 4): the star's mean is 3, which the other takes over; γ = (1, 3) stay
    one, other = normalised(1.0, 2.0), normalised(3.0, 4.0)
    sent = FEDBN.offer(TWO_LAYERS, other, probe(), moment())
    star, _ = guarded_mix(FEDBN, TWO_LAYERS, one, alone(sent), probe(), moment())
    back = FEDBN.offer(TWO_LAYERS, star, probe(), moment())
    told, _ = guarded_adopt(FEDBN, TWO_LAYERS, other, alone(back), probe(), moment())
    assert sent.keys() == back.keys() == {"1.weight"}
    same((star, told), (normalised(1.0, 3.0), normalised(3.0, 3.0)))


def test_without_normalisation_it_is_fedavg() -> None:
    box = inbox([3.0, 5.0])
    mine, fedavg = (
        guarded_mix(m, ONE, client(m, ONE, 1.0), box, probe(), moment()) for m in (FEDBN, FedAvg())
    )
    same(mine, fedavg)
    assert theta(mine[0]) == 3.0


def outputs(method: FedAvg, scale: Tensor, shift: Tensor) -> Tensor:
    """The logits of two clients for samples of theirs, after local steps, an exchange and a broadcast.

    The second sees everything scaled and shifted.
    """
    params, buffers = NORMALISING.init_params(0)
    clients = [begun(method, NORMALISING, params, buffers) for _ in range(2)]

    def seen(t: int, i: int) -> Batch:
        x = Stream(i, "x").normal(8 * FEATURES, t).view(8, FEATURES)
        y = Stream(i, "y").integers(8, t, high=CLASSES)
        return Batch(x * scale + shift if i else x, y, torch.tensor(0.1).double(), torch.tensor(0))

    for t in range(2, 5):
        for i in range(2):
            clients[i], _ = method.local(NORMALISING, clients[i], seen(t, i), moment(t))
    reply = method.offer(NORMALISING, clients[1], probe(), moment())
    clients[0], _ = guarded_mix(method, NORMALISING, clients[0], alone(reply), probe(), moment())
    told = method.offer(NORMALISING, clients[0], probe(), moment())
    clients[1], _ = guarded_adopt(method, NORMALISING, clients[1], alone(told), probe(), moment())
    return torch.stack([NORMALISING.logits(c, seen(99, i).x) for i, c in enumerate(clients)])


NO_SCALE, NO_SHIFT = torch.ones(FEATURES).double(), torch.zeros(FEATURES).double()
three = partial(st.lists, min_size=FEATURES, max_size=FEATURES)


@settings(max_examples=15, deadline=None)
@given(three(st.floats(0.1, 10)), three(st.floats(-10, 10)))
def test_own_statistics_of_the_input_undo_a_shift(scale: list[float], shift: list[float]) -> None:
    """Own statistics make the same of a·x + c as of x: all is as if there were no shift."""
    shifted = outputs(FEDBN, torch.tensor(scale).double(), torch.tensor(shift).double())
    torch.testing.assert_close(shifted, outputs(FEDBN, NO_SCALE, NO_SHIFT), rtol=1e-8, atol=1e-8)


def test_shared_statistics_do_not() -> None:
    apart = outputs(FedAvg(), 3 * NO_SCALE, NO_SHIFT + 2) - outputs(FedAvg(), NO_SCALE, NO_SHIFT)
    assert float(apart.abs().max()) > 0.1


def test_it_is_a_name_for_what_every_algorithm_can_share() -> None:
    assert FEDBN.share == FedAvg(share="!norm").share
    assert {f.name: f.default for f in fields(FedBN)} | {"share": "all"} == {
        f.name: f.default for f in fields(FedAvg)
    }
