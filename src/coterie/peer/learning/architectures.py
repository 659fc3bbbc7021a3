"""Architectures of a federation: which there are, and which is a peer's own."""

from __future__ import annotations

import json
from typing import NamedTuple

from coterie.core.data import Federation
from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import registered, resolve
from coterie.experiment import Experiment, Plugin, World
from coterie.federation import architectures

__all__ = ["Architectures"]


class Architectures(NamedTuple):
    """The architectures of a federation and, by its place among them, a peer's own."""

    models: tuple[Plugin, ...]
    own: int

    @classmethod
    def dealt(cls, world: World, federation: Federation, client: int) -> Architectures:
        """Find those that an experiment deals to its clients, and this client's."""
        places = architectures(world, federation)
        return cls._among(world.experiment, sorted(set(places.tolist())), int(places[client]))

    @classmethod
    def chosen(cls, experiment: Experiment, which: int | str | None) -> Architectures:
        """Take all that a federation lists, and the one that a peer says is its own, by place or name."""
        models = experiment.architectures
        listed = ", ".join(f"{place}: {_label(model)}" for place, model in enumerate(models))
        if which is None and len(models) == 1:
            which = 0
        if which is None:
            raise ConfigError(
                f"model lists {len(models)} architectures ({listed}), but not which of them is this peer's; "
                "name it by its place, such as architecture = 0"
            )
        if isinstance(which, int):
            if which >= len(models):
                raise ConfigError(
                    f"architecture = {which}, but model lists {len(models)}, counted from 0: {listed}"
                )
            return cls._among(experiment, range(len(models)), which)
        found = [place for place, model in enumerate(models) if _name(model) == _name(Plugin(name=which))]
        if not found:
            raise UnknownNameError("architecture", which, [model.name for model in models])
        if len(found) > 1:
            raise ConfigError(f"architecture = {which!r} is the name of several; name its place: {listed}")
        return cls._among(experiment, range(len(models)), found[0])

    @classmethod
    def _among(cls, experiment: Experiment, places: range | list[int], own: int) -> Architectures:
        """Keep those at some places; two entries that are the same model are one architecture."""
        listed = [experiment.architectures[place] for place in places]
        models = [model for i, model in enumerate(listed) if model not in listed[:i]]
        return cls(tuple(models), models.index(experiment.architectures[own]))

    @property
    def labels(self) -> tuple[str, ...]:
        """Name and options of each, the same on all peers; empty if all clients have the same model."""
        return tuple(_label(model) for model in self.models) if len(self.models) > 1 else ("",)


def _label(model: Plugin) -> str:
    options = json.dumps(model.options, sort_keys=True)
    return f"{_name(model)} {options}" if model.options else _name(model)


def _name(model: Plugin) -> str:
    """Return the registered name, however it is spelt here."""
    plugin = resolve("model", model.name)
    return next((name for name, one in registered("model").items() if one is plugin), model.name)
