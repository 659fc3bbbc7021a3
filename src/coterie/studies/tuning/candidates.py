"""The settings tried for a method: those of the experiment first, then random draws from its space."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from coterie.core.algorithm import SearchSpace
from coterie.core.errors import ConfigError
from coterie.core.models.optim import Adam, Sgd
from coterie.core.registry import user_code
from coterie.core.streams import Stream
from coterie.experiment import Experiment, World

__all__ = ["Candidate", "candidates", "space"]

FACTORS = (0.3, 1.0, 3.0)
"""Learning rates tried where an experiment does not say which: so many times its own."""
DRAWS = 10
"""Random draws for each setting that is wanted, since some come twice; after that, one by one."""


class Candidate(NamedTuple):
    """One setting of a method."""

    setting: dict[str, Any]
    """The new values in the method's table; none, if the setting is the experiment's own."""
    values: dict[str, Any]
    """Everything that is searched, as it is with this setting."""


def candidates(experiment: Experiment, label: str, budget: int) -> list[Candidate]:
    """List as many different settings as the budget allows, or all there are."""
    alone, choices = experiment.only(label), space(experiment, label)
    total = math.prod(map(len, choices.values()))
    found: dict[str, Candidate] = {}
    seen: set[str] = set()
    for setting in itertools.chain([{}], _drawn(choices, budget)):
        if len(found) == budget or len(seen) > total:
            break
        if repr(setting) not in seen:
            seen.add(repr(setting))
            world = alone.changed({label: setting}).worlds()[0]
            values = {key: _value(world, key) for key in choices}
            found.setdefault(_meaning(world), Candidate(setting, values))
    return list(found.values())


def space(experiment: Experiment, label: str) -> SearchSpace:
    """List the values to search for each key of a method: as the experiment says, or the usual."""
    if experiment.search:
        return experiment.searched(label)
    world = experiment.only(label).worlds()[0]
    train = world.experiment.train
    choices = {"train.lr": _around(train.lr)}
    if train.personalize:
        choices["train.personalize_lr"] = _around(train.personalize_lr or train.lr)
    usual = {**choices, **_proposed(world)}
    return {k: v for k, v in usual.items() if not experiment.grid.keys() & {k, f"methods.{label}.{k}"}}


def _proposed(world: World) -> SearchSpace:
    """Ask a method for its own search space, held to what a `[search]` is held to."""
    what = f"methods.{world.label}: search"
    with user_code(f"{what} failed"):
        found: object = world.algorithm.search_space()
    if not isinstance(found, Mapping):
        raise ConfigError(f"{what} must give options and the values to try, got {type(found).__name__}")
    try:
        world.experiment.replace(search={f"methods.{world.label}.{k}": v for k, v in found.items()})
    except ConfigError as error:
        raise ConfigError(f"{what} cannot be tried: {error}") from None
    return found


def _around(rate: float) -> tuple[float, ...]:
    return tuple(float(f"{factor * rate:.3g}") for factor in FACTORS)


def _drawn(choices: SearchSpace, budget: int) -> Iterator[dict[str, Any]]:
    """Draw random settings in which every value of a key comes equally often; in the end, all there are."""
    columns = [_shuffled(key, values, DRAWS * budget) for key, values in choices.items()]
    for combination in itertools.chain(zip(*columns, strict=True), itertools.product(*choices.values())):
        yield dict(zip(choices, combination, strict=True))


def _shuffled(key: str, values: tuple[Any, ...], n: int) -> list[Any]:
    """Repeat the values, each time in another order; alike for all methods that have this key."""
    turns = torch.arange(-(-n // len(values)))
    order = Stream(0, f"tune {key}").permutation(len(values), t=turns).flatten()
    return [values[i] for i in order[:n].tolist()]


def _meaning(world: World) -> str:
    """Make a key that is equal for settings that are written differently but do the same."""
    train = world.experiment.train
    closing = (train.personalize_lr or train.lr) if train.personalize else None
    return repr((world.algorithm, train.lr, closing, train.optimizer))


def _value(world: World, key: str) -> Any:
    table, _, own = key.partition(".")
    value = getattr(world.experiment.train, own) if table == "train" else getattr(world.algorithm, key)
    return dataclasses.asdict(value) if isinstance(value, Sgd | Adam) else value
