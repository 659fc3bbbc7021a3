"""Names of owners go with what is dealt to clients, in order, and nowhere where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from coterie.core.data import Dataset, Samples
from coterie.core.errors import ConfigError, DataError
from coterie.core.own.own_data import read_dataset
from coterie.core.registry import build
from coterie.engine.plan import prepare
from coterie.engine.runner import described
from coterie.experiment import Experiment
from coterie.federation import Dealer, architectures
from coterie.federation.validation import validate_dataset

X, Y = torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
OWNER = torch.tensor([0, 0, 1, 1, 2, 2])
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "Long Beach")


def hospitals(**changes: Any) -> Experiment:
    return Experiment(
        methods=["Local"], seeds=1, data={"set": "heart", "clients": 4}, train={"iterations": 10}
    ).replace(**changes)


def test_clients_have_the_names_of_their_owners() -> None:
    (world,) = hospitals().worlds()
    federation = Dealer(None).of(world)
    assert federation.owners == HOSPITALS
    assert federation.of(torch.tensor([3, 1])).owners == ("Long Beach", "Hungary")
    assert described([world], [federation])[1][0]["owner"] == list(HOSPITALS)


def test_without_owners_nothing_is_said() -> None:
    world = Experiment(data={"clients": 3}).worlds()[0]
    federation = Dealer(None).of(world)
    assert federation.owners == federation.of(torch.tensor([1])).owners == ()
    assert "owner" not in described([world], [federation])[1][0]


def test_an_owner_whose_samples_are_dealt_is_that_of_several_clients(tmp_path: Path) -> None:
    y = torch.arange(120) % 2
    np.savez(
        tmp_path / "two.npz", x=np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32), y=y,
        group=np.arange(120) // 60, owners=np.array(["Ann", "Bob"]),
    )  # fmt: skip
    data = {"set": {"name": "npz", "path": str(tmp_path / "two.npz")}, "clients": 5, "sizes": (5, 10)}
    found = Dealer(None).of(Experiment(data=data).worlds()[0])
    assert found.owners == ("Ann", "Ann", "Ann", "Bob", "Bob")
    assert found.group.tolist() == [0, 0, 0, 1, 1]


def test_the_sample_of_a_large_population_has_its_own_names(tmp_path: Path) -> None:
    clients = 2100
    rows = [f"{k},{k % 2},u{k // 8:04}" for k in range(8 * clients)]
    (tmp_path / "many.csv").write_text("\n".join(["a,label,who", *rows]))
    source = {"name": "csv", "path": str(tmp_path / "many.csv"), "label": "label", "owner": "who"}
    (world,) = Experiment(methods=["Local"], seeds=1, data={"set": source, "clients": clients}).worlds()
    (entry,) = described([world], [Dealer(None).of(world)])[1]
    assert len(entry["sample"]) == len(entry["owner"]) == 1000
    assert entry["owner"] == [f"u{k:04}" for k in entry["sample"]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Dataset(Samples(X, Y), None, (), owners=("a",)), "owners are named, but no sample says whose it is"),
        (Dataset(Samples(X, Y, owner=OWNER), None, (), owners=("a", "b")), "each of 3 owners, got 2 names"),
        (Dataset(Samples(X, Y, OWNER), None, (), owners=("a",) * 4), "each of 3 groups, got 4 names"),
    ],
)
def test_names_that_do_not_fit(data: Dataset, message: str) -> None:
    with pytest.raises(DataError, match=message):
        validate_dataset(data, "mine")


def test_names_are_written_safely_where_data_are_checked() -> None:
    data = Dataset(Samples(X, Y, owner=OWNER), None, (), owners=("\x1b[2Ja", "=b\n", "c" * 99))
    assert validate_dataset(data, "mine").owners == ("�[2Ja", "=b", "c" * 59 + "…")


def test_data_of_ones_own_in_python() -> None:
    frame = pd.DataFrame(
        {"a": range(6), "kind": list("xyxyxy"), "who": ["Zoe", "Zoe", "Ann", "Ann", "Ed", "Ed"]}
    )
    found = read_dataset(frame, "data", label="kind", owner="who")
    assert found.owners == ("Ann", "Ed", "Zoe")
    assert found.train.owner is not None
    assert found.train.owner.tolist() == [2, 2, 0, 0, 1, 1]
    assert read_dataset((X, Y), "data", owner=[20, 20, 7, 7, 7, 20]).owners == ("7", "20")
    assert read_dataset((X, Y), "data", indices={"Bo": [0, 1], "Al": [2, 3, 4]}).owners == ("Bo", "Al")
    assert read_dataset((X, Y), "data", indices=[[0, 1], [2, 3]]).owners == ()
    assert read_dataset((X, Y), "data").owners == ()


def test_files(tmp_path: Path) -> None:
    def owners(name: str, **options: Any) -> tuple[str, ...]:
        loaded: Dataset = build("dataset", name, options, "data.set").load(tmp_path)
        return validate_dataset(loaded, name).owners

    (tmp_path / "t.csv").write_text("a,kind,who\n1,x,20\n2,y,20\n3,x,3\n4,y,3\n")
    assert owners("csv", path="t.csv", label="kind", owner="who") == ("3", "20")  # as their numbers go
    assert owners("csv", path="t.csv", label="kind", drop=["who"]) == ()
    np.savez(tmp_path / "t.npz", x=X, y=Y, owner=OWNER)
    assert owners("npz", path="t.npz") == ()
    inner = {"name": "npz", "path": "t.npz"}
    for lists, names in (
        ({"ann": [0, 1], "bob": [2, 3]}, ("ann", "bob")),
        ({"12": [0], "7": [2, 3]}, ("7", "12")),
        ([[0, 1], [2]], ()),
        ({"ann": {"train": [0], "test": [1]}}, ("ann",)),
    ):
        (tmp_path / "lists.json").write_text(json.dumps(lists))
        assert owners("indices", path="lists.json", set=inner) == names


def test_people_of_one_sex_and_part_of_the_ages_are_called_by_them() -> None:
    found = build("dataset", "diabetes", {"ages": 2}, "data.set").load(None)
    assert found.owners == (
        "sex 1, age 19 to 48",
        "sex 1, age 48 to 75",
        "sex 2, age 20 to 53",
        "sex 2, age 53 to 79",
    )


def test_a_folder_of_texts_has_the_names_of_its_files(tmp_path: Path) -> None:
    for name in ("Mary", "ann b"):
        (tmp_path / f"{name}.txt").write_text("abcabcabcabc")
    found = build("dataset", "text_folder", {"path": ".", "length": 3}, "data.set").load(tmp_path)
    assert found.owners == ("Mary", "ann b")


TWO = [{"name": "linear", "owners": ["Hungary", "Long Beach"]}, {"name": "mlp"}]


def test_models_are_dealt_by_owner() -> None:
    e = hospitals(model=TWO)
    (world,) = e.worlds()
    assert architectures(world, Dealer(None).of(world)).tolist() == [1, 0, 1, 0]
    assert Experiment.parse(e.plain()).model == e.model
    assert e.deals_by_owner
    assert not hospitals(model=["linear", "mlp"]).deals_by_owner


def test_owners_who_are_called_by_numbers(tmp_path: Path) -> None:
    rows = [f"{k},{k % 2},{101 + k // 20}" for k in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["a,kind,who", *rows]))
    source = {"name": "csv", "path": str(tmp_path / "t.csv"), "label": "kind", "owner": "who"}
    (world,) = hospitals(data__set=source, model=[{"name": "linear", "owners": [102, "104"]}, "mlp"]).worlds()
    assert architectures(world, Dealer(None).of(world)).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            [{"name": "linear", "owners": ["Hungry"]}, "mlp"],
            "'linear' goes to an unknown owner 'Hungry'; known: Cleveland, Hungary, Long Beach, Switzerland. "
            r"Did you mean 'Hungary'\?",
        ),
        ([{"name": "linear", "owners": ["Hungary"], "share": 0.5}], "has a share and clients of its own"),
        ([{"name": "linear", "owners": ["Hungary"], "clients": [1]}], "has both clients and owners"),
        ([{"name": "linear", "owners": ["Hungary"], "groups": [1]}], "has both groups and owners"),
        (
            [{"name": "linear", "owners": [1.5]}, "mlp"],
            r"model\.0\.owners\.0: input should be text, got 1\.5",
        ),
        ([{"name": "linear", "owners": ["Hungary"]}], r"nobody deals a model to client 0 \(Cleveland\)"),
        (
            [{"name": "linear", "owners": ["Hungary"]}, {"name": "mlp", "clients": [1]}, "mlp"],
            r"client 1 \(Hungary\) has a model already",
        ),
    ],
)
def test_mistakes_in_models_by_owner(model: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(hospitals(model=model))


def test_models_by_owner_where_nobody_has_a_name() -> None:
    model = [{"name": "linear", "owners": ["Ann"]}, "mlp"]
    with pytest.raises(ConfigError, match=r"'linear' goes to owners, but the data name none; .*`clients`"):
        prepare(hospitals(model=model, data__set="digits"))


def test_a_checkpoint_is_of_the_names_that_dealt_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashes() -> list[str]:
        return [prepare(hospitals(model=model)).data_hash() for model in ("mlp", TWO)]

    before = hashes()
    swapped = ("Hungary", "Cleveland", "Long Beach", "Switzerland")
    monkeypatch.setattr("coterie.plugins.datasets.heart._PLACES", swapped)
    after = hashes()
    assert before[0] == after[0]  # as ever, where names decide nothing
    assert before[1] != after[1]
