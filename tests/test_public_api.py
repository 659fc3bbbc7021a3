"""What users may rely on: the exported names, and that everything is described."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import version

import pytest

import coterie
from coterie.core.registry import KINDS, describe, options, registered

OTHERS = {
    "coterie.engine.analytic.kernels.convolution",
    "coterie.engine.analytic.kernels.mlp",
    "coterie.peer.transport.wire_pb2",
}
"""Need Triton, which comes with GPUs; is made by a program."""
MODULES = [
    "coterie",
    *(m.name for m in pkgutil.walk_packages(coterie.__path__, "coterie.") if m.name not in OTHERS),
]


def test_the_exported_names() -> None:
    assert coterie.__all__ == [
        "Algorithm",
        "Batch",
        "Callback",
        "Context",
        "CoterieError",
        "EarlyStopping",
        "Experiment",
        "Inbox",
        "Info",
        "Message",
        "Metric",
        "Probe",
        "Reachable",
        "Run",
        "Start",
        "State",
        "Task",
        "TaskKind",
        "metric",
        "register",
        "run",
        "weighted_sum",
    ]


@pytest.mark.parametrize("name", coterie.__all__)
def test_every_exported_name_is_there(name: str) -> None:
    found = getattr(coterie, name)
    assert getattr(found, "__name__", name) in (name, "dict")  # Info and Message are plain dictionaries


def test_the_version_is_that_of_the_installed_package() -> None:
    assert coterie.__version__ == version("coterie")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'coterie' has no attribute 'Expriment'"):
        _ = coterie.Expriment


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_described_and_says_what_it_exports(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert module.__doc__[0].strip()
    if hasattr(module, "__path__") and not hasattr(module, "__all__"):
        return  # a folder of plugins or of modules: nothing of its own
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for exported in module.__all__:
        assert hasattr(module, exported)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in registered(kind)],
    ids=lambda word: str(word),
)
def test_every_plugin_is_described_in_one_line(kind: str, name: str) -> None:
    line = describe(registered(kind)[name])
    assert 10 < len(line) <= 110
    assert line.endswith((".", "?", ")"))
    for option in options(registered(kind)[name]):
        assert "<" not in option.default, "a default that people can read"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "distance"])
def test_every_option_is_explained(kind: str) -> None:
    for name, plugin in registered(kind).items():
        assert [option.name for option in options(plugin) if not option.help] == [], name
