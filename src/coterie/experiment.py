"""What to run, as frozen and validated data, to and from TOML.

Experiment
  name, seeds, methods, model, device, dtype, compile, grid, search
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
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.home import at_home
from coterie.core.optim import Adam, Sgd
from coterie.core.registry import build, explain, folded
from coterie.core.tags import refuse_alike, tag

if TYPE_CHECKING:  # at run time where they are needed: torch takes seconds to load
    from torch import Tensor

    from coterie.core.algorithm import Algorithm
    from coterie.core.attack import Attack

__all__ = ["Experiment", "Plugin", "World", "presets", "settled"]


LONGEST_NAME = 200
"""Bytes of the name of an experiment, of the 255 that file systems allow: others are made from it."""
MOST_WORLDS = 10_000
"""Methods x seeds x settings of one experiment."""
_COMPARABLE = ("methods", "model", "data", "train", "exchange", "population", "attack", "evaluate")
"""The parts of an experiment in which the worlds of one run may differ."""
_WHOLE = ("model", "attack")
"""Those that may be compared as a whole, too."""
NO_ATTACK = "none"
"""The attack of an experiment in which everybody is honest."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Plugin(BaseModel):
    """A plugin by name, with its options: `"rayleigh"` or `{ name = "rayleigh", neighbours = 5 }`."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _finite(self) -> Plugin:
        for key, value in self.options.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{key} must be a finite number, got {value}")
        return self

    def build(self, kind: str, where: str) -> Any:
        return build(kind, self.name, self.options, where)


def _named(value: Any) -> Any:
    if not isinstance(value, str | Mapping | BaseModel | Sgd | Adam):
        raise ValueError('input should be a name, or a table with one, such as { name = "…" }')
    return {"name": value} if isinstance(value, str) else value


def _counted(seeds: Any) -> Any:
    """A number N stands for 0 to N-1."""
    if isinstance(seeds, bool | float | str | Mapping):
        raise ValueError("input should be a number of seeds, or a list of them, such as [0, 1, 2]")
    if isinstance(seeds, int) and not 1 <= seeds <= MOST_WORLDS:
        raise ValueError(f"the number of seeds must be at least 1 and at most {MOST_WORLDS}")
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


def _plugin(value: Any) -> Any:
    if not isinstance(value, str | Mapping | Plugin):
        raise ValueError(
            'input should be a name, or a table with one, such as { name = "…" }; what is your own is named '
            "by its module: 'mine:load' is load in mine.py"
        )
    return _named(value)


def _really(kind: str) -> BeforeValidator:
    def number(value: Any) -> Any:
        if isinstance(value, bool | str):
            raise ValueError(f"input should be a valid {kind}")
        return value

    return BeforeValidator(number)


def _folder_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w .+-]*", name):
        raise ValueError("expected letters, digits or ' ._+-', with a letter or digit first")
    if (length := len(name.encode())) > LONGEST_NAME:
        raise ValueError(f"it names a folder: expected at most {LONGEST_NAME} bytes, got {length}")
    return name


Named: TypeAlias = Annotated[Plugin, BeforeValidator(_plugin)]
Real: TypeAlias = Annotated[float, _really("number")]
Whole: TypeAlias = Annotated[int, _really("integer")]
Rate: TypeAlias = Annotated[Real, Gt(0)]
Optimizer: TypeAlias = Annotated[Sgd | Adam, Field(discriminator="name"), BeforeValidator(_named)]
Share: TypeAlias = Annotated[Real, Ge(0), Le(1)]
Count: TypeAlias = Annotated[Whole, Ge(1), Lt(2**31)]


class Data(_Frozen):
    """The data set, the clients and what each of them has."""

    set: Named = Plugin(name="digits")
    """The data set."""
    clients: Annotated[Count, Ge(2)] = 20
    """M, the number of clients."""
    partition: Named = Plugin(name="iid")
    """How labels are dealt to clients."""
    shift: tuple[Named, ...] = ()
    """How groups of clients differ beyond that: concept shift, feature shift, both."""
    sizes: tuple[Count, Count] | Literal["all"] = (15, 100)
    """Training samples of a client, drawn uniformly from this range; "all": all data are dealt out."""
    overlap: bool = True
    """Whether two clients may hold the same sample; not where all data are dealt out."""
    min_partition_size: Count = 2
    """The fewest training samples a client may end with where all data are dealt out."""
    validation: Annotated[Real, Ge(0), Lt(1)] = 0.2
    """Validation samples of a client, as a share of its training samples (drawn besides them)."""
    test: Count = 100
    """Personal test samples of a client."""
    test_share: Annotated[Real, Gt(0), Lt(1)] = 0.3
    """The part of the data kept for testing, if the data set has no test part of its own."""

    @model_validator(mode="after")
    def _ordered(self) -> Data:
        if self.sizes != "all" and self.sizes[0] > self.sizes[1]:
            raise ValueError(f"sizes = [smallest, largest] must be in order, got {list(self.sizes)}")
        return self


class Train(_Frozen):
    """Local learning, the same for every method."""

    iterations: Count = 1000
    """T, the number of iterations."""
    batch: Count = 16
    """Samples of a mini-batch, drawn uniformly from the client's own."""
    lr: Rate = 0.05
    """The size of a local step."""
    optimizer: Optimizer = Sgd()
    """sgd (momentum, weight_decay) or adam (beta1, beta2, eps, weight_decay)."""
    personalize: Annotated[Real, Ge(0), Lt(1)] = 0.1
    """The last part of the iterations is local only, for every method alike."""
    personalize_lr: Rate | None = None
    """The learning rate of that closing phase; absent: `lr`."""
    init: Literal["shared", "independent", "zeros", "given"] = "shared"
    """θ(0): one random model for all clients of a seed (shared), one each (independent), zeros, or for all
    seeds the weights that the model brings (given)."""


