from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.core.errors import ConfigError
from coterie.core.support.toml import dumps
from coterie.experiment import Experiment

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.booleans() | st.integers() | st.floats(allow_nan=False) | text
values = st.recursive(
    plain, lambda v: st.lists(v, max_size=3) | st.dictionaries(text, v, max_size=3), max_leaves=12
)


@given(st.dictionaries(text, values, max_size=4))
@settings(deadline=None)
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    assert tomllib.loads(dumps(value)) == value


def test_an_experiment_round_trips() -> None:
    experiment = Experiment.parse(
        {
            "methods": {"Local": {}, "ours, sharp": {"name": "KD-PDFL", "tau": 1e-8}},
            "grid": {"train.lr": [0.01, 0.1]},
        }
    )
    assert tomllib.loads(dumps(experiment.plain())) == experiment.plain()


def test_it_reads_well() -> None:
    assert dumps({"a": 1.5, "t": {"u": {"x y": "é\n"}, "on": True}, "list": [{"name": "b"}]}) == (
        'a = 1.5\nlist = [{ name = "b" }]\n\n[t]\non = true\n\n[t.u]\n"x y" = "é\\n"\n'
    )


def test_what_toml_cannot_say_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.sizes: TOML has no NoneType"):
        dumps({"data": {"sizes": None}})
