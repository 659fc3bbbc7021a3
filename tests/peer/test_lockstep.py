"""One algorithm, two runtimes: bare learners over a network arrive at the simulator's models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from coterie.core.registry import registered
from coterie.engine.plan import prepare
from coterie.experiment import Experiment, World
from coterie.peer.errors import Reason, Refused
from coterie.peer.transport.grpc_client import GrpcTransport
from coterie.peer.transport.grpc_server import GrpcServer
from tests.engine.small import EVERY, EVERY_METHOD, KINDS, Outcome, finished, hard, once
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.lockstep import RUN, Host, advance, hosts_of, tensors
from tests.peer.loopback import FakeCA
from tests.trees import same

CLOSE = 1e-10
EVERYTHING = {"name": "tests.plugins.algorithms.everything:Everything"}

VARIANTS: dict[str, dict[str, Any]] = {
    "adam, a probe of five": {
        "train__optimizer": {"name": "adam", "weight_decay": 0.01},
        "exchange__probe": 5,
        "train__init": "shared",
        "train__personalize_lr": 0.01,
        "methods": {
            "mixed": {"name": "KD-PDFL", "adoption": "mix", "reading": "paper", "step": "softmax"},
            "base": {"name": "FedAvg", "share": "base"},
        },
    },
    "everything, on all its samples": {"methods": {"all": EVERYTHING}, "train__personalize": 0.2},
    "everything, on a probe of five, attacked": {
        "methods": {"some": {**EVERYTHING, "noise": 0.1}},
        "exchange__probe": 5,
        "exchange__holdout": 0.5,
        "attack": {"name": "gaussian_noise", "share": 0.3},
    },
    "tokens": {
        "model": {"name": "tests.engine.nets:Tokens"},
        "data__set": "tests.engine.nets:sentences",
        "exchange__probe": 5,
        "methods": {"KD-PDFL": {}, "FedAvg": {}},
    },
    "few are asked, much is set": {
        "methods": {
            "friends": {"name": "PENS", "sampled": 2, "top": 1, "switch": 12, "adoption": "average"},
            "now": {"name": "Ditto", "pull": "now", "share": "!norm", "adoption": "mix"},
            "head": {"name": "FedRep", "head": 0.3, "head_rate": 3.0},
            "asked": {"name": "CoBo", "adoption": "mix", "share": "!norm"},
            "one side": {"name": "CoBo", "sides": "one", "adoption": "average"},
            "clipped": {"name": "FedAvg-Gaussian", "clip": 1.0, "adoption": "average"},
        },
        "train__optimizer": {"name": "adam", "weight_decay": 0.01},
    },
    "two of three architectures have the same shapes": {
        "model": [
            {"name": "mlp", "hidden": [5]},
            {"name": "tests.engine.nets:five_hidden"},
            {"name": "mlp", "hidden": [4, 3]},
        ],
        "methods": {"KD-PDFL": {"adoption": "mix"}, "CoBo": {}, "heads": {"name": "FedAvg", "share": "head"}},
        "exchange__precision": "half",
        "exchange__probe": 5,
        "attack": {"name": "sign_flip", "share": 0.2},
    },
    "a recurrent network that drops": {
        "model": {"name": "tests.engine.nets:sequence", "kind": "gru", "dropout": 0.4},
        "methods": {"KD-PDFL": {}, "Ditto": {}},
        "train__iterations": 14,
    },
    "answers of attackers": {
        "methods": {"CoBo": {"rho": 0.5}},
        "exchange__probe": 5,
        "attack": {"name": "gaussian_noise", "share": 0.3},
    },
    "feedback of attackers, also to other architectures": {
        "model": [{"name": "mlp", "hidden": [5], "norm": "batch"}, {"name": "mlp", "hidden": [4, 3]}],
        "methods": {
            "whole": {"name": "DFML", "steps": 2, "tested": "last"},
            "mixed": {"name": "DFML", "steps": 1, "adoption": "mix", "period": 3},
        },
        "exchange__precision": "half",
        "exchange__probe": 5,
        "attack": {"name": "gaussian_noise", "share": 0.4},
    },
    "feedback in part": {
        "methods": {"DFML": {"steps": 2, "share": "base", "average": 1.0, "adoption": "average"}},
        "attack": {"name": "model_replacement", "share": 0.4},
    },
    "means of all kinds, much is set": {
        "methods": {
            "degrees": {"name": "Gossip", "weights": "metropolis", "adoption": "mix"},
            "free": {"name": "Per-FedAvg", "order": "HF", "alpha": 0.5},
            "beyond": {"name": "pFedMe", "steps": 2, "lam": 3.0, "beta": 2.0, "share": "base"},
            "proportion": {"name": "APFL", "adapt": "round", "decay": 0.02, "adoption": "average"},
            "kernel": {"name": "FedAMP", "form": "kernel", "adoption": "mix"},
            "chosen": {"name": "kNN-Per", "choice": "leave-one-out", "k": 3},
        },
        "train__personalize": 0.2,
    },
    "attacked": {
        "attack": {"name": "sign_flip", "share": 0.3},
        "methods": {"half": {"name": "FedAvg", "adoption": "average"}},
    },
    **{
        name: {"attack": {"name": name, "share": 0.3}, "methods": {"KD-PDFL": {"adoption": "mix"}}}
        for name in registered("attack")
    },
}

Want = Mapping[tuple[str, int], Outcome]
Over = Callable[[list[Host], Path, int], Coroutine[Any, Any, None]]


async def over_memory(hosts: list[Host], _folder: Path, iterations: int) -> None:
    network = InMemoryNetwork()
    transports = [network.join(h.name, h.name, h) for h in hosts]
    await advance(hosts, transports, [h.name for h in hosts], iterations)


async def over_grpc(hosts: list[Host], folder: Path, iterations: int) -> None:
    federation = FakeCA(folder)
    async with AsyncExitStack() as stack:
        transports, addresses = [], []
        for host in hosts:
            terms = federation.identity(host.name), host.schema, RUN, "method"
            server = GrpcServer(*terms, host)
            addresses.append(await server.start("127.0.0.1:0"))
            stack.push_async_callback(server.stop)
            transports.append(GrpcTransport(*terms))
            stack.push_async_callback(transports[-1].close)
        await advance(hosts, transports, addresses, iterations)


def check(world: World, over: Over, folder: Path, want: Want) -> None:
    hosts = hosts_of(world)
    asyncio.run(over(hosts, folder, world.experiment.train.iterations))
    got: dict[str, Tensor] = {}
    several = len(hosts[0].local_client.client.tasks) > 1
    for place in range(len(hosts[0].local_client.client.tasks)):
        own = tensors([h.local_client.now.state for h in hosts if h.architecture == place])
        got |= {f"{place}/{k}" if several else k: v for k, v in own.items()}
    outcome = want[world.name, world.seed]
    same(got, {k: v for k, v in outcome.tensors.items() if "/" in k.lstrip("0123456789/")}, CLOSE)
    clients = [h.local_client for h in hosts]
    tested = [c.client.measure(c.now.state, c.now.t)["personal"] for c in clients]
    assert tested == pytest.approx(outcome.metrics[-1]["personal"], abs=1e-6)


def worlds(experiment: Experiment) -> dict[str, World]:
    return {world.name: world for world in experiment.worlds()}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Want:
    return once(tmp_path_factory, "every method", EVERY)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_method_in_memory_as_in_the_simulator(method: str, simulated: Want, tmp_path: Path) -> None:
    check(worlds(EVERY)[method], over_memory, tmp_path, simulated)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("method", KINDS)
def test_every_kind_of_method_over_grpc_as_in_the_simulator(
    method: str, simulated: Want, tmp_path: Path
) -> None:
    check(worlds(EVERY)[method], over_grpc, tmp_path, simulated)


COMMON = {"proxy": {"name": "mlp", "hidden": [3]}}
MIXED = hard(
    methods=EVERY_METHOD | {"FML": COMMON, "ProxyFL": COMMON},
    model=[
        {"name": "mlp", "hidden": [5], "norm": "batch", "dropout": 0.3},
        {"name": "mlp", "hidden": [4, 5]},
        {"name": "mlp", "hidden": [5], "norm": "layer", "clients": [4]},
    ],
)
"""Three architectures with heads of one width, one of which a single client has."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Want:
    return once(tmp_path_factory, "mixed", MIXED)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_method_with_mixed_models_in_memory_as_in_the_simulator(
    method: str, mixed: Want, tmp_path: Path
) -> None:
    check(worlds(MIXED)[method], over_memory, tmp_path, mixed)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("method", ["FedAvg", "KD-PDFL", "CoBo", "DFML"])
