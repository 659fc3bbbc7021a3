"""The registry: names, the user's own code, options and their paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.core import registry
from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import (
    KINDS,
    build,
    describe,
    import_packages,
    listed,
    package_of,
    register,
    registered,
    resolve,
)
from coterie.plugins.algorithms.kd_pdfl import KDPDFL
from coterie.plugins.distances.wasserstein1 import wasserstein1
from tests.conftest import Install


@pytest.fixture
def users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the user's own in the current folder."""
    package = tmp_path / "ours_to_find"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mod.py").write_text(
        "from dataclasses import dataclass\n\n"
        "@dataclass(frozen=True)\nclass Mine:\n    '''Ours.'''\n    size: int = 3\n\n"
        "def function(x, *, power=2):\n    return x**power\n\n"
        "class Plain:\n    pass\n\n"
        "instance = Mine()\n"
    )
    (package / "broken.py").write_text("import no_such_package_at_all\n")
    (package / "faulty.py").write_text("import os\nos.no_such_thing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in __import__("sys").path if p != str(tmp_path)])
    return package


@pytest.mark.parametrize("name", ["KD-PDFL", "kd_pdfl", "kdpdfl", "KD PDFL", "KDPDFL"])
def test_names_are_compared_without_case_and_dashes(name: str) -> None:
    assert resolve("algorithm", name) is KDPDFL


def test_a_class_is_found_by_its_own_name_too() -> None:
    assert resolve("algorithm", "FedAvgPlus") is resolve("algorithm", "FedAvg+")
    assert resolve("algorithm", "FedAvg") is not resolve("algorithm", "FedAvg+")


@pytest.mark.parametrize("kind", KINDS)
def test_every_plugin_is_described_in_one_line(kind: str) -> None:
    for name, plugin in registered(kind).items():
        assert 10 <= len(describe(plugin)) <= 110, f"{kind} {name}"
        assert resolve(kind, name) is plugin


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_plugins_of_a_kind_answer_to_one_name(kind: str) -> None:
    names = [registry.normalise_name(name) for name in registered(kind)]
    assert len(set(names)) == len(names)


def test_an_unknown_name_lists_and_suggests() -> None:
    listed = rf"known: {re.escape(', '.join(sorted(registered('algorithm'), key=str.lower)))}\..*'KD-PDFL'\?"
    with pytest.raises(UnknownNameError, match=listed):
        resolve("algorithm", "KD-PDFLL")


@pytest.mark.usefixtures("plugins")
def test_two_plugins_of_one_name_are_refused() -> None:
    @register("distance", "twin")
    def one(p: Any, q: Any) -> Any:
        return p

    def two(p: Any, q: Any) -> Any:
        return q

    assert resolve("distance", "Twin") is one
    assert register("distance", "twin")(one) is one  # the same again, as on a reload
    with pytest.raises(ConfigError, match="two distances are called 'twin'"):
        register("distance", "twin")(two)


@pytest.mark.usefixtures("plugins")
def test_two_plugins_of_one_folded_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two distances are called"):

        @register("distance", "Wasserstein-1")
        def other(p: Any, q: Any) -> Any:
            return p


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="kind of plugin 'algoritm'"):
        register("algoritm", "x")


@pytest.mark.usefixtures("users_code")
def test_the_users_own_code_is_found_in_the_current_folder() -> None:
    assert build("channel", "ours_to_find.mod:Mine", {"size": 4}, "exchange.channel").size == 4
    assert build("dataset", "ours_to_find.mod:function", {"power": 3}, "data.set")(2) == 8


@pytest.mark.usefixtures("users_code")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ours_to_find.mod:Yours", "module 'ours_to_find.mod' has no 'Yours'"),
        ("ours_to_find.mod:", "module 'ours_to_find.mod' has no ''"),
        ("ours_to_find.nothing:Mine", "no module 'ours_to_find.nothing' in"),
        ("ours_to_find.no.thing:Mine", "no module 'ours_to_find.no.thing' in"),
        ("nowhere_at_all:Mine", "no module 'nowhere_at_all' in"),
        ("nowhere.at.all:Mine", "no module 'nowhere.at.all' in"),
        (":Mine", "'pkg.mod:Name'"),
        (".mod:Mine", "'pkg.mod:Name'"),
    ],
)
def test_what_is_not_in_the_users_code_is_said(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"channel '{name}'.*{message}"):
        resolve("channel", name)


