"""An experiment: everything that determines a run, and the worlds (method x seed x setting) it consists of.

Experiment
  name, seeds, methods, model, task, device, dtype, compile, grid, search
  data       the data set, the clients and what each of them has
  train      local learning, the same for every method
  exchange   how often and with whom clients exchange models
  population clients of unequal speed, that come late, leave and come back
  attack     clients that are dishonest
  evaluate   when and on what clients are tested
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, PrivateAttr, ValidationError, model_validator

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.own.home import at_home
from coterie.core.own.objects import Held, is_object, keep
from coterie.core.support.html import html_table
from coterie.core.support.toml import flat
from coterie.experiment.files import read, settled
from coterie.experiment.labels import check_labels_unique, world_label
from coterie.experiment.objects import named_objects
from coterie.experiment.overrides import config_error, put, refuse_misspelt
from coterie.experiment.schema import (
    MOST_WORLDS,
    Attackers,
    Data,
    Evaluate,
    Exchange,
    FolderName,
    Method,
    Model,
    Named,
    OwnTrain,
    Plugin,
    Population,
    Section,
    Seeds,
    Train,
    named,
)

if TYPE_CHECKING:  # at run time where they are needed: torch takes seconds to load
    from torch import Tensor

    from coterie.core.algorithm import Algorithm
    from coterie.core.tasks.task_kind import TaskKind

__all__ = ["Experiment", "World"]

_COMPARABLE = ("methods", "model", "data", "train", "exchange", "population", "attack", "evaluate")
"""The parts of an experiment in which the worlds of one run may differ."""
_WHOLE = ("model", "attack")
"""The parts that may be compared as a whole, too."""


class Experiment(Section):
    """Everything that determines a run."""

    name: FolderName = "experiment"
    """The name of the run folder."""
    seeds: Seeds = (0, 1, 2)
    """Every method is run once with each of these; a number N stands for 0 to N-1."""
    methods: dict[str, Annotated[Method, BeforeValidator(named)]] = {
        n: Method(name=n) for n in ("Local", "FedAvg", "FedAvg+", "KD-PDFL")
    }
    """The rows of the result table."""
    model: Model = Plugin(name="mlp")
    """The model that every client has; or a list of several, each with the `share`, `groups`, `clients` or
    `owners` that have it."""
    task: Named = Plugin(name="classification")
    """What is learned (`coterie ls tasks`): the loss, what targets are, and how models are measured."""
    data: Data = Data()
    train: Train = Train()
    exchange: Exchange = Exchange()
    population: Population = Population()
    attack: Annotated[Attackers, BeforeValidator(named)] = Attackers()
    """The attack of dishonest clients, and their share of all clients; only the others are tested."""
    evaluate: Evaluate = Evaluate()
    device: str = "cpu"
    """The device to compute on: cpu, cuda, cuda:1 ..."""
    dtype: Literal["float32", "float64"] = "float32"
    """The precision to compute with: float32 or float64."""
    tf32: bool = True
    """On a GPU, whether float32 matrices are multiplied in TF32: faster, with 10 bits of mantissa."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compilation of local steps: on, off, or auto (on if the run is long enough to win by it)."""
    grid: dict[str, tuple[Any, ...]] = {}
    """Settings to compare: the path of a key and its values, such as `"train.lr" = [0.01, 0.1]`."""
    search: dict[str, tuple[Any, ...]] = {}
    """Settings that `coterie tune` tries: `train.lr`, `train.personalize_lr` or `train.optimizer` (of every
    method) or `methods.LABEL.OPTION`, and values; empty: learning rates, and what each method proposes."""
    home: Path | None = None
    """The folder to look in first for modules and data files of your own; absent: the folder of this file."""
    _held: tuple[Held, ...] = PrivateAttr(())

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, values: Any) -> Any:
        values = dict(values)
        methods = values.get("methods")
        if isinstance(methods, list | tuple) and all(isinstance(name, str) for name in methods):
            values["methods"] = {name: {} for name in methods}
        if isinstance(methods := values.get("methods"), Mapping):
            values["methods"] = {
                label: {"name": label, **options} if isinstance(options, Mapping) else options
                for label, options in methods.items()
            }
        return values

    @model_validator(mode="after")
    def _complete(self) -> Experiment:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds must be one or more different numbers, got {list(self.seeds)}")
        for table in ("grid", "search"):
            for path, settings in getattr(self, table).items():
                if not settings:
                    raise ValueError(f"{table}: {path!r} has no values; name at least one")
                if len({repr(value) for value in settings}) < len(settings):
                    raise ValueError(f"{table}: {path!r} has a value twice, got {list(settings)}")
        self._check_grid()
        self._check_search()
        if not self.methods:
            raise ValueError("methods is empty; name at least one")
        if not all(map(str.strip, self.methods)):
            raise ValueError("methods: a name is empty; every row of the result table needs one")
        worlds = math.prod([len(self.methods), len(self.seeds), *map(len, self.grid.values())])
        if worlds > MOST_WORLDS:
            raise ValueError(
                f"methods x seeds x grid are {worlds} worlds, at most {MOST_WORLDS} fit in one experiment"
            )
        return self

    def _check_grid(self) -> None:
        for path in self.grid:
            part, _, key = path.partition(".")
            if part not in _COMPARABLE or not (key or part in _WHOLE):
                parts = ", ".join(_COMPARABLE)
                raise ValueError(f"grid: {path!r} cannot be compared in one run; name a key of {parts}")
            for label, method in self.methods.items():
                if part == "train" and key.partition(".")[0] in method.train.given():
                    raise ValueError(
                        f"grid: {path!r} has no say over {label!r}, which has a value of its own"
                    )

    def _check_search(self) -> None:
        common = [f"train.{key}" for key in OwnTrain.model_fields]
        for path in self.search:
            keys = [path.removeprefix(f"methods.{label}.") for label in self.methods]
            options = [k for k in keys if k != path and "." not in k and k not in ("name", "train")]
            if not (options or {path, *keys} & set(common)):
                raise ValueError(
                    f"search: {path!r} is not a setting in which methods may differ; expected "
                    f"{', '.join(common)} or methods.LABEL.OPTION, where LABEL is one of "
                    f"{', '.join(self.methods)}"
                )
            if path in self.grid:
                raise ValueError(f"search: {path!r} is in the grid too; leave it in one of them")

    def __init__(self, **values: Any) -> None:
        """Validate the values; every mistake is a ConfigError with a path.

        Where a plugin is named, its class, function or object will do, and as `data.set` the data themselves.
        """
        values, _held = named_objects(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(type(self), error, values) from None
        self._held = keep(values)

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, plugins: bool = True) -> Experiment:
        """Build from plain data; unknown keys, wrong types and ranges and unknown names are a ConfigError.

        Without `plugins`, those that the data name are not looked at, and torch is not loaded.
        """
        experiment = cls(**values)
        if plugins:
            with at_home(experiment.home):
                for world in experiment.worlds():
                    world.experiment._plugins()
            experiment._searchable()
        return experiment

    @classmethod
    def load(
        cls, source: str | Path, overrides: Mapping[str, Any] | None = None, *, plugins: bool = True
    ) -> Experiment:
        """Read a TOML file, or a preset by its name, with `{"train.lr": 0.1}` set on top; see `parse`."""
        values = {"methods": cls().plain()["methods"], **read(source)}
        for path, value in (overrides or {}).items():
            refuse_misspelt(values, path)
            put(values, path, value, cls().plain())
        values = settled(values, Path(source)) if str(source).endswith(".toml") else values
        return cls.parse(values, plugins=plugins)

    def replace(self, **overrides: Any) -> Experiment:
        """Make a changed copy; `__` stands for the dot of a path: `replace(train__lr=0.1)`."""
        values = self.plain()
        for path, value in overrides.items():
            refuse_misspelt(values, path.replace("__", "."))
            put(values, path.replace("__", "."), value)
        return type(self).parse(values)

    def changed(self, settings: Mapping[str, Mapping[str, Any]]) -> Experiment:
        """Copy, with other options for some methods: `{"KD-PDFL": {"tau": 0.1, "train.lr": 0.2}}`."""
        values = self.plain()
        for label, options in settings.items():
            for key, value in options.items():
                put(values["methods"][label], key, value)
        return type(self).parse(values)

    def only(self, label: str) -> Experiment:
        """Keep one method, one seed, one setting."""
        own = {"methods": {label: self.methods[label]}, "seeds": self.seeds[:1], "grid": {}, "search": {}}
        return self.model_copy(update=own)

    def searched(self, label: str) -> dict[str, tuple[Any, ...]]:
        """Select the part of `search` that is about one method, by the keys of its table."""
        own = f"methods.{label}."
        common = {path: values for path, values in self.search.items() if path.startswith("train.")}
        return common | {p.removeprefix(own): v for p, v in self.search.items() if p.startswith(own)}

    def _searchable(self) -> None:
        for label in self.methods:
            alone = self.only(label)
            for key, values in self.searched(label).items():
                for value in values:
                    try:
                        alone.changed({label: {key: value}})
                    except ConfigError as error:
                        raise ConfigError(f"search: {error}") from None

    def plain(self) -> dict[str, Any]:
        """Turn into plain data, complete, fit for TOML and JSON."""
        values: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        for method in values["methods"].values():
            if not method["train"]:
                del method["train"]
        return values

    def _repr_html_(self) -> str:
        """Show the settings that are not the default, and how much there is to run."""
        usual = flat(type(self)().plain())
        mine = {
            k: v for k, v in flat(self.plain()).items() if usual.get(k) != v and not k.startswith("methods.")
        }
        mine["methods"] = ", ".join(self.methods)
        rows = [
            [(key, False), (value if isinstance(value, str) else json.dumps(value), False)]
            for key, value in sorted(mine.items())
            if key != "name"
        ]
        worlds = f"{(n := len(self.worlds()))} world{'s'[: n != 1]}"
        note = f"{worlds} (method x seed x setting); other settings are the default."
        return html_table(("", ""), rows, title=f"Experiment {self.name}", note=note, words=("",))

    def objects(self) -> dict[str, str]:
        """List what was given as an object that only this process has: paths of keys, and their names."""
        texts = {path: value for path, value in flat(self.plain()).items() if isinstance(value, str)}
        return {path.removesuffix(".name"): name for path, name in texts.items() if is_object(name)}

    def fingerprint(self) -> str:
        """Hash everything that determines the results to the bit."""
        values = {k: v for k, v in self.plain().items() if k not in ("name", "search", "home")}
        if values["task"] == {"name": "classification"}:  # as before there were others
            del values["task"]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def worlds(self) -> tuple[World, ...]:
        """List every method x seed x setting of the grid, each as an experiment of its own; made once."""
        return self._worlds

    @cached_property
    def _worlds(self) -> tuple[World, ...]:
        check_labels_unique(self.grid)
        settings = [
            dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())
        ]
        plain = {**self.plain(), "grid": {}, "search": {}}
        return tuple(
            self._world(plain, setting, seed, label)
            for setting in settings
            for seed in self.seeds
            for label in self.methods
        )

    def _world(self, plain: Mapping[str, Any], setting: dict[str, Any], seed: int, label: str) -> World:
        own_method = {label: plain["methods"][label]}
        one = json.loads(json.dumps({**plain, "seeds": [seed], "methods": own_method}))
        for path, value in setting.items():
            put(one, path, value)
        if strangers := one["methods"].keys() - self.methods.keys():
            raise UnknownNameError("method in the grid:", min(strangers), self.methods)
        one["methods"] = {label: one["methods"][label]}
        try:
            experiment = type(self)(**one)
        except ConfigError as error:
            raise ConfigError(f"grid: {error}") from None
        train = experiment.train.model_copy(update=experiment.methods[label].train.given())
        setting_tag = world_label(setting, self.grid)
        name = f"{label} [{setting_tag}]" if setting_tag else label
        return World(name, label, seed, setting, experiment.model_copy(update={"train": train}))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Experiment:
        """Copy, with some fields changed; the copy makes its own worlds."""
        copied = super().model_copy(update=update, deep=deep)
        for made in ("_worlds", "task_kind"):
            copied.__dict__.pop(made, None)
        return copied

    def algorithm(self, label: str) -> Algorithm:
        """Build the method called `label`, with its options."""
        from coterie.core.algorithm import Algorithm

        method = self.methods[label]
        built = method.build("algorithm", f"methods.{label}")
        if not isinstance(built, Algorithm):
            raise ConfigError(
                f"methods.{label}: {method.name!r} is not an Algorithm but {type(built).__name__}"
            )
        return built

    @cached_property
    def task_kind(self) -> TaskKind:
        """The task, built with its options."""
        from coterie.core.tasks.task_factory import build_kind

        with at_home(self.home):
            return build_kind(self.task.name, self.task.options)

    @property
    def architectures(self) -> tuple[Plugin, ...]:
        """The models that clients may have, as a rule one."""
        if isinstance(self.model, Plugin):
            return (self.model,)
        return tuple(one.plugin for one in self.model.among)

    @property
    def deals_by_owner(self) -> bool:
        """True if the names of the data's owners say who has which model."""
        return not isinstance(self.model, Plugin) and any(one.owners for one in self.model.among)

    def _plugins(self) -> None:
        _ = self.task_kind
        for label in self.methods:
            self.algorithm(label)
        for model in self.architectures:
            model.build("model", "model")
        self.data.set.build("dataset", "data.set")
        self.exchange.channel.build("channel", "exchange.channel")
        self.exchange.topology.build("topology", "exchange.topology")
        self.data.partition.build("partition", "data.partition")
        for i, shift in enumerate(self.data.shift):
            shift.build("shift", f"data.shift.{i}")
        _ = self.attack.attack


class World(NamedTuple):
    """One method, one seed, one setting."""

    name: str
    """The row of the result table: the method's label, with the setting if there is a grid."""
    label: str
    seed: int
    setting: dict[str, Any]
    experiment: Experiment

    @property
    def algorithm(self) -> Algorithm:
        return self.experiment.algorithm(self.label)

    @property
    def attackers(self) -> Tensor:
        """The clients that attack, `[M]` bool."""
        return self.experiment.attack.among(self.experiment.data.clients, self.seed)
