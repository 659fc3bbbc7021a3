"""Methods whose messages are the same whatever the model: an MLP and a CNN learn from each other."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from coterie.core.errors import ConfigError
from coterie.core.types import State
from coterie.engine.execution import VmapExecution
from coterie.engine.layout import take_clients
from coterie.engine.mixed import MixedSimulator, simulator_of
from coterie.engine.plan import prepare
from tests.engine.small import experiment

MIXED = [
    {"name": "mlp", "hidden": [8], "clients": [0]},
    {"name": "cnn", "channels": [2], "hidden": 9, "clients": [1]},
]
PROXY = {"name": "mlp", "hidden": [3]}


def finished(method: dict[str, Any], model: Any = MIXED) -> tuple[list[State], MixedSimulator]:
    """Two clients after an exchange and its broadcast, in which everybody hears everybody."""
    changes: dict[str, Any] = {"data.set": "digits", "data.clients": 2, "data.sizes": [20, 30]}
    changes |= {"train.iterations": 6, "train.personalize": 0.0, "exchange.stars": 2, "seeds": [0]}
    e = experiment(methods={"tried": method}, model=model, **changes)
    (stack,) = prepare(e).stacks
    simulator = simulator_of(stack, lambda one: VmapExecution(one.task))
    while simulator.t < 6:
        simulator.step_to_next_event()
    parties = [part.exchanges.parties[0] for part in cast(MixedSimulator, simulator).parts]
    numbers = torch.cat([party.group.members[0].numbers for party in parties]).tolist()
    states = [take_clients(party.state, 0) for party in parties]
    return [states[i] for i in numbers], cast(MixedSimulator, simulator)


@pytest.mark.parametrize("adoption", ["ignore", "average"])
def test_tables_of_outputs_cross(adoption: str) -> None:
    states, simulator = finished({"name": "FD", "adoption": adoption})
    assert states[0].params.keys() != states[1].params.keys()
    assert all(bool((s.memory["labels.weight"] > 0).any()) for s in states)
    table = 8 * (10 * 10 + 10)
    assert int(simulator.bytes) == table * (4 if adoption == "average" else 2)


def test_prototypes_cross_between_heads_that_take_in_equally_many_features() -> None:
    model = [
        {"name": "mlp", "hidden": [6], "clients": [0]},
        {"name": "cnn", "channels": [2], "hidden": 6, "clients": [1]},
    ]
    states, _ = finished({"name": "FedProto"}, model)
    for s in states:
        assert s.memory["labels.mean"].shape == (10, 6)
        assert bool((s.memory["labels.weight"] > 0).any())
    torch.testing.assert_close(*(s.memory["labels.mean"].isfinite() for s in states))


def test_prototypes_of_unequal_heads_are_refused_before_the_run_begins() -> None:
    with pytest.raises(ConfigError, match=r"heads take in 8 and 9 of them; make that equal, or use FD"):
        finished({"name": "FedProto"})


@pytest.mark.parametrize("name", ["FML", "ProxyFL"])
def test_proxies_cross_and_private_models_stay(name: str) -> None:
    states, simulator = finished({"name": name, "proxy": PROXY, "adoption": "replace"})
    proxies = [{k: v for k, v in s.memory.items() if k.startswith("proxy.params")} for s in states]
    assert proxies[0].keys() == proxies[1].keys()
    assert int(simulator.bytes) == 4 * 8 * (64 * 3 + 3 + 3 * 10 + 10)
    # Both were stars: each took the mean, or the other's, and then the other's again.
    alike = [torch.equal(v, proxies[1][k]) for k, v in proxies[0].items()]
    assert all(alike) == (name == "FML")


def test_a_proxy_like_the_own_model_is_refused_where_there_is_none_for_all() -> None:
    with pytest.raises(ConfigError, match=r"^methods\.\w+\.proxy = 'same' is a model like"):
        finished({"name": "FML"})
