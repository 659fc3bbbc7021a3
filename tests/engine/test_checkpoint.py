"""A checkpoint comes back to the bit, is never half there, and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from coterie.core.errors import CheckpointError, RunError
from coterie.engine.checkpoint import FORMAT, Checkpoint, load, save
from coterie.storage import tensors as saved
from tests.disk import full_after
from tests.engine.small import experiment, hard, simulator
from tests.trees import clone, same

TENSORS = {
    "params/x": torch.tensor([[1.0, torch.nan], [-0.0, 1e-320]], dtype=torch.float64),
    "params/turned": torch.arange(6.0).view(2, 3).T,
    "steps": torch.tensor([3, -4]),
    "buffers/n": torch.tensor(5),
    "optim/none": torch.zeros(0, 2),
}
TENSORS["memory/0/again"] = TENSORS["params/x"]  # one tensor under two names
MOMENT = Checkpoint("feed", "beef", 1, 17, {"metrics": 120, "exchanges": 0}, TENSORS)


def test_it_comes_back_to_the_bit(tmp_path: Path) -> None:
    save(tmp_path / "c.safetensors", MOMENT)
    found = load(tmp_path / "c.safetensors", "feed", "beef")
    assert found[:4] == MOMENT[:4]
    same(found.tensors, TENSORS)
    assert found.tensors["params/x"][1, 0].signbit()
    assert [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]


@pytest.mark.parametrize("there_before", [True, False])
@pytest.mark.parametrize("room", [0, 100, 600])
def test_a_full_disk_costs_only_the_new_one(tmp_path: Path, there_before: bool, room: int) -> None:
    file = tmp_path / "c.safetensors"
    if there_before:
        save(file, MOMENT)

    with (
        full_after(room),
        pytest.raises(RunError, match=r"File too large.*make room and continue with --resume"),
    ):
        save(file, MOMENT._replace(t=18))
    assert [p.name for p in tmp_path.iterdir()] == (["c.safetensors"] if there_before else [])
    if there_before:
        assert load(file, "feed", "beef").t == 17


def test_what_is_written_in_pieces_is_what_is_written_at_once(tmp_path: Path) -> None:
    """Rows come one by one, tensors in the order of their names; a file that lacks some is not written."""
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    save(whole, MOMENT)
    asked: list[str] = []

    def read(name: str, rows: int) -> Iterator[torch.Tensor]:
        asked.append(name)
        return iter(TENSORS[name][:rows, None].unbind() if TENSORS[name].dim() else [TENSORS[name][None]])

    def parts(rows: int) -> dict[str, saved.Pieces]:
        return {k: saved.Pieces(v.dtype, v.shape, partial(read, k, rows)) for k, v in TENSORS.items()}

    save(pieces, MOMENT, parts(9))
    assert pieces.read_bytes() == whole.read_bytes()
    assert asked == sorted(TENSORS)
    with pytest.raises(ValueError, match="'memory/0/again' are not as large"):
        save(pieces, MOMENT, parts(1))
    with safe_open(pieces, framework="pt") as file:
        same({k: file.get_tensor(k) for k in file.keys()}, TENSORS)  # noqa: SIM118


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write the checkpoint"):
        save(tmp_path / "nowhere" / "c.safetensors", MOMENT)


@pytest.mark.parametrize("part", [0, 4, 8, 60, 0.5, 0.99])
def test_cut_short(tmp_path: Path, part: float) -> None:
    file = tmp_path / "c.safetensors"
    save(file, MOMENT)
    whole = file.read_bytes()
    file.write_bytes(whole[: part if isinstance(part, int) else int(part * len(whole))])
    with pytest.raises(CheckpointError, match=r"damaged or cut short .*; delete it to start this part"):
        load(file, "feed", "beef")


@pytest.mark.parametrize(
    "meta",
    [
        {"format": FORMAT},
        {"format": FORMAT, "facts": "{"},
    ],
)
def test_no_facts_at_all(tmp_path: Path, meta: dict[str, str]) -> None:
    save_file({"steps": torch.zeros(1)}, tmp_path / "c.safetensors", meta)
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        load(tmp_path / "c.safetensors", "feed", "beef")


@pytest.mark.parametrize(
    "facts",
    [[], {"fingerprint": "feed"}, {**MOMENT._replace(tensors={})._asdict(), "more": 1}],
)
def test_facts_that_are_none(tmp_path: Path, facts: Any) -> None:
    saved.save(tmp_path / "c.safetensors", FORMAT, facts, {"steps": torch.zeros(1)})
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        load(tmp_path / "c.safetensors", "feed", "beef")


def test_any_flipped_bit_is_found(tmp_path: Path) -> None:
    file = tmp_path / "c.safetensors"
    save(file, MOMENT)
    whole = file.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for at in range(len(whole)):
        for bit in range(8) if at >= header else (0, 5):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            file.write_bytes(flipped)
            with pytest.raises(CheckpointError, match=r"c\.safetensors (is damaged or cut|is not a coterie)"):
                load(file, "feed", "beef")


@pytest.mark.parametrize("meta", [None, {"format": "coterie-checkpoint-1"}])
def test_of_another_format(tmp_path: Path, meta: dict[str, str] | None) -> None:
    save_file({"steps": torch.zeros(1)}, tmp_path / "c.safetensors", meta)
    with pytest.raises(
        CheckpointError, match=f"not a coterie checkpoint of this version: expected '{FORMAT}'"
    ):
        load(tmp_path / "c.safetensors", "feed", "beef")


def test_of_another_experiment(tmp_path: Path) -> None:
    save(tmp_path / "c.safetensors", MOMENT)
    with pytest.raises(CheckpointError, match=r"another experiment: expected dead, got feed; resume with"):
        load(tmp_path / "c.safetensors", "dead", "beef")


def test_other_data_are_noticed(tmp_path: Path) -> None:
    save(tmp_path / "c.safetensors", MOMENT)
    with pytest.raises(CheckpointError, match="the samples in the data folder have changed since"):
        load(tmp_path / "c.safetensors", "feed", "cafe")


def test_a_simulator_goes_on_from_its_tensors() -> None:
    one, other = simulator(hard()), simulator(hard())
    while one.t < 9:
        one.step_to_next_event()
    other.restore(Checkpoint("", "", 0, one.t, {}, clone(one.tensors())))
    for s in (one, other):
        while s.t < s.stack.iterations:
            s.step_to_next_event()
    same(other.tensors(), one.tensors())


def test_tensors_of_another_model_are_refused() -> None:
    small, large = simulator(experiment()), simulator(experiment(model__norm="layer"))
    with pytest.raises(CheckpointError, match=r"does not fit this experiment: .*2\.bias"):
        small.restore(Checkpoint("", "", 0, 3, {}, large.tensors()))


def test_a_large_population_begun_by_another_version_is_refused(tmp_path: Path) -> None:
    """Leave checkpoints unmarked where every link is drawn, at any size or in an earlier version."""
    file = tmp_path / "c.safetensors"
    for large in (False, True):
        save(file, MOMENT._replace(large=large))
        assert load(file, "feed", "beef", large).large is large
        with pytest.raises(
            CheckpointError, match=r"draws exchanges in another way; resume with that version"
        ):
            load(file, "feed", "beef", not large)
    save(file, MOMENT)
    assert "large" not in saved.load(file, FORMAT)[1]  # as before: an older version reads it
