"""A trained model as a file: what is in it, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from coterie import __version__
from coterie.core.errors import CoterieError, ModelError
from coterie.core.models.model_factory import build_model
from coterie.core.models.trained_model import ModelCard, TrainedModel, state_dict
from coterie.storage import tensors
from coterie.storage.model_file import FORMAT, load, load_model, save

CARD = ModelCard(
    architecture="mlp",
    options={"hidden": [5]},
    inputs=(2,),
    input_type="float32",
    classes=("calm", "noise"),
    columns=("mean", "spread"),
    transform="standard",
    mean=[1.0, -2.0],
    deviation=[2.0, 4.0],
    score=0.75,
    tested=8,
    method="KD-PDFL",
    run="farm",
    seed=3,
    client="2",
    iteration=100,
    coterie=__version__,
)


def weights() -> dict[str, torch.Tensor]:
    return build_model("mlp", {"hidden": [5]}, (2,), 2, seed=1).state_dict()


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "farm.safetensors"
    save(path, CARD, weights())
    card, found = load(path)
    assert card == CARD
    assert found.keys() == weights().keys()
    assert all(torch.equal(v, weights()[k]) for k, v in found.items())
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
    assert meta["format"] == FORMAT
    assert json.loads(meta["facts"])["classes"] == ["calm", "noise"]
    save(path, CARD, weights())  # its own file is replaced


def test_a_loaded_model_takes_raw_inputs(tmp_path: Path) -> None:
    save(tmp_path / "m.safetensors", CARD, weights())
    model = load_model(tmp_path / "m.safetensors")
    x = torch.tensor([[3.0, 2.0], [1.0, -2.0]])
    scaled = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert torch.equal(model(x), model.net(scaled))
    assert not model.training
    assert model.classes == ("calm", "noise")
    assert {"mean", "deviation"} < set(model.state_dict())


def test_logarithms_are_taken_of_raw_inputs() -> None:
    card = dataclasses.replace(CARD, transform="signed_log1p", mean=None, deviation=None)
    model = TrainedModel.of(card, weights(), "here")
    x = torch.tensor([[-3.0, 7.0]])
    assert torch.allclose(
        model(x), model.net(torch.tensor([[-3.0, 7.0]]).abs().log1p() * torch.tensor([-1.0, 1.0]))
    )


def test_tied_tensors_have_all_their_names() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    params = {k: v.detach() + 1 for k, v in net.named_parameters()}
    found = state_dict(net, params, {})
    assert set(found) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert torch.equal(found["1.weight"], params["0.weight"])
    assert torch.equal(net.state_dict()["0.weight"] + 1, params["0.weight"])  # the template is left alone


nan = torch.full((5,), torch.nan)


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def facts(path: Path, **changes: Any) -> None:
    values = {**CARD.plain(), **changes}
    tensors.save(path, FORMAT, {k: v for k, v in values.items() if v is not None}, weights())


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (Path.unlink, "m.safetensors is not a trained model: there is no such file"),
        (lambda p: p.write_text("hello"), "m.safetensors is no safetensors file, or damaged"),
        (damaged, "does not have the SHA-256 that was saved with it"),
        (lambda p: save_file(weights(), p), "it has no card of the format 'coterie-model-1'; coterie export"),
        (
            lambda p: tensors.save(p, "coterie-model-9", {}, weights()),
            "another format: expected 'coterie-model-1' or 'coterie-model-2', got 'coterie-model-9'; use the",
        ),
        (lambda p: facts(p, seed="one"), "not as it should be: seed: input should be a valid integer"),
        (lambda p: facts(p, code="import os"), "card is not as it should be: code: there is no such option"),
        (lambda p: facts(p, method=None), "its card is not as it should be: method"),
        (lambda p: facts(p, mean=[1.0]), "mean and deviation of its card must be finite, one number"),
        (lambda p: facts(p, mean="high"), "its card has no numbers as mean and deviation"),
        (lambda p: facts(p, deviation=[1.0, 0.0]), "deviations above 0"),
        (lambda p: facts(p, options={"hidden": [7]}), r"'1.weight' should be float32 \[7, 2\] for the arch"),
        (lambda p: facts(p, architecture="os:nothing"), "say so: --model os:nothing"),
        (
            lambda p: tensors.save(p, FORMAT, CARD.plain(), {**weights(), "1.bias": nan}),
            "the model is not finite: '1.bias' has NaN or infinity",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_told(tmp_path: Path, spoil: Any, told: str) -> None:
    path = tmp_path / "m.safetensors"
    save(path, CARD, weights())
    spoil(path)
    with pytest.raises(ModelError, match=told) as raised:
        load_model(path)
    assert "\n" not in str(raised.value)


def test_what_is_not_finite_or_not_ours_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(ModelError, match="client 2 is not finite"):
        save(path, CARD, {**weights(), "1.bias": torch.full((5,), torch.inf)})
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(CoterieError, match="so it is not replaced"):
        save(path, CARD, weights())


def test_own_code_is_built_once_it_is_named(tmp_path: Path) -> None:
    path, name = tmp_path / "m.safetensors", "tests.engine.nets:plain"
    net = build_model(name, {}, (2,), 2)
    save(path, dataclasses.replace(CARD, architecture=name, options={}), net.state_dict())
    with pytest.raises(ModelError, match=r"not 'tests\.engine\.nets:conv'"):
        load_model(path, "tests.engine.nets:conv")
    assert load_model(path, name)(torch.zeros(3, 2)).shape == (3, 2)
