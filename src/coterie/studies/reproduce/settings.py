"""The experiments of a target: those of iot.toml and emnist.toml, changed as targets.toml says.

The target `regimes` has several for a data set, which differ as regimes.toml says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from coterie.core.errors import UnknownNameError
from coterie.experiment import Experiment

__all__ = [
    "DATASETS",
    "METHOD",
    "TARGETS",
    "Printed",
    "Target",
    "experiment",
    "printed",
    "readings",
    "regimes",
]

DATASETS = ("iot", "emnist")
TARGETS = ("table1", "fig3", "fig4", "fig5", "regimes")
METHOD = "KD-PDFL"
"""The method that the paper is about."""


class Target(NamedTuple):
    """A table or a figure of the paper."""

    name: str
    datasets: tuple[str, ...]
    """The data sets it is made of, unless one is asked for."""
    reading: str
    """The reading of KD-PDFL's open points, unless another is asked for."""
    change: dict[str, Any]
    """Settings by their paths."""
    quick: dict[str, Any]
    """Settings by their paths, for a small version."""

    @classmethod
    def of(cls, name: str) -> Target:
        if name not in TARGETS:
            raise UnknownNameError("target", name, TARGETS)
        values = _toml("targets")
        own = values[name]
        return cls(
            name, tuple(own["datasets"]), own["reading"], own["change"], {**values["quick"], **own["quick"]}
        )


def readings() -> dict[str, dict[str, Any]]:
    """List KD-PDFL's options in each reading."""
    return dict(_toml("readings"))


def regimes(target: Target, dataset: str) -> list[str | None]:
    """List the regimes of a target on a data set, in their order; only None if it has none."""
    return list(_toml("regimes")[dataset]) if target.name == "regimes" else [None]


class Printed(NamedTuple):
    """A cell of the paper's table."""

    mean: float
    std: float


def printed(dataset: str, method: str, clients: int) -> Printed | None:
    """Look up a cell of the paper's Table I, if it is printed."""
    cell = _toml("paper")[dataset].get(method, {}).get(str(clients))
    return Printed(*cell) if cell else None


def experiment(
    target: Target,
    dataset: str,
    name: str,
    options: Mapping[str, Any],
    *,
    regime: str | None = None,
    reading: str | None = None,
    stars: float | None = None,
    quick: bool = False,
    seeds: int | None = None,
    device: str | None = None,
) -> Experiment:
    """Build what the target runs on a data set, called `name`, with these options of the data set.

    `stars` (a number, or below 1 a share of the clients), `seeds` and `device` are the experiment's own where
    they are not given.
    """
    if (chosen := reading or target.reading) not in readings():
        raise UnknownNameError("reading", chosen, readings())
    read = {f"methods.{METHOD}.{key}": value for key, value in readings()[chosen].items()}
    changes = {
        "search": {},  # what tuning tries is no part of what is run
        **target.change,
        **{f"data.set.{key}": value for key, value in options.items()},
        **(_toml("regimes")[dataset][regime] if regime else {}),
        **(read if reading or not regime else {}),  # tuned for a regime, a reading gives way
        **(target.quick if quick else {}),
        **({} if stars is None else {"exchange.stars": stars if stars % 1 else int(stars)}),
        **({} if device is None else {"device": device}),
        "name": f"{target.name}-{name}",
    }
    with resources.as_file(resources.files(__package__) / f"{dataset}.toml") as file:
        found = Experiment.load(file, changes)
    first = found.seeds[0]
    return found if seeds is None else found.replace(seeds=list(range(first, first + seeds)))


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / f"{name}.toml").read_text("utf-8"))
