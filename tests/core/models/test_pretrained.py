"""Weights from a file, and parts that stay as they are: the same in both runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.core.types import State
from coterie.engine.plan import prepare
from tests.engine.recording import Watcher
from tests.engine.small import experiment, finished
from tests.peer.lockstep import hosts_of, tensors
from tests.trees import same

BASE = {"1.weight": torch.full((5, 6), 0.5), "1.bias": torch.arange(5.0)}
"""Of the small model: `1` is its body, `3` its head."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(BASE, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_what_fits_is_used_and_the_rest_is_drawn_anew(file: Path, tmp_path: Path) -> None:
    save_file({**BASE, "old.head": torch.zeros(2)}, file)
    shown = Watcher()
    (stack,) = prepare(experiment(train__init=str(file), seeds=[0, 1]), progress=shown).stacks
    assert shown.notices == [
        f"train.init = '{file}': 1 of its tensors fit no layer and are not used: old.head; 2 of the model "
        "are not in it and are drawn anew: 3.weight, 3.bias"
    ]
    params = stack.initial().whole.params
    for name, value in BASE.items():
        assert torch.equal(params[name], value.double().expand_as(params[name]))
    assert torch.equal(params["3.weight"][0], params["3.weight"][1])  # one model for all clients of a seed
    assert not torch.equal(params["3.weight"][0], params["3.weight"][-1])


def whole(names: tuple[str, ...], **changes: Any) -> dict[str, Any]:
    return {"train__freeze": names, "methods": {"FedAvg": {}, "KD-PDFL": {}}, **changes}


def test_frozen_parts_stay_are_not_sent_and_take_no_optimiser_memory(file: Path, tmp_path: Path) -> None:
    adam = {"train__optimizer": "adam", "train__lr": 0.01}
    e = experiment(**whole(("base",), train__init=str(file), **adam))
    (stack,) = prepare(e).stacks
    assert stack.task.frozen == ("1.weight", "1.bias")
    assert not any("1.weight" in name for name in stack.initial().whole.optim)
    got = finished(prepare(e), tmp_path / "run")
    free = finished(prepare(e.replace(train__freeze=[])), tmp_path / "free")
    for key, outcome in got.items():
        for name, value in BASE.items():
            now = outcome.tensors[f"buffers/{name}"]
            assert torch.equal(now, value.double().expand_as(now))
        assert outcome.metrics[-1]["bytes"] * (5 * 6 + 5 + 3 * 5 + 3) == free[key].metrics[-1]["bytes"] * 18
        learned = outcome.tensors["params/3.weight"]
        assert not torch.equal(learned[0], learned[1])


def test_a_pattern_of_share_sends_what_is_frozen(file: Path) -> None:
    (stack,) = prepare(experiment(**whole(("base",), train__init=str(file)))).stacks
    state = State(*stack.task.init_params(0), {}, {}, {})
    assert set(stack.task.select(state)) == {"3.weight", "3.bias"}
    assert set(stack.task.select(state, ["1.*", "head"])) == {"1.weight", "1.bias", "3.weight", "3.bias"}


def test_peers_begin_and_learn_as_the_simulator_does(file: Path, tmp_path: Path) -> None:
    e = experiment(
        train__init=str(file), train__freeze=["1.weight"], methods={"Local": {}}, exchange__every=9
    )
    want = finished(prepare(e), tmp_path / "run")["Local", 0]
    hosts = hosts_of(e.worlds()[0])
    schedule = hosts[0].local_client.client.schedule
    for t in range(1, e.train.iterations + 1):
        for host in hosts:
            host.local_client.local() if schedule.phase(t) == "local" else host.local_client.idle()
    got: dict[str, Tensor] = tensors([host.local_client.now.state for host in hosts])
    same(got, {k: v for k, v in want.tensors.items() if "/" in k}, 1e-9)


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (
            {"body.weight": torch.zeros(5, 6)},
            "fits no layer of model .*: the file has body.weight, the model 1.w",
        ),
        (
            {"1.weight": torch.zeros(5, 7)},
            r"'1.weight' has shape \[5, 7\], but in the model \[5, 6\]; leave it",
        ),
        ({"1.bias": torch.full((5,), torch.nan)}, "the tensor '1.bias' of .* has NaN or infinity"),
        (b"hello", "w.safetensors is no safetensors file, or damaged"),
        (None, "there is no such file; name it by its path from the folder of the settings, or in full"),
    ],
)
def test_weights_that_cannot_be_used_are_told(file: Path, held: Any, told: str) -> None:
    if held is None:
        file.unlink()
    elif isinstance(held, bytes):
        file.write_bytes(held)
    else:
        save_file(held, file)
    with pytest.raises(ModelError, match=told) as raised:
        prepare(experiment(train__init=str(file)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("freeze", "told"),
    [
        (
            ["encoder.*"],
            r"train.freeze pattern 'encoder.\*' matches no tensor; there are: 1.weight, 1.bias, 3",
        ),
        (["all"], "leaves nothing to learn: all of 1.weight, 1.bias, 3.weight, 3.bias are frozen"),
        (["base", "!1.*"], "freezes nothing: what it names is excluded again"),
    ],
)
def test_parts_that_cannot_be_frozen_are_told(freeze: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        prepare(experiment(train__freeze=freeze))
    assert "\n" not in str(raised.value)


def test_a_word_that_is_no_way_to_begin_is_told() -> None:
    with pytest.raises(CoterieError, match=r"or a file that ends in \.safetensors, got 'nothing'"):
        experiment(train__init="nothing")
