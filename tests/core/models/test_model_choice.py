"""A model as an option: by name, as a table, compared, written, refused; and the proxy that is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from coterie.core.errors import ConfigError
from coterie.core.models.model_choice import SAME, ModelChoice
from coterie.core.models.model_factory import build_task, with_proxy
from coterie.core.models.optim import Adam
from coterie.core.registry import build, options
from coterie.core.sampling import first_proxy
from coterie.core.support.values import allowed
from coterie.core.tasks.task import Task
from coterie.core.tasks.task_factory import classification
from coterie.plugins.algorithms.fml import FML


def chosen(given: Any) -> ModelChoice:
    method: FML = build("algorithm", "FML", {"proxy": given}, "methods.FML")
    return method.proxy


def test_a_name_or_a_table() -> None:
    assert chosen("linear") == ModelChoice("linear")
    table = {"norm": "layer", "name": "mlp", "hidden": [16, 8]}
    assert chosen(table) == ModelChoice("mlp", (("hidden", (16, 8)), ("norm", "layer")))
    assert hash(chosen(table)) == hash(chosen(dict(reversed(table.items()))))
    assert repr(chosen(table)) == "{ name = 'mlp', hidden = [16, 8], norm = 'layer' }"
    assert repr(FML().proxy) == "'same'"


@pytest.mark.parametrize("given", [3, {"hidden": [4]}, {"name": 5}, ["mlp"]])
def test_what_names_no_model_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"methods.FML.proxy: .*the name of a model, or a table with one"):
        chosen(given)


def test_it_is_explained_to_the_user() -> None:
    (proxy,) = (o for o in options(FML) if o.name == "proxy")
    assert (proxy.default, proxy.values) == ("'same'", "text | table")
    assert allowed(int) == "whole number"


NAMES = ("a", "b", "c", "d")


def own(init: str = "shared") -> Task:
    return build_task("mlp", {"hidden": [5]}, (2, 3), NAMES, classification(), torch.float64, Adam(), init)


def test_the_proxy_is_a_model_of_its_own_with_the_same_optimiser_and_type() -> None:
    task = with_proxy(own(), chosen({"name": "mlp", "hidden": [3]}), (2, 3), NAMES, "shared")
    assert task.proxy is not None
    assert [list(p.shape) for p in task.proxy.given()[0].values()] == [[3, 6], [3], [4, 3], [4]]
    assert task.proxy.optimizer == Adam()
    assert all(p.dtype == torch.float64 for p in first_proxy(task, "shared", 0)[0].values())
    again = replace(task)
    assert again.proxy is not None
    assert again.proxy is not task.proxy  # each lends its own module


def test_without_one_there_is_none() -> None:
    task = own()
    assert with_proxy(task, None, (2, 3), NAMES, "shared") is task
    assert first_proxy(task, "shared", 0) == ({}, {})


def test_all_clients_of_a_seed_begin_with_the_same_proxy_which_is_not_their_own_model() -> None:
    task = with_proxy(own(), SAME, (2, 3), NAMES, "shared")
    first, again, other = (first_proxy(task, "independent", seed)[0] for seed in (0, 0, 1))
    assert all(torch.equal(v, again[k]) for k, v in first.items())
    assert not torch.equal(first["1.weight"], other["1.weight"])
    assert first.keys() == task.given()[0].keys()


def test_given_weights_are_the_proxys_too() -> None:
    task = with_proxy(own("given"), SAME, (2, 3), NAMES, "given")
    assert all(torch.equal(v, task.given()[0][k]) for k, v in first_proxy(task, "given", 5)[0].items())


def test_among_different_architectures_one_must_be_named() -> None:
    mixed = replace(own(), foreign=(own(),))
    with pytest.raises(ConfigError, match='name one for all of them, such as proxy = "mlp"'):
        with_proxy(mixed, SAME, (2, 3), NAMES, "shared")