class OwnTrain(_Frozen):
    """Where one method's local learning differs: in the size and kind of its steps, never in their number."""

    lr: Rate | None = None
    optimizer: Optimizer | None = None
    personalize_lr: Rate | None = None

    @model_validator(mode="before")
    @classmethod
    def _same_schedule(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and (others := values.keys() - cls.model_fields.keys()):
            raise ValueError(
                f"{min(map(str, others))!r} cannot be set for one method, since all of them have the same "
                f"schedule; expected {', '.join(cls.model_fields)}"
            )
        return values

    def given(self) -> dict[str, Any]:
        return {key: value for key, value in self if value is not None}


class Method(Plugin):
    """An algorithm by name, with its options and, under `train`, its own learning rates and optimiser."""

    train: OwnTrain = OwnTrain()


class Exchange(_Frozen):
    """How often and with whom clients exchange models."""

    every: Annotated[Count, Ge(3)] = 20
    """T_ex: a star wakes at t ≡ 0, broadcasts at t ≡ 1 (mod T_ex); all other iterations are local."""
    stars: Count | Annotated[Real, Gt(0), Le(1)] = 1
    """Stars of an exchange: a number, or (with a decimal point) a share of the clients."""
    channel: Named = Plugin(name="rayleigh")
    """Which links are up."""
    topology: Named = Plugin(name="all")
    """Which links there are."""
    cap: Count | None = None
    """At most this many neighbours, those with the best links."""
    loss: Share = 0.0
    """Probability that a message on a link that is up is lost."""
    probe: Count | Literal["all"] = "all"
    """Samples on which a star looks at its neighbours' models: all its own, or a batch this large."""
    holdout: Annotated[Real, Gt(0), Lt(1)] = 0.2
    """The share of a client's training samples that are set aside, where the method wants that."""


class Population(_Frozen):
    """Clients of unequal speed, that come late, leave and come back."""

    speed: tuple[Annotated[Real, Gt(0), Le(1)], Annotated[Real, Gt(0), Le(1)]] = (1.0, 1.0)
    """Local steps per iteration, drawn uniformly for each client from this range."""
    late: Share = 0.0
    """The share of clients that join only later, within the first half."""
    leave: Share = 0.0
    """The share of clients that leave for good, within the second half."""
    away: Annotated[Real, Ge(0), Lt(1)] = 0.0
    """The share of the time that a client is away."""
    spell: Count = 50
    """How many iterations an absence lasts."""

    @model_validator(mode="after")
    def _ordered(self) -> Population:
        if self.speed[0] > self.speed[1]:
            raise ValueError(f"speed = [slowest, fastest] must be in order, got {list(self.speed)}")
        return self


class Attackers(Plugin):
    """An attack by name, with its options, and who attacks; `none`: everybody is honest."""

    name: str = NO_ATTACK
    share: Annotated[Real, Ge(0), Lt(1)] = 0.1
    """The share of the clients that attack, at least one, drawn for each seed."""

    @property
    def attack(self) -> Attack | None:
        """What attackers do, or None."""
        if self.name == NO_ATTACK:
            return None
        from coterie.core.attack import Attack

        built = self.build("attack", "attack")
        if not isinstance(built, Attack):
            raise ConfigError(f"attack: {self.name!r} is not an Attack but {type(built).__name__}")
        return built

    def among(self, clients: int, seed: int) -> Tensor:
        """Who attacks, `[M]` bool."""
        from coterie.core.attack import attackers

        return attackers(clients, 0 if self.name == NO_ATTACK else self.share, seed)


class Evaluate(_Frozen):
    """When and on what clients are tested."""

    every: Count = 50
    """Iterations between two evaluations; the last iteration is always evaluated."""
    uniform: Count = 200
    """Test samples of the global test, which has every label equally often."""


class Experiment(_Frozen):
    """Everything that determines a run."""

    name: Annotated[str, AfterValidator(_folder_name)] = "experiment"
    """What the run folder is called."""
    seeds: Annotated[tuple[Annotated[Whole, Ge(0), Lt(2**63)], ...], BeforeValidator(_counted)] = (0, 1, 2)
    """Every method is run once with each of these; a number N stands for 0 to N-1."""
    methods: dict[str, Annotated[Method, BeforeValidator(_named)]] = {
        n: Method(name=n) for n in ("Local", "FedAvg", "FedAvg+", "KD-PDFL")
    }
    """The rows of the result table."""
    model: Named = Plugin(name="mlp")
    """The model that every client has."""
    data: Data = Data()
    train: Train = Train()
    exchange: Exchange = Exchange()
    population: Population = Population()
    attack: Annotated[Attackers, BeforeValidator(_named)] = Attackers()
    """What dishonest clients do, and which share of all clients they are; only the others are tested."""
    evaluate: Evaluate = Evaluate()
    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1 ..."""
    dtype: Literal["float32", "float64"] = "float32"
    """How precisely to compute: float32 or float64."""
    tf32: bool = True
    """On a GPU, whether float32 matrices are multiplied in TF32: faster, with 10 bits of mantissa."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether local steps are compiled: on, off, or auto, if the run is long enough to win by it."""
    grid: dict[str, tuple[Any, ...]] = {}
    """Settings to compare: the path of a key and its values, such as `"train.lr" = [0.01, 0.1]`."""
    search: dict[str, tuple[Any, ...]] = {}
    """What `coterie tune` tries: `train.lr`, `train.personalize_lr` or `train.optimizer` (for every method)
    or `methods.LABEL.OPTION`, and the values; empty: learning rates, and what each method proposes."""
    home: Path | None = None
    """Where modules and data files of your own are looked for first; absent: beside this file."""

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

    def __init__(self, **values: Any) -> None:
        """Every mistake is a ConfigError with a path."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            for item in error.errors():
                if item["type"] == "extra_forbidden":
                    *path, key = (str(p) for p in item["loc"])
                    raise UnknownNameError(
                        f"key {'.'.join((*path, key))!r}:", key, _keys(type(self), path)
                    ) from None
            raise ConfigError(explain(error, values=values)) from None

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, plugins: bool = True) -> Experiment:
        """From plain data; unknown keys, wrong types and ranges and unknown names are a ConfigError.

        Without `plugins`, those that it names are not looked at, and torch is not loaded.
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
        """From a TOML file or the name of a preset, with `{"train.lr": 0.1}` set on top; see `parse`."""
        values = {"methods": cls().plain()["methods"], **_read(source)}
        for path, value in (overrides or {}).items():
            _refuse_misspelt(values, path)
            _put(values, path, value, cls().plain())
        values = settled(values, Path(source)) if str(source).endswith(".toml") else values
        return cls.parse(values, plugins=plugins)

    def replace(self, **overrides: Any) -> Experiment:
        """A changed copy; `__` stands for the dot of a path: `replace(train__lr=0.1)`."""
        values = self.plain()
        for path, value in overrides.items():
            _refuse_misspelt(values, path.replace("__", "."))
            _put(values, path.replace("__", "."), value)
        return type(self).parse(values)

    def changed(self, settings: Mapping[str, Mapping[str, Any]]) -> Experiment:
        """A copy with other options for some methods: `{"KD-PDFL": {"tau": 0.1, "train.lr": 0.2}}`."""
        values = self.plain()
        for label, options in settings.items():
            for key, value in options.items():
                _put(values["methods"][label], key, value)
        return type(self).parse(values)

    def only(self, label: str) -> Experiment:
        """One method, one seed, one setting."""
        own = {"methods": {label: self.methods[label]}, "seeds": self.seeds[:1], "grid": {}, "search": {}}
        return self.model_copy(update=own)

    def searched(self, label: str) -> dict[str, tuple[Any, ...]]:
        """The part of `search` that is about one method, by the keys of its table."""
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
        """As plain data, complete, fit for TOML and JSON."""
        values: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        for method in values["methods"].values():
            if not method["train"]:
                del method["train"]
        return values

    def fingerprint(self) -> str:
        """A hash of everything that determines the results to the bit."""
        values = {k: v for k, v in self.plain().items() if k not in ("name", "search", "home")}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def worlds(self) -> Iterator[World]:
        """Every method x seed x setting of the grid, as an experiment of its own."""
        refuse_alike(self.grid)
        plain = {**self.plain(), "grid": {}, "search": {}}
        for values in itertools.product(*self.grid.values()):
            setting = dict(zip(self.grid, values, strict=True))
            called = tag(setting, self.grid)
            for seed in self.seeds:
                for label in self.methods:
                    one = json.loads(
                        json.dumps({**plain, "seeds": [seed], "methods": {label: plain["methods"][label]}})
                    )
                    for path, value in setting.items():
                        _put(one, path, value)
                    if strangers := one["methods"].keys() - self.methods.keys():
                        raise UnknownNameError("method in the grid:", min(strangers), self.methods)
                    one["methods"] = {label: one["methods"][label]}
                    try:
                        experiment = type(self)(**one)
                    except ConfigError as error:
                        raise ConfigError(f"grid: {error}") from None
                    name = f"{label} [{called}]" if called else label
                    own = experiment.methods[label].train.given()
                    train = experiment.train.model_copy(update=own)
                    yield World(name, label, seed, setting, experiment.model_copy(update={"train": train}))

    def algorithm(self, label: str) -> Algorithm:
        """The method called `label`, with its options."""
        from coterie.core.algorithm import Algorithm

        method = self.methods[label]
        built = method.build("algorithm", f"methods.{label}")
        if not isinstance(built, Algorithm):
            raise ConfigError(
                f"methods.{label}: {method.name!r} is not an Algorithm but {type(built).__name__}"
            )
        return built

    def _plugins(self) -> None:
        for label in self.methods:
            self.algorithm(label)
        self.model.build("model", "model")
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
        """Who attacks, `[M]` bool."""
        return self.experiment.attack.among(self.experiment.data.clients, self.seed)


def presets() -> dict[str, str]:
    """The experiments that come with the package, and the first comment line of each."""
    folder = resources.files("coterie") / "presets"
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".toml"):
            found[file.name.removesuffix(".toml")] = file.read_text("utf-8").partition("\n")[0].lstrip("# ")
    return dict(sorted(found.items()))


