"""What cannot be run is refused before the start, with the layer named."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.core.errors import ConfigError, CoterieError, ModelError
from coterie.engine.preparation import prepare
from tests.engine.small import EVERY_METHOD, experiment


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deciding", ["'2' (Deciding)", "data-dependent"]),
        ("forgetting", ["'2' (Forgetting)", "random"]),
        ("alpha_dropout", ["'2' (AlphaDropout)", "random"]),
        ("recurrent", ["'2.lstm' (LSTM)"]),
        ("cumulative", ["'2' (BatchNorm1d)"]),
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
        ({"methods": {"KD-PDFL": {"outputs": "9"}}}, "no layer '9'; there are: 0, 1, 2"),
        ({"methods": {"FedAvg": {"share": "body.*"}}}, "'body.*' matches no tensor; there are: 1.weight"),
        ({"methods": {"KD-PDFL": {"distance": "wasserstein3"}}}, "unknown distance 'wasserstein3'"),
        ({"device": "cuda:7"}, "device 'cuda:7' is not to be had here"),
        ({"device": "toaster"}, "device 'toaster' is not to be had here"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CoterieError) as raised:
        prepare(experiment(**changes))
    assert words in str(raised.value)


def test_every_method_is_tried() -> None:
    """The last of them is refused as the first would be."""
    methods = {**EVERY_METHOD, "last": {"name": "KD-PDFL", "outputs": "nowhere"}}
    with pytest.raises(ConfigError, match="no layer 'nowhere'"):
        prepare(experiment(methods=methods))
