"""Which client has which architecture, where the clients of a federation have models of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from coterie.core.data import Federation
from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.own.home import at_home
from coterie.core.registry import resolve, user_code
from coterie.core.streams import Stream
from coterie.core.support.owner_names import owner_name
from coterie.experiment import Experiment, World
from coterie.experiment.schema import Architecture, Models, Plugin

__all__ = ["architecture_names", "architectures"]


def architectures(world: World, federation: Federation) -> Tensor:
    """Deal the architectures of a world to its clients: their places among them, `[M]` int64."""
    experiment = world.experiment
    clients = len(federation.group)
    if isinstance(experiment.model, Plugin):
        return torch.zeros(clients, dtype=torch.int64)
    if experiment.model.deal:
        return _by_function(experiment, experiment.model, federation)
    dealt = torch.full((clients,), -1, dtype=torch.int64)
    for place, one in enumerate(experiment.model.among):
        if one.named:
            _give(dealt, _told(one, federation), place, one.name, federation)
    by_share = [place for place, one in enumerate(experiment.model.among) if not one.named]
    rest = (dealt < 0).nonzero()[:, 0]
    if len(rest) and not by_share:
        raise ConfigError(
            f"model: nobody deals a model to {_called(federation, int(rest[0]))}; name it under `clients`, "
            "or leave out `clients`, `groups` and `owners` of one model, which then goes to all the others"
        )
    shares = [experiment.model.among[place].share or 1 / len(by_share) for place in by_share]
    drawn = rest[Stream(world.seed, "architecture").uniform(1, client=rest)[:, 0].argsort(stable=True)]
    for place, some in zip(by_share, _parted(drawn, shares), strict=True):
        if not len(some):
            raise ConfigError(
                f"model: {experiment.model.among[place].name!r} goes to none of {len(rest)} clients; "
                "give it a larger share, or leave it out"
            )
        dealt[some] = place
    return dealt


def architecture_names(models: Sequence[Plugin]) -> list[str]:
    """Name the models of a federation: by their plugins, and by their options where two have one plugin."""
    names = [model.name for model in models]
    return [
        " ".join([model.name, *(f"{k}={v}" for k, v in model.options.items())])
        if names.count(model.name) > 1
        else model.name
        for model in models
    ]


def _parted(clients: Tensor, shares: Sequence[float]) -> Iterator[Tensor]:
    """Cut clients into parts whose sizes are as near to the shares as whole numbers allow."""
    ends = torch.tensor([0.0, *shares], dtype=torch.float64).cumsum(0) * len(clients)
    return (clients[first:last] for first, last in pairwise(ends.round().long().tolist()))


def _called(federation: Federation, client: int) -> str:
    """Write a client with the name of its owner, if that is known."""
    return f"client {client}" + (f" ({federation.owners[client]})" if federation.owners else "")


def _told(one: Architecture, federation: Federation) -> Tensor:
    """List the clients that an entry names, by their numbers, their groups or their owners."""
    group = federation.group
    if one.owners is not None:
        return _owned(one.name, one.owners, federation.owners)
    if one.groups is not None:
        if unknown := set(one.groups) - set(group.tolist()):
            raise ConfigError(
                f"model: {one.name!r} goes to group {min(unknown)}, but the clients' groups are "
                f"{', '.join(map(str, sorted(set(group.tolist()))))}"
            )
        return torch.isin(group, torch.tensor(one.groups)).nonzero()[:, 0]
    numbers = torch.tensor(one.clients, dtype=torch.int64)
    if bool((numbers >= len(group)).any()):
        raise ConfigError(
            f"model: {one.name!r} goes to client {int(numbers.max())}, but there are {len(group)}, "
            "counted from 0"
        )
    return numbers


def _owned(model: str, wanted: Sequence[str], owners: Sequence[str]) -> Tensor:
    """List the clients of some owners."""
    if not owners:
        raise ConfigError(
            f"model: {model!r} goes to owners, but the data name none; say who has it by `clients`, "
            "`groups` or `share`"
        )
    names = [owner_name(name) for name in wanted]
    for name in names:
        if name not in owners:
            raise ConfigError(f"model: {model!r} goes to an {UnknownNameError('owner', name, set(owners))}")
    return torch.tensor([i for i, name in enumerate(owners) if name in set(names)], dtype=torch.int64)


def _give(dealt: Tensor, clients: Tensor, place: int, name: str, federation: Federation) -> None:
    """Deal an architecture to some clients, who must not have one yet."""
    if len(twice := clients[dealt[clients] >= 0]):
        raise ConfigError(
            f"model: {_called(federation, int(twice[0]))} has a model already, but {name!r} is dealt to it "
            "too; name it once"
        )
    dealt[clients] = place


def _by_function(experiment: Experiment, models: Models, federation: Federation) -> Tensor:
    """Ask the user's function for every client."""
    with at_home(experiment.home):
        deal = _function(str(models.deal))
    dealt = []
    facts = zip(federation.group.tolist(), federation.train.count.tolist(), strict=True)
    for client, (group, samples) in enumerate(facts):
        with user_code(f"model: deal = {models.deal!r} failed for client {client}"):
            place = deal(client, group, samples)
        if not isinstance(place, int) or not 0 <= place < len(models.among):
            raise ConfigError(
                f"model: deal = {models.deal!r} must give a whole number from 0 to {len(models.among) - 1}, "
                f"the place of a model in the list, got {place!r} for client {client}"
            )
        dealt.append(int(place))
    return torch.tensor(dealt, dtype=torch.int64)


def _function(name: str) -> Callable[[int, int, int], Any]:
    """Import the user's function."""
    if ":" not in name:
        raise ConfigError(f"model: deal must name a function of your own, such as 'mine:deal', got {name!r}")
    found = resolve("model", name)
    if not callable(found):
        raise ConfigError(f"model: deal = {name!r} is not a function but {type(found).__name__}")
    function: Callable[[int, int, int], Any] = found
    return function
