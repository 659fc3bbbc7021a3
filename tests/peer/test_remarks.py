"""What a peer's log says of its settings when it starts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from coterie.peer.app import _warn
from coterie.peer.learning.client import Client
from tests.peer.node_factory import peer_config


def client(folder: Path, **changes: Any) -> Client:
    config = peer_config(1, folder, **changes)
    return config.client_of("p1", config.federation(None))


def said(one: Client, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        _warn(one)
    return {record.message: record.__dict__["why"] for record in caplog.records}


def test_a_model_that_cannot_be_batched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = said(client(tmp_path, model="tests.engine.nets:recurrent"), caplog)["models_one_at_a_time"]
    assert "(LSTM) cannot be batched over clients" in found
    assert found.endswith("so the models of neighbours run one at a time; its own steps take no longer")
    assert "models_one_at_a_time" not in said(client(tmp_path), caplog)


def test_a_batch_larger_than_its_samples(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = client(tmp_path)
    samples = len(own.own.train.y)
    assert "samples_drawn_again" not in said(client(tmp_path, train={"batch": samples}), caplog)
    found = said(client(tmp_path, train={"batch": samples + 1}), caplog)["samples_drawn_again"]
    assert f"train.batch = {samples + 1}, but this peer has {samples} samples to train on" in found


def test_a_file_of_weights_that_fits_in_part(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = client(tmp_path).task.model.state_dict()
    name, first = next(iter(whole.items()))
    save_file({name: first.clone()}, tmp_path / "part.safetensors")
    init = {"init": str(tmp_path / "part.safetensors")}
    found = said(client(tmp_path, train=init), caplog)["weights_do_not_fit"]
    assert next(other for other in whole if other != name) in found