@pytest.mark.usefixtures("users_code")
def test_a_mistake_inside_the_users_code_is_shown_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        resolve("channel", "ours_to_find.broken:Mine")
    with pytest.raises(AttributeError, match="no_such_thing"):
        resolve("channel", "ours_to_find.faulty:Mine")


@pytest.mark.usefixtures("users_code")
@pytest.mark.parametrize("name", ["Plain", "instance"])
def test_what_is_no_plugin_is_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"exchange\.channel: channel .* must be a dataclass .* or a function"
    ):
        build("channel", f"ours_to_find.mod:{name}", {}, "exchange.channel")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": -1}, "methods.X.tau: input should be greater than 0, got -1"),
        ({"tau": "much"}, "methods.X.tau: input should be a valid number.*got 'much'"),
        ({"tau": "0.1"}, "methods.X.tau: expected a number, got '0.1'"),
        ({"tau": True}, "methods.X.tau: expected a number, got True"),
        ({"tau": float("nan")}, "methods.X.tau"),
        ({"tau": float("inf")}, "methods.X.tau: .*finite"),
        ({"tau": 0}, "methods.X.tau: input should be greater than 0, got 0"),
        ({"step": "big"}, "methods.X.step: input should be 'unit', 'sign', 'fixed' or 'softmax', got 'big'"),
        ({"adoption": "eat"}, "methods.X.adoption"),
        ({"share": 3}, "methods.X.share"),
        (
            {"mu": 1},
            r"unknown option 'methods.X.mu' of algorithm 'KD-PDFL'; known: .*Did you mean 'mu[12]'\?",
        ),
        ({"distance": "wasserstein3"}, "methods.X.*unknown distance 'wasserstein3'; known: .*wasserstein1"),
        ({"distance": "wasserstein1", "outputs": "logits"}, "methods.X.*compares probabilities"),
    ],
)
def test_options_are_validated_with_the_path_of_the_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("algorithm", "KD-PDFL", options, "methods.X")


def test_options_become_what_the_fields_say() -> None:
    built = build("algorithm", "KD-PDFL", {"share": ["a", "b"], "tau": 2}, "methods.X")
    assert built == KDPDFL(share=("a", "b"), tau=2.0)
    assert isinstance(built.tau, float)


def test_functions_are_bound() -> None:
    assert build("distance", "wasserstein1", {}, "distance").func is wasserstein1
    with pytest.raises(
        UnknownNameError, match=r"unknown option 'here\.r' of distance 'wasserstein1'; known: p, q"
    ):
        build("distance", "wasserstein1", {"r": 1}, "here")


def test_describe_takes_the_first_line() -> None:
    @dataclass
    class Described:
        """First.

        Second.
        """

    assert describe(Described) == "First."


PLUGIN = """
from coterie import register

@register("distance", "{name}")
def {name}(p, q):
    '''Distance of a package.'''
    return (p - q).abs().sum(dim=-1)
"""


def test_an_installed_package_registers_plugins(install: Install) -> None:
    install("cityblock", PLUGIN.format(name="city_block"))
    found = resolve("distance", "City-Block")
    assert package_of(found) == "cityblock 1.2"
    assert package_of(resolve("distance", "cosine")) is None
    assert listed("distance")["city_block"] == "Distance of a package. (cityblock 1.2)"
    assert "(" not in listed("distance")["wasserstein1"].replace("(eq. 3)", "")
    assert import_packages() == ()


def test_a_package_that_cannot_be_imported_is_named_and_the_others_go_on(install: Install) -> None:
    install("broken_package", "import coterie\n\ncoterie.no_such_thing\n")
    install("cityblock", PLUGIN.format(name="city_block"))
    assert resolve("distance", "city_block").__module__ == "cityblock"
    (error,) = import_packages()
    assert error.startswith("plugins of the package broken_package 1.2 are missing: module 'broken_package'")
    assert error.endswith("broken_package.py, line 3)")
    with pytest.raises(UnknownNameError, match=r"known: city_block, .* Note: plugins of the package broken"):
        resolve("distance", "manhattan")


def test_a_package_does_not_take_a_name_that_coterie_has(install: Install) -> None:
    install("impostor", PLUGIN.format(name="cosine"))
    assert resolve("distance", "cosine").__module__.startswith("coterie.")
    assert import_packages() == (
        "plugins of the package impostor 1.2 are missing: two distances are called 'cosine': "
        f"{resolve('distance', 'cosine').__module__}.cosine and impostor.cosine",
    )


def test_nothing_is_imported_where_no_package_brings_plugins() -> None:
    assert registry._packages() == {}
    assert import_packages() == ()
