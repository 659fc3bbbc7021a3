"""Owners' names out of a run folder, which may be anybody's: clients are found and exported by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from coterie import Run, run
from coterie.core.errors import ModelError, RunError, UnknownNameError
from coterie.experiment import Experiment
from coterie.runs.gains import accounts
from coterie.runs.owners import called, numbered
from coterie.storage.model_file import FORMAT, NAMED, load
from tests.runs import run_fixture
from tests.runs.sampled_fixture import small_and_large

ANN, BOB = "Ann", "[red]Bob\x1b[2J"


def named(folder: Path, owners: list[Any]) -> Run:
    clients = [{**one, "owner": owners} for one in run_fixture.CLIENTS]
    return run_fixture.make(folder, clients=clients)


def test_per_client_has_a_column_for_them(tmp_path: Path) -> None:
    found = named(tmp_path / "run", [ANN, BOB, "Cy", "Cy"])
    clients = found.per_client()
    assert list(clients)[3:6] == ["client", "owner", "group"]
    assert clients.query("owner == 'Ann'").client.unique().tolist() == [0]
    assert set(clients.owner) == {ANN, "[red]Bob�[2J", "Cy"}  # nothing that steers a terminal
    assert "owner" not in run_fixture.make(tmp_path / "other").per_client()


def test_a_client_is_found_by_number_or_owner(tmp_path: Path) -> None:
    world = named(tmp_path / "run", [ANN, BOB, "Cy", "Cy"]).tracks[0]
    assert [numbered(world, given, "run") for given in (2, "2", " 3 ", "Ann", "ann ", BOB)] == [
        2,
        2,
        3,
        0,
        0,
        1,
    ]
    assert numbered(world, "-1", "run") == -1  # which the roster refuses
    assert called(world, 0) == "client 0 (Ann)"
    assert called(world, 0, "mlp") == "client 0 (Ann, mlp)"
    with pytest.raises(UnknownNameError, match=r"unknown owner 'Anne' of run; known: .*Did you mean 'Ann'\?"):
        numbered(world, "Anne", "run")
    with pytest.raises(RunError, match="run: 'Cy' owns 2 clients, 2, 3; name one by its number"):
        numbered(world, "Cy", "run")


def test_the_same_letters_come_before_the_same_but_for_their_size(tmp_path: Path) -> None:
    world = named(tmp_path / "run", ["ann", "Ann", "ANN", "Bo"]).tracks[0]
    assert [numbered(world, given, "run") for given in ("ann", "Ann", "bo")] == [0, 1, 3]
    with pytest.raises(RunError, match="'aNN' owns 3 clients, 0, 1, 2"):
        numbered(world, "aNN", "run")


def test_what_is_a_number_is_no_name(tmp_path: Path) -> None:
    world = named(tmp_path / "run", ["3", "101", "5", "7"]).tracks[0]
    assert numbered(world, "3", "run") == 3
    with pytest.raises(RunError, match=r"no client 101; there are 0 to 3, and client 1 .* is called 101"):
        numbered(world, 101, "run")


def test_without_names_a_number_is_expected(tmp_path: Path) -> None:
    world = run_fixture.make(tmp_path / "run").tracks[0]
    assert called(world, 2) == "client 2"
    for given in ("Ann", "", "1.5", "9" * 5000):
        with pytest.raises(
            RunError, match=r"expected the number of a client, from 0 to 3, got .*name no owners"
        ):
            numbered(world, given, "run")


def test_of_a_sample_each_has_the_own_name(tmp_path: Path) -> None:
    small_and_large(tmp_path)
    file = tmp_path / "some" / "clients.json"
    clients = json.loads(file.read_text())
    for one in clients:
        one["owner"] = [f"owner of {k}" for k in one["sample"]]
    file.write_text(json.dumps(clients))
    world = Run(tmp_path / "some").tracks[0]
    number = int(world.roster.numbers[1])
    assert called(world, 1) == f"client {number} (owner of {number})"
    assert numbered(world, f"owner of {number}", "run") == number


def test_names_that_do_not_fit_are_damage(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="owner has 2 names for 4 clients"):
        _ = named(tmp_path / "run", ["a", "b"]).tracks


def test_accounts_say_whose_samples_they_are_about(tmp_path: Path) -> None:
    found = named(tmp_path / "run", [ANN, BOB, "Cy", "Dee"])
    (account,) = accounts(found, "cy")
    assert (account.client, account.owner) == (2, "Cy")
    assert account.text.startswith("Client 2 (Cy) gained 20.0 points by joining")
    assert account.plain() == accounts(found, 2)[0].plain()
    assert accounts(run_fixture.make(tmp_path / "other"), 2)[0].owner is None


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Run:
    e = Experiment(
        methods=["Local", "FedAvg"], seeds=1, data={"set": "heart", "clients": 4}, train={"iterations": 4},
        model=[{"name": "linear", "owners": ["Hungary"]}, {"name": "mlp", "hidden": [3]}],
        exchange={"every": 3},
    )  # fmt: skip
    return run(e, tmp_path_factory.mktemp("runs") / "hospitals", plots=False)


def test_a_model_goes_out_by_owner_with_the_name_on_its_card(hospitals: Run, tmp_path: Path) -> None:
    card = hospitals.export("FedAvg", "hungary", tmp_path / "one.safetensors")
    assert (card.client, card.owner, card.architecture) == ("1", "Hungary", "linear")
    assert load(tmp_path / "one.safetensors")[0] == card
    assert hospitals.model("FedAvg", 0, "Long Beach").card.client == "3"
    with safe_open(tmp_path / "one.safetensors", framework="pt") as file:
        assert file.metadata()["format"] == NAMED != FORMAT
    with pytest.raises(UnknownNameError, match="Did you mean 'Hungary'"):
        hospitals.model("FedAvg", 0, "Hungry")


def test_a_card_of_somebody_else_cannot_steer_a_terminal(hospitals: Run) -> None:
    card = hospitals.model("Local", 0, 0).card
    assert (
        type(card).parse({**card.plain(), "owner": "a\x1b[2J" + "b" * 99}, "it").owner == f"a�[2J{'b' * 54}…"
    )
    with pytest.raises(ModelError, match="owner"):
        type(card).parse({**card.plain(), "owner": 7}, "it")
