"""A peer of its own, with data of its own: what it is told when they are too few, and whom it trusts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import DataError, RunError
from coterie.peer.config import PeerConfig
from coterie.peer.errors import PeerError
from coterie.peer.learning.inputs import Inputs
from coterie.peer.persistence.checkpoint import read
from coterie.replay import replay
from tests.peer.in_memory import InMemoryNetwork
from tests.peer.node_factory import Peer
from tests.waiting import eventually


def own(rows: int, folder: Path, labels: str = "xy", **more: Any) -> PeerConfig:
    """With so many samples of these labels in turn."""
    lines = (f"{i},{2 * i},{labels[i % len(labels)]}" for i in range(rows))
    (folder / "ward.csv").write_text("\n".join(["a,b,label", *lines]))
    source = {"name": "csv", "path": "ward.csv", "label": "label", "classes": ["x", "y"]}
    return PeerConfig.parse({"address": "10.0.0.1:7440", "data": {"set": source}, **more})


def test_too_few_samples_are_told_of_the_peers_own_data(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"this peer's own data only 1 samples are left .*min_partition_size = 2; give it more",
    ) as caught:
        own(2, tmp_path, "x").federation(tmp_path)
    assert "clients" not in str(caught.value)
    assert int(own(9, tmp_path).federation(tmp_path).train.count[0]) >= 2


@pytest.mark.parametrize(
    ("more", "adoption"),
    [
        ({}, "mix"),
        ({"method": "KD-PDFL"}, "mix"),
        ({"method": {"name": "FedAvg"}}, "mix"),
        ({"method": {"name": "KD-PDFL", "adoption": "replace"}}, "replace"),
        ({"client": 1, "method": "KD-PDFL"}, "replace"),  # of an experiment: as in the simulator
    ],
)
def test_nobody_overwrites_its_model_unless_its_owner_says_so(
    tmp_path: Path, more: dict[str, Any], adoption: str
) -> None:
    settings = own(9, tmp_path, **more)
    assert settings.world().algorithm.adoption == adoption
    assert PeerConfig.parse(settings.plain()).world().algorithm.adoption == adoption


ADDRESS = {"address": "10.0.0.1:7440"}
SCALED = {"name": "csv", "path": "ward.csv", "label": "label", "transform": "standard"}


def table(folder: Path, rows: int, columns: str = "a,b,label") -> None:
    """A file whose later rows are far away from the first."""
    lines = (f"{i + 50 * (i // 40)},{(7 * i) % 11},{'xy'[i % 2]}" for i in range(rows))
    (folder / "ward.csv").write_text("\n".join([columns, *lines]))


def peer(folder: Path, **source: Any) -> Peer:
    """One that has nobody to talk to, and learns for forty iterations."""
    home = {"state": str(folder / "state"), "peers": {"p1": "127.0.0.1:7001"}}
    values = {
        **home,
        "address": "127.0.0.1:7000",
        "data": {"set": {**SCALED, **source}},
        "model": {"name": "mlp", "hidden": [5]},
        "train": {"iterations": 40, "batch": 4},
    }
    return Peer(InMemoryNetwork(), PeerConfig.parse(values), name="p0")


async def lived(one: Peer) -> Inputs:
    """What it keeps about its inputs once it has learnt."""
    async with one.running() as node:
        await eventually(lambda: node.trainer.finished)
    return one.node.client.own.inputs


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = read(folder / "state" / "model.safetensors")[0]["inputs"]
    return found


def test_rows_that_are_added_do_not_rescale_a_trained_model(tmp_path: Path) -> None:
    table(tmp_path, 40)
    first = asyncio.run(lived(peer(tmp_path)))
    assert first.scaling is not None
    kept = facts(tmp_path)
    assert kept == {
        "columns": ["a", "b"],
        "classes": ["x", "y"],
        "transform": "standard",
        "mean": first.scaling.mean.tolist(),
        "deviation": first.scaling.deviation.tolist(),
    }
    table(tmp_path, 80)
    again = asyncio.run(lived(peer(tmp_path)))
    assert again.plain() == kept == facts(tmp_path)
    with pytest.raises(
        RunError, match=r"in life 1 p0 had \d+ samples to train on, but the data have \d+ now"
    ):
        replay([tmp_path])
    for file in (tmp_path / "state").glob("model*.safetensors"):
        file.unlink()  # begins anew, and so does its scaling
    fresh = asyncio.run(lived(peer(tmp_path)))
    assert fresh.scaling is not None
    assert fresh.scaling.mean[0] > first.scaling.mean[0] + 10


@pytest.mark.parametrize(
    ("columns", "source", "told"),
    [
        ("b,a,label", {}, "the columns a, b, but the data now have b, a; bring the former ones back"),
        ("a,b,label", {"transform": "none"}, "the transform standard, but the data now have none"),
        (
            "a,b,label",
            {"transform": "signed_log1p"},
            "the transform standard, but the data now have signed_log1p",
        ),
        ("a,b,label", {"classes": ["y", "x"]}, "the classes x, y, but the data now have y, x"),
    ],
)
def test_data_that_mean_something_else_are_refused(
    tmp_path: Path, columns: str, source: dict[str, Any], told: str
) -> None:
    table(tmp_path, 40)
    asyncio.run(lived(peer(tmp_path)))
    table(tmp_path, 40, columns)
    with pytest.raises(PeerError, match=f"was trained with {told}"):
        peer(tmp_path, **source)


def parts(folder: Path, rows: list[str]) -> dict[str, bool]:
    """Which lines of a file are for testing."""
    (folder / "ward.csv").write_text("\n".join(["a,b,label", *rows]))
    settings = PeerConfig.parse(
        {"address": "10.0.0.1:7440", "data": {"set": {**SCALED, "transform": "none"}}}
    )
    federation = settings.federation(folder)
    held = {*federation.train.index.tolist(), *federation.validation.index.tolist()}
    return {line: i not in held for i, line in enumerate(rows)}


def test_a_row_stays_in_its_part_whatever_is_added_removed_or_moved(tmp_path: Path) -> None:
    rows = [f"{i},{3 * i},{'xy'[i % 2]}" for i in range(200)]
    before = parts(tmp_path, rows[:100])
    assert 20 <= sum(before.values()) <= 40
    after = parts(tmp_path, rows[::-1])
    assert {line: after[line] for line in before} == before
    fewer = parts(tmp_path, rows[20:])
    assert fewer == {line: after[line] for line in fewer}


def test_rows_that_are_equal_are_in_both_parts(tmp_path: Path) -> None:
    (tmp_path / "ward.csv").write_text("\n".join(["a,b,label", *["1,2,x", "3,4,y"] * 50]))
    settings = PeerConfig.parse(
        {"address": "10.0.0.1:7440", "data": {"set": {**SCALED, "transform": "none"}}}
    )
    federation = settings.federation(tmp_path)
    assert 60 <= int(federation.train.count[0] + federation.validation.count[0]) <= 80