def _read(source: str | Path) -> dict[str, Any]:
    if isinstance(source, str) and not source.endswith(".toml"):
        if source not in presets():
            if Path(file := f"{source}.toml").is_file():
                raise ConfigError(f"there is no preset {source!r}, but a file: name it in full, {file}")
            raise UnknownNameError("preset (a file must end in .toml)", source, presets())
        text = (resources.files("coterie") / "presets" / f"{source}.toml").read_text("utf-8")
    else:
        try:
            text = Path(source).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from None
    if not values:
        raise ConfigError(f"{source} is empty: expected an experiment, such as `coterie new` writes")
    return values


def settled(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The settings of a file with its folder as `home`, if anything they name lies there or is a module.

    So they can be resumed from anywhere; a `home` that they bring along stays, unless it is elsewhere now.
    """
    folder, given = file.resolve().parent, values.get("home", "")
    if not isinstance(given, str):
        return dict(values)
    if given and os.path.isdir(folder / given):
        return {**values, "home": str(folder / given)}
    own = any(":" in text or (text and os.path.exists(folder / text)) for text in _texts(values))
    return {**values, "home": str(folder)} if own else {k: v for k, v in values.items() if k != "home"}


def _texts(values: Any) -> Iterator[str]:
    """All text in nested tables and lists."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list | tuple):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from _texts(value)


def _put(values: dict[str, Any], path: str, value: Any, defaults: Any = None) -> None:
    """Set the value at a dotted path; a plugin that is not there yet is the one of the defaults."""
    *tables, key = path.split(".")
    for table in tables:
        defaults = defaults.get(table) if isinstance(defaults, dict) else None
        inner = values.get(table)
        if inner is None and isinstance(defaults, dict) and "name" in defaults:
            inner = {"name": defaults["name"]}
        if isinstance(inner, str):  # a plugin given by its name alone
            inner = {"name": inner}
        elif isinstance(inner, list | tuple) and table == "methods":
            inner = {name: {} for name in inner}
        elif inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"{path}: {table!r} is a value and has no keys")
        values[table] = {} if inner is None else inner
        values = values[table]
    values[key] = value


def _refuse_misspelt(values: Mapping[str, Any], path: str) -> None:
    """A change of a method that is there under a slightly other name would add one, and change nothing."""
    table, _, rest = path.partition(".")
    label = rest.partition(".")[0]
    labels = values.get("methods")
    if table != "methods" or not isinstance(labels, Mapping | list | tuple) or label in labels:
        return
    for there in labels:
        if isinstance(there, str) and folded(there) == folded(label):
            raise ConfigError(f"{path}: there is no method {label!r}; did you mean {there!r}?")


def _keys(cls: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        inner = cls.model_fields[part].annotation if part in cls.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        cls = inner
    return list(cls.model_fields)
