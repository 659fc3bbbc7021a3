"""A peer of its own, with data of its own: what it is told when they are too few, and whom it trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.core.errors import DataError
from coterie.peer.settings import Settings


def own(rows: int, folder: Path, **more: Any) -> Settings:
    """With so many samples."""
    lines = (f"{i},{2 * i},{'xy'[i % 2]}" for i in range(rows))
    (folder / "ward.csv").write_text("\n".join(["a,b,label", *lines]))
    source = {"name": "csv", "path": "ward.csv", "label": "label", "classes": ["x", "y"]}
    return Settings.parse({"address": "10.0.0.1:7440", "data": {"set": source}, **more})


def test_too_few_samples_are_told_of_the_peers_own_data(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"this peer's own data only 1 samples are left .*min_partition_size = 2; give it more",
    ) as caught:
        own(4, tmp_path).federation(tmp_path)
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
    assert Settings.parse(settings.plain()).world().algorithm.adoption == adoption
