"""What cannot be run is refused before the start, with the layer named."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.core.registry import registered
from coterie.engine.plan import prepare
from tests.engine.recording import Watcher
from tests.engine.small import EVERY_METHOD, KINDS, experiment


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("alpha_dropout", ["'2' (AlphaDropout)", "random"]),
        ("misfit", ["'0' (Linear)", "(4x6 and 7x3)"]),
        ("too_wide", ["puts out (4, 4) for 4 samples", "labels need (4, 3)", "3 classes"]),
        ("one_number", ["puts out (12,) for 4 samples", "labels need (4, 3)"]),
        ("unbatched", ["puts out (4, 3, 1) for 4 samples", "labels need (4, 3)"]),
        ("a_pair", ["puts out tuple for 4 samples", "labels need (4, 3)"]),
        ("without_weights", ["no trainable parameters"]),
    ],
)
def test_models_that_do_not_fit(name: str, words: list[str]) -> None:
    with pytest.raises(ModelError) as raised:
        prepare(experiment(model=f"tests.engine.nets:{name}"))
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_factory_must_give_a_module() -> None:
    with pytest.raises(ConfigError, match=r"gives str, not an nn\.Module"):
        prepare(experiment(model="tests.engine.nets:no_module"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train__batch": 1, "model__norm": "batch"}, "'2' (BatchNorm1d)"),
        ({"methods": {"KD-PDFL": {"reading": "paper", "outputs": "9"}}}, "no layer '9'; there are: 0, 1, 2"),
        ({"methods": {"FedAvg": {"share": "body.*"}}}, "'body.*' matches no tensor; there are: 1.weight"),
        (
            {"methods": {"KD-PDFL": {"reading": "paper", "distance": "wasserstein3"}}},
            "unknown distance 'wasserstein3'",
        ),
        ({"device": "cuda:7"}, "device 'cuda:7' is not available here"),
        ({"device": "cpu:5"}, "device 'cpu:5' is not available here: expected cpu, cuda or cuda:1"),
        ({"device": "toaster"}, "device 'toaster' is not available here"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CoterieError) as raised:
        prepare(experiment(**changes))
    assert words in str(raised.value)


def test_every_method_is_tried() -> None:
    """The last of them is refused as the first would be."""
    methods = {**EVERY_METHOD, "last": {"name": "KD-PDFL", "reading": "paper", "outputs": "nowhere"}}
    with pytest.raises(ConfigError, match="no layer 'nowhere'"):
        prepare(experiment(methods=methods))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("init", "methods.mine: init: optim: 'velocity' is new"),
        ("rows", "init: rows: 'second' must have one entry for each of the 4 slots on its first axis, got"),
        ("a number for a row", "got float64 of shape []; what is not of one neighbour belongs in memory"),
        ("no loss", "methods.mine: local must report the 'loss', got nothing"),
        ("loss of each", "methods.mine: local must report 'loss' of shape [], one number, got [4]"),
        ("offer", "methods.mine: offer must give a dict of tensors, got list"),
        ("integers", "offer must give floating-point tensors, but 'count' is int64 of shape [2]"),
        ("question", "methods.mine: question must give a dict of tensors, got NoneType"),
        ("reply", "methods.mine: reply must give tensors to a star that asks, got none"),
        ("reply of integers", "reply must give floating-point tensors, but 'count' is int64 of shape [2]"),
        ("extra axis", "'1.weight' must be float64 of shape [5, 6], got float64 of shape [2, 5, 6]"),
        ("other type", "'1.weight' must be float64 of shape [5, 6], got float16 of shape [5, 6]"),
        ("missing", "methods.mine: mix: params: '1.weight' is missing"),
        ("new", "methods.mine: mix: memory: 'a' is new"),
        ("one message", "mix of Method failed on 2 messages, batched over clients: RuntimeError: shape '["),
        ("no pair", "methods.mine: mix must give a State and a dict of what to report, got State"),
        ("scalar", "mix must report 'weight' of shape [2], one number for each message, got []"),
        ("matrix", "mix must report 'distance' of shape [2], one number for each message, got [2, 1]"),
        ("number", "methods.mine: mix must report tensors, but 'weight' is float"),
        ("taken", "methods.mine: mix reports 'neighbours', a name that is taken"),
        ("ask", "ask must give bool of shape [2], one for each neighbour in reach, got int64 of shape [2]"),
        ("model", "methods.mine: model must give parameters and buffers, got dict"),
        ("half a model", "methods.mine: model: parameters: '1.weight' is missing"),
        ("predict", "must give float64 of shape [4, 3], a score for each label, got int64 of shape [4]"),
        ("wire_bytes", "methods.mine: wire_bytes must give a number of bytes, got 0.5"),
        ("lr_scale", "methods.mine: lr_scale must give a finite number, got 'slow' at iteration 1"),
        ("lr_scale raises", "methods.mine: lr_scale failed at iteration 22: ZeroDivisionError: oops ("),
    ],
)  # fmt: skip
def test_methods_that_do_not_keep_the_contract(how: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        prepare(experiment(methods={"mine": {"name": "tests.engine.wrong:Method", "how": how}}))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("changes", [{}, {"dtype": "float32"}, {"train__batch": 1}])
def test_methods_and_attacks_that_do(changes: dict[str, Any]) -> None:
    mine = {"name": "tests.engine.wrong:Method"}
    attacks = [*registered("attack"), "tests.engine.wrong:Lie"]
    prepare(experiment(methods={**EVERY_METHOD, "mine": mine}, **changes))
    some = {name: EVERY_METHOD[name] for name in KINDS}
    prepare(experiment(methods={**some, "mine": mine}, grid={"attack": attacks}, **changes))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "offer of 'tests.engine.wrong:Lie' failed, batched over clients: ValueError: my attack ("),
        ("keys", "attack: offer of 'tests.engine.wrong:Lie': '1.weight' is missing"),
        ("shape", "'1.weight' must be float64 of shape [5, 6], got float64 of shape [1]"),
        ("outside", "'tests.engine.wrong:Lie': labels must stay "),
        ("short", "'tests.engine.wrong:Lie': labels must stay "),
        ("floats", "'tests.engine.wrong:Lie': labels must stay "),
        ("none", "'tests.engine.wrong:Lie': labels must stay "),
        ("labels raise", "attack: 'tests.engine.wrong:Lie' failed: KeyError: 'label' ("),
        ("trains", "attack: 'tests.engine.wrong:Lie': trains must be true or false, got function"),
    ],
)  # fmt: skip
def test_attacks_that_do_not_keep_the_contract(how: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        prepare(experiment(attack={"name": "tests.engine.wrong:Lie", "how": how}))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scalar", "must give one number for each sample, so shape [2, 4] for outputs of shapes [4, 3] and"),
        ("pooled", "[2, 4, 3], got [2]; sum over the last axis only"),
        ("of_each_label", "[2, 4, 3], got [2, 4, 3]; sum over the last axis only"),
        ("raises", "distance 'tests.engine.wrong:raises' failed: ValueError: bad distance ("),
        ("five", "methods.KD-PDFL: distance 'tests.engine.wrong:five' must be a function, got int"),
    ],
)
def test_distances_that_do_not_fit(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        prepare(
            experiment(methods={"KD-PDFL": {"reading": "paper", "distance": f"tests.engine.wrong:{name}"}})
        )
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "notices"),
    [
        ({}, []),
        ({"exchange__every": 21}, []),  # an exchange at 21, its broadcast at 22; 23 and 24 are local only
        (
            {"exchange__every": 22},
            [
                "there is no exchange at all: exchange.every = 22, but train.iterations = 24, the last 10% "
                "of them local only; use a smaller one"
            ],
        ),
        ({"methods": {"FedAvg+": {"switch": 22}}}, []),
        (
            {"methods": {"slow": {"name": "FedAvg+"}}, "train__personalize": 0.0, "seeds": [0, 1]},
            [
                "methods.slow never turns to Reptile, so it is FedAvg: switch = 2000, but "
                "train.iterations = 24; use a smaller one"
            ],
        ),
        (
            {"exchange__stars": 100, "data__sizes": (6, 6), "train__batch": 7, "exchange__probe": 1000},
            [
                "all clients are stars: exchange.stars = 100, but data.clients = 4; use a smaller one",
                "samples are drawn again: train.batch = 7, but no client has over 6; use a smaller one",
                "samples are drawn again: exchange.probe = 1000, but no client has over 6; use a smaller one",
            ],
        ),
        ({"exchange__stars": 4, "data__sizes": (6, 6), "train__batch": 6, "exchange__probe": 6}, []),
        (
            {"data__sizes": (3, 40), "train__batch": 50, "seeds": [0, 1, 2]},
            ["samples are drawn again: train.batch = 50, but no client has over 38; use a smaller one"],
        ),
        (
            {"data__sizes": (3, 40), "train__batch": 36, "seeds": [0, 1, 2]},
            [
                "samples are drawn again: train.batch = 36, but with some seeds no client has over 31; use a "
                "smaller one"
            ],
        ),
    ],
)
def test_what_is_set_but_never_happens_is_said(changes: dict[str, Any], notices: list[str]) -> None:
    shown = Watcher()
    prepare(experiment(**changes), progress=shown)
    assert shown.notices == notices
