"""A federation in several processes gives what it gives in one, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.engine import final_models
from coterie.engine.layout import Cast
from coterie.engine.plan import Plan, prepare
from coterie.engine.runner import simulate
from coterie.experiment import Experiment
from coterie.storage import tensors as saved
from tests.engine.distributed.cases import Asked, Found
from tests.engine.distributed.ranks import Group, started
from tests.engine.recording import Recording
from tests.engine.small import (
    EVERY,
    EVERY_METHOD,
    Outcome,
    experiment,
    finished,
    hard,
    once,
    outcome,
)
from tests.trees import close, same

pytestmark = pytest.mark.usefixtures("outside")
SIMULATED = "tests.engine.distributed.cases:simulated"
Worlds = dict[tuple[str, int], Outcome]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with started(2, tmp_path_factory.mktemp("two")) as group:
        yield group


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    with started(4, tmp_path_factory.mktemp("four")) as group:
        yield group


def shared(group: Group, e: Experiment, folder: Path, **asked: Any) -> tuple[Plan, Recording, Found]:
    """Outcome of an experiment in several processes."""
    folder.mkdir(exist_ok=True, parents=True)
    found = group.call(SIMULATED, Asked(e.plain(), folder, **asked))
    lead = found[0]
    assert isinstance(lead, Found), found
    assert {one.finished for one in found} == {lead.finished}
    recording = Recording(folder)
    recording.rows = lead.rows
    return prepare(e), recording, lead


def equal(got: Worlds, want: Worlds, tolerance: float = 1e-10) -> None:
    assert got.keys() == want.keys()
    for key, world in want.items():
        one_equal(got[key], world, tolerance)


def one_equal(got: Outcome, want: Outcome, tolerance: float = 1e-10) -> None:
    same(got.tensors, want.tensors, tolerance)
    close(got.metrics, want.metrics, tolerance)
    close(got.exchanges, want.exchanges, tolerance)


@pytest.fixture(scope="module")
def every(two: Group, tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    plan, recording, _ = shared(two, EVERY, tmp_path_factory.mktemp("every"))
    return outcome(plan, recording)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    return once(tmp_path_factory, "every method", EVERY)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_every_method_in_two_processes_as_in_one(method: str, every: Worlds, alone: Worlds) -> None:
    one_equal(every[method, 0], alone[method, 0])


def test_rounded_messages_and_attackers(two: Group, tmp_path: Path) -> None:
    attack = {"name": "sign_flip", "share": 0.4}
    methods = {name: EVERY_METHOD[name] for name in ("KD-PDFL", "CoBo", "DFML")}
    e = hard(methods=methods, attack=attack, exchange__precision="int8", train__iterations=14)
    plan, recording, _ = shared(two, e, tmp_path / "two")
    equal(outcome(plan, recording), finished(prepare(e), tmp_path / "one"))


def test_several_architectures(two: Group, tmp_path: Path) -> None:
    models = [{"name": "mlp", "hidden": [6]}, {"name": "mlp", "hidden": [4, 6]}]
    methods = {name: EVERY_METHOD[name] for name in ("KD-PDFL", "CoBo", "DFML")}
    e = experiment(methods=methods, model=models, data__clients=7, exchange__stars=3, train__iterations=14)
    plan, recording, _ = shared(two, e, tmp_path / "two", options={"most_models": 1 << 30})
    want = tmp_path / "one"
    equal(outcome(plan, recording), finished(prepare(e), want, most_models=1 << 30))
    models_are_the_same(tmp_path / "two", want)


def test_an_architecture_that_a_process_has_no_client_of(two: Group, four: Group, tmp_path: Path) -> None:
    """Of seven clients one has the deep model, two the wide one; a checkpoint of four goes on with two."""
    models = [
        {"name": "mlp", "hidden": [6]},
        {"name": "mlp", "hidden": [4, 6], "clients": [3]},
        {"name": "mlp", "hidden": [8], "clients": [0, 5]},
    ]
    methods = {name: EVERY_METHOD[name] for name in ("KD-PDFL", "FD", "CoBo", "DFML", "PENS", "Ditto")}
    e = experiment(
        methods=methods, model=models, data__clients=7, exchange__stars=3, train__iterations=14,
        train__init="independent", seeds=[0, 1],
    )  # fmt: skip
    want = finished(prepare(e), tmp_path / "one", most_models=1 << 30)
    plan, recording, _ = shared(two, e, tmp_path / "two", options={"most_models": 1 << 30})
    equal(outcome(plan, recording), want)
    models_are_the_same(tmp_path / "two", tmp_path / "one")
    _, recording, found = shared(four, e, tmp_path / "both", stop=4)
    assert not found.finished
    plan, recording, _ = shared(two, e, tmp_path / "both", resume=recording.rows)
    equal(outcome(plan, recording), want)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_shares_differ_by_one_at_most(ranks: int) -> None:
    """Of each architecture, and of all clients; those of one rank follow those of the rank before it."""
    for sizes in ([7], [1, 1, 1, 2], [2, 5, 1], [3, 3, 4, 1, 1]):
        architecture = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        cast = Cast((), architecture, 0, ranks)
        shares = [[cast.clients(place, rank) for rank in range(ranks)] for place in range(len(sizes))]
        for place, share in enumerate(shares):
            assert torch.equal(torch.cat(share), cast.everybody(place))
            assert max(map(len, share)) - min(map(len, share)) <= 1
            assert max(map(len, share)) == cast.most(place)
        every = [sum(len(share[rank]) for share in shares) for rank in range(ranks)]
        assert max(every) - min(every) <= 1


def models_are_the_same(got: Path, want: Path) -> None:
    read = [saved.load(final_models.path(f, 0), final_models.FORMAT) for f in (got, want)]
    assert read[0].facts == read[1].facts
    same(read[0].tensors, read[1].tensors, 1e-10)


def test_unequal_shares_in_four_processes_in_float32(four: Group, tmp_path: Path) -> None:
    """Share ten clients: two ranks have three each. Of a float32's seven digits the last ones differ."""
    e = hard(methods=["Local", "KD-PDFL"], data__clients=10, dtype="float32", train__iterations=14)
    plan, recording, _ = shared(four, e, tmp_path / "four")
    equal(outcome(plan, recording), finished(prepare(e), tmp_path / "one"), 1e-4)