def test_mixed_models_over_grpc_as_in_the_simulator(method: str, mixed: Want, tmp_path: Path) -> None:
    check(worlds(MIXED)[method], over_grpc, tmp_path, mixed)


ROUNDED = hard(
    methods={name: EVERY_METHOD[name] for name in (*KINDS, "DisPFL", "Oracle")},
    attack={"name": "sign_flip", "share": 0.2},
    grid={"exchange.precision": ["half", "int8"]},
)
"""All kinds of methods with rounded messages, also those of attackers."""


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory) -> Want:
    return once(tmp_path_factory, "rounded", ROUNDED)


@pytest.mark.parametrize("name", [n for n in worlds(ROUNDED) if "int8" in n or n.startswith("CoBo")])
def test_rounded_messages_in_memory_as_in_the_simulator(name: str, rounded: Want, tmp_path: Path) -> None:
    check(worlds(ROUNDED)[name], over_memory, tmp_path, rounded)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("name", ["KD-PDFL [precision=half]", "CoBo [precision=int8]"])
def test_rounded_messages_over_grpc_as_in_the_simulator(name: str, rounded: Want, tmp_path: Path) -> None:
    check(worlds(ROUNDED)[name], over_grpc, tmp_path, rounded)


@pytest.mark.usefixtures("outside")
def test_peers_of_two_precisions_refuse_each_other_with_the_remedy(tmp_path: Path) -> None:
    half, int8 = (hosts_of(worlds(ROUNDED)[f"FedAvg [precision={p}]"])[0] for p in ("half", "int8"))
    # 73 numbers; in 8 bits with scales of 5 and 3 rows, 2 biases, and 4 tensors of the normalisation
    assert (half.schema.bytes, int8.schema.bytes) == (2 * 73, 73 + 4 * (5 + 3 + 2 + 4))
    federation = FakeCA(tmp_path)

    async def main() -> None:
        server = GrpcServer(federation.identity("p0"), half.schema, RUN, "method", half)
        transport = GrpcTransport(federation.identity("p1"), int8.schema, RUN, "method")
        try:
            await transport.pull("p0", await server.start("127.0.0.1:0"))
        finally:
            await transport.close()
            await server.stop()

    with pytest.raises(Refused) as caught:
        asyncio.run(main())
    assert caught.value.reason is Reason.SCHEMA
    want = "expected F16[5], got I8[5]; all peers of a run must have the same exchange.precision and dtype"
    assert want in str(caught.value)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_variants_as_in_the_simulator(changes: dict[str, Any], tmp_path: Path) -> None:
    e = hard(**changes)
    want = finished(prepare(e), tmp_path)
    for world in e.worlds():
        check(world, over_memory, tmp_path, want)
