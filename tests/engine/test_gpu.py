"""The whole engine on a graphics card: the processor's results, the same bits each time, memory that ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from coterie.engine.distributed.joined import Together
from coterie.engine.distributed.wire import Wire
from coterie.engine.plan import prepare
from coterie.experiment import Experiment
from tests.engine.recording import Watcher
from tests.engine.small import EVERY_METHOD, Outcome, experiment, finished, hard
from tests.trees import same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def run(e: Experiment, folder: Path, **options: Any) -> dict[tuple[str, int], Outcome]:
    return finished(prepare(e), folder, **options)


@pytest.mark.parametrize("compiling", ["off", "on"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_what_the_processor_computes(tmp_path: Path, dropout: float, compiling: str) -> None:
    """With known layers (no dropout) and with others."""
    changes: dict[str, Any] = {"methods": EVERY_METHOD, "model__dropout": dropout}
    want = run(hard(**changes), tmp_path / "cpu")
    got = run(hard(**changes, device="cuda", compile=compiling), tmp_path / "cuda")
    for key, outcome in want.items():
        same(got[key].tensors, outcome.tensors, 1e-10)
        assert [row["bytes"] for row in got[key].metrics] == [row["bytes"] for row in outcome.metrics]


def test_attackers_lie_there_as_here(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"methods": EVERY_METHOD, "attack": {"name": "gaussian_noise", "share": 0.4}}
    want = run(experiment(**changes), tmp_path / "cpu")
    got = run(experiment(**changes, device="cuda"), tmp_path / "cuda")
    for key, outcome in want.items():
        same(got[key].tensors, outcome.tensors, 1e-10)


def test_messages_are_rounded_there_as_here(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"methods": EVERY_METHOD, "grid": {"exchange.precision": ["half", "int8"]}}
    want = run(experiment(**changes), tmp_path / "cpu")
    got = run(experiment(**changes, device="cuda"), tmp_path / "cuda")
    for key, outcome in want.items():
        same(got[key].tensors, outcome.tensors, 1e-10)


def test_the_same_bits_each_time(tmp_path: Path) -> None:
    e = hard(methods=EVERY_METHOD, device="cuda", dtype="float32", model__dropout=0.0)
    first, again = run(e, tmp_path / "first"), run(e, tmp_path / "again")
    for key, outcome in first.items():
        for name, tensor in outcome.tensors.items():
            assert torch.equal(tensor, again[key].tensors[name]), (key, name)
        assert outcome.exchanges == again[key].exchanges


def test_memory_that_really_runs_out(tmp_path: Path) -> None:
    """The card is said to hold more than torch may take of it."""
    wide: dict[str, Any] = {"model__hidden": [4096], "data__clients": 40, "train__batch": 512}
    e = experiment(device="cuda", dtype="float32", **wide)
    whole = run(e, tmp_path / "whole")
    peak, total = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    watcher = Watcher()
    torch.cuda.set_per_process_memory_fraction(0.8 * peak / total)
    try:
        halved = run(e, tmp_path / "halved", progress=watcher)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert any("memory ran out at iteration" in notice for notice in watcher.notices)
    for key, outcome in whole.items():
        same(halved[key].tensors, outcome.tensors, 1e-4)


def test_small_perceptrons_of_float32(tmp_path: Path) -> None:
    """All steps between two events at once, by those who learn."""
    changes: dict[str, Any] = {
        "methods": EVERY_METHOD,
        "dtype": "float32",
        "tf32": False,
        "model__dropout": 0.0,
        "model__norm": "none",
        "train__optimizer": "sgd",
    }
    want = run(hard(**changes), tmp_path / "cpu")
    got = run(hard(**changes, device="cuda"), tmp_path / "cuda")
    again = run(hard(**changes, device="cuda"), tmp_path / "again")
    for key, outcome in want.items():
        same(got[key].tensors, outcome.tensors, 1e-3)
        same(again[key].tensors, got[key].tensors, 0.0)


def test_one_process_of_a_shared_run(tmp_path: Path) -> None:
    """Messages go through NCCL, which takes one process for each card."""
    e = hard(methods=EVERY_METHOD, device="cuda")
    want = run(e, tmp_path / "alone")
    dist.init_process_group(
        "cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        ranks = Together(Wire(0, 1))
        got = finished(prepare(e, ranks=ranks), tmp_path / "shared", ranks=ranks)
    finally:
        dist.destroy_process_group()
    for key, outcome in want.items():
        same(got[key].tensors, outcome.tensors, 1e-10)