def test_a_checkpoint_of_one_number_goes_on_with_another(two: Group, four: Group, tmp_path: Path) -> None:
    """Stopped by its second process, then with four, one and two."""
    e = hard(methods=["KD-PDFL", "Ditto"], data__clients=5)
    want = finished(prepare(e), tmp_path / "one")
    folder = tmp_path / "many"
    _, recording, found = shared(two, e, folder, stop=3, stopper=1)
    assert not found.finished
    _, recording, found = shared(four, e, folder, stop=4, resume=recording.rows)
    assert not found.finished
    stops = iter([False, False, True])
    assert not simulate(prepare(e), recording, resume=True, stop=lambda: next(stops))
    plan, recording, found = shared(two, e, folder, resume=recording.rows)
    assert found.finished
    equal(outcome(plan, recording), want)


def test_a_client_that_diverges_is_left_out_everywhere(two: Group, tmp_path: Path) -> None:
    overflow = {"data.set": "tests.engine.nets:three_clients", "model": {"name": "tests.engine.nets:plain"}}
    e = experiment(
        **overflow, methods=["FedAvg"], data__clients=3, data__sizes="all", dtype="float32",
        train__optimizer={"name": "sgd", "momentum": 0.9}, exchange__stars=2,
    )  # fmt: skip
    plan, recording, found = shared(two, e, tmp_path / "two")
    (notice,) = found.notices
    assert notice.startswith("FedAvg, seed 0: client 1 diverged at iteration 2")
    assert recording.rows["metrics"][-1]["diverged"] == [1]
    equal(outcome(plan, recording), finished(prepare(e), tmp_path / "one"), 1e-5)


def test_a_watcher_ends_the_run_in_all(two: Group, tmp_path: Path) -> None:
    e = hard(methods=["FedAvg"])
    _, recording, found = shared(two, e, tmp_path, enough=10)
    assert found.finished
    last = recording.rows["metrics"][-1]
    assert last["t"] in (10, 11)
    assert "correct" in last


def test_what_a_watcher_raises_stops_all_of_them_saved(two: Group, tmp_path: Path) -> None:
    e = hard(methods=["KD-PDFL"])
    _, recording, found = shared(two, e, tmp_path / "two", raises=10)
    assert (found.finished, found.raised) == (False, "at 10")
    plan, recording, found = shared(two, e, tmp_path / "two", resume=recording.rows)
    equal(outcome(plan, recording), finished(prepare(e), tmp_path / "one"))


@pytest.mark.parametrize("most", [1, 48, 1 << 20])
def test_rows_are_gathered_and_dealt_in_pieces(two: Group, most: int) -> None:
    """Of two worlds, of 5 and 2 clients, whose rows have 16 bytes; of the second the first rank has none."""
    (pieces, same_at_lead), (nothing, same_there) = two.call(
        "tests.engine.distributed.cases:in_pieces", [[3, 0], [2, 2]], most
    )
    want = [[n, -n] for n in (0, 1, 2, 10, 11, 110, 111)]
    step = max(1, most // 16)
    assert pieces == [want[at : at + step] for at in range(0, 7, step)]
    assert (nothing, same_at_lead, same_there) == ([], True, True)


def test_a_process_that_differs_is_named(two: Group) -> None:
    for error in two.call("tests.engine.distributed.cases:versions", each=["2.8", "2.9"]):
        assert str(error) == "rank 1 has torch 2.9, but rank 0 has 2.8; install the same versions everywhere"


def test_other_data_are_refused(two: Group, tmp_path: Path) -> None:
    plain = [experiment(data__test=n, data__clients=4).plain() for n in (10, 11)]
    for error in two.call(SIMULATED, each=[Asked(one, tmp_path) for one in plain]):
        assert str(error).startswith("rank 1 has samples with the fingerprint ")
        assert str(error).endswith("give all ranks the same data folder, with --data")


def test_fewer_clients_than_processes(four: Group, tmp_path: Path) -> None:
    for error in four.call(SIMULATED, Asked(experiment(data__clients=3).plain(), tmp_path)):
        assert str(error) == (
            "3 clients cannot be dealt to 4 devices, each of which needs one; use --devices 3, or a larger "
            "data.clients"
        )
