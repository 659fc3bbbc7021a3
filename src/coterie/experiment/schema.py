"""The sections of an experiment, as frozen and validated data: each class is a table of the TOML file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from coterie.core.errors import ConfigError
from coterie.core.models.optim import Adam, Sgd
from coterie.core.precision import Precision
from coterie.core.registry import build

if TYPE_CHECKING:  # at run time where they are needed: torch takes seconds to load
    from torch import Tensor

    from coterie.core.attack import Attack

__all__ = [
    "MOST_WORLDS",
    "NO_ATTACK",
    "PLUGINS",
    "Architecture",
    "Attackers",
    "Count",
    "Data",
    "Evaluate",
    "Exchange",
    "FolderName",
    "Method",
    "Model",
    "Models",
    "Named",
    "OwnTrain",
    "Plugin",
    "Population",
    "Section",
    "Seeds",
    "Share",
    "Train",
    "named",
]

LONGEST_NAME = 200
"""Bytes of the name of an experiment, of the 255 that file systems allow: others are made from it."""
MOST_WORLDS = 10_000
"""Methods x seeds x settings of one experiment."""
NO_ATTACK = "none"
"""The attack of an experiment in which everybody is honest."""


class Section(BaseModel):
    """One table of settings: frozen, no unknown keys, no NaN; the string below a field is its help."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


PLUGINS = {
    "methods": "algorithm",
    "model": "model",
    "task": "task",
    "attack": "attack",
    "data.set": "dataset",
    "data.partition": "partition",
    "data.shift": "shift",
    "exchange.channel": "channel",
    "exchange.topology": "topology",
}
"""Kinds of the plugins that an experiment names, by the path of the name."""


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


def named(value: Any) -> Any:
    if not isinstance(value, str | Mapping | BaseModel | Sgd | Adam):
        raise ValueError('input should be a name, or a table with one, such as { name = "…" }')
    return {"name": value} if isinstance(value, str) else value


def _seeds_from_count(seeds: Any) -> Any:
    """Turn a number N into the seeds 0 to N-1."""
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
    return named(value)


def _number(kind: str) -> BeforeValidator:
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


def _weights_file(name: str) -> str:
    if not name.endswith(".safetensors"):
        raise ValueError("a file that ends in .safetensors")
    return name


Named: TypeAlias = Annotated[Plugin, BeforeValidator(_plugin)]
Real: TypeAlias = Annotated[float, _number("number")]
Whole: TypeAlias = Annotated[int, _number("integer")]
Rate: TypeAlias = Annotated[Real, Gt(0)]
Optimizer: TypeAlias = Annotated[Sgd | Adam, Field(discriminator="name"), BeforeValidator(named)]
Share: TypeAlias = Annotated[Real, Ge(0), Le(1)]
Count: TypeAlias = Annotated[Whole, Ge(1), Lt(2**31)]
FolderName: TypeAlias = Annotated[str, AfterValidator(_folder_name)]
WeightsFile: TypeAlias = Annotated[str, AfterValidator(_weights_file)]
Seeds: TypeAlias = Annotated[
    tuple[Annotated[Whole, Ge(0), Lt(2**63)], ...], BeforeValidator(_seeds_from_count)
]


def _owner(name: Any) -> Any:
    """Take owners who are called by numbers as they are written in a file."""
    return str(name) if isinstance(name, int) and not isinstance(name, bool) else name


class Architecture(Plugin):
    """A model by name, with its options, of several in one federation, and who has it."""

    share: Annotated[Real, Gt(0), Le(1)] | None = None
    """The share of those clients that no entry names; absent in all entries: equal shares."""
    groups: tuple[Annotated[Whole, Ge(0)], ...] | None = None
    """The true groups whose clients have it."""
    clients: tuple[Annotated[Whole, Ge(0)], ...] | None = None
    """The numbers of the clients that have it."""
    owners: tuple[Annotated[str, BeforeValidator(_owner)], ...] | None = None
    """The names of the owners whose clients have it, where the data name their owners."""

    @property
    def plugin(self) -> Plugin:
        """The model alone."""
        return Plugin(name=self.name, **self.options)

    @property
    def told_by(self) -> list[str]:
        """The keys that say whose it is: groups, clients or owners."""
        return [key for key in ("groups", "clients", "owners") if getattr(self, key) is not None]

    @property
    def named(self) -> bool:
        """True if its clients are told by number, group or owner."""
        return bool(self.told_by)


class Models(Section):
    """Several architectures in one federation."""

    among: tuple[Annotated[Architecture, BeforeValidator(_plugin)], ...]
    """The architectures."""
    deal: str | None = None
    """A function of your own, `"mine:deal"`: from a client's number, its group and how many training samples
    it has, the place of its architecture in the list, from 0."""

    @model_validator(mode="after")
    def _sensible(self) -> Models:
        if not self.among:
            raise ValueError("the list is empty; name at least one model")
        by_share = [one for one in self.among if not one.named]
        shares = [one.share for one in by_share if one.share is not None]
        for one in self.among:
            if one.named and one.share is not None:
                raise ValueError(f"{one.name!r} has a share and clients of its own; leave one of them out")
            if len(told := one.told_by) > 1:
                raise ValueError(f"{one.name!r} has both {' and '.join(told[:2])}; leave one of them out")
            if self.deal and (one.named or one.share is not None):
                raise ValueError(f"{one.name!r} says who has it, and so does deal; leave one of them out")
        if shares and len(shares) < len(by_share):
            bare = next(one.name for one in by_share if one.share is None)
            raise ValueError(f"{bare!r} has no share, but others have; give every one a share, or none")
        if shares and not math.isclose(sum(shares), 1, abs_tol=1e-9):
            raise ValueError(f"shares must sum to one, got {' + '.join(map(str, shares))} = {sum(shares):g}")
        return self


def _model(value: Any) -> Any:
    """Read a list as several architectures, and a name as a plugin."""
    if isinstance(value, list | tuple):
        return {"among": value}
    several = isinstance(value, Models) or (isinstance(value, Mapping) and "among" in value)
    return value if several else _plugin(value)


def _models_or_plugin(value: Any) -> str:
    return "models" if isinstance(value, Models) or "among" in value else "plugin"


Model: TypeAlias = Annotated[
    Annotated[Plugin, Tag("plugin")] | Annotated[Models, Tag("models")],
    Discriminator(_models_or_plugin),
    BeforeValidator(_model),
]
"""One model for all clients, or several."""


class Data(Section):
    """The data set, the clients and what each of them has."""

    set: Named = Plugin(name="digits")
    """The data set."""
    clients: Annotated[Count, Ge(2)] = 20
    """M, the number of clients."""
    partition: Named = Plugin(name="iid")
    """The way in which labels are dealt to clients."""
    shift: tuple[Named, ...] = ()
    """Differences of groups of clients beyond labels' frequencies: concept shift, feature shift, both."""
    sizes: tuple[Count, Count] | Literal["all"] = (15, 100)
    """Training samples of a client, drawn uniformly from this range; "all": all data are dealt out."""
    overlap: bool = True
    """True if two clients may hold the same sample; they never do where all data are dealt out."""
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


def last_before_closing(iterations: int, share: float) -> int:
    """Compute the last iteration before the closing phase, which is the last share of all iterations."""
    return iterations - round(share * iterations)


class Train(Section):
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
    init: Literal["shared", "independent", "zeros", "given"] | WeightsFile = "shared"
    """θ(0): one random model for all clients of a seed (shared), one each (independent), zeros, or for all
    seeds the weights that the model brings (given) or those of a file, "weights.safetensors", by name."""
    freeze: tuple[str, ...] = ()
    """Parts of the model that are not trained and, unless a pattern of `share` names them, not sent: roles
    (all, base, head, norm) and glob patterns, `!` before one leaves it out."""


class OwnTrain(Section):
    """Differences of one method's local learning: the size and kind of its steps, never their number."""

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


class Exchange(Section):
    """Exchanges of models between clients: how often, and with whom."""

    every: Annotated[Count, Ge(3)] = 20
    """T_ex: a star wakes at t ≡ 0, broadcasts at t ≡ 1 (mod T_ex); all other iterations are local."""
    stars: Count | Annotated[Real, Gt(0), Le(1)] = 1
    """Stars of an exchange: a number, or (with a decimal point) a share of the clients."""
    channel: Named = Plugin(name="rayleigh")
    """The channel: which links are up."""
    topology: Named = Plugin(name="all")
    """The topology: which links there are."""
    cap: Count | None = None
    """At most this many neighbours, those with the best links."""
    loss: Share = 0.0
    """Probability that a message on a link that is up is lost."""
    probe: Count | Literal["all"] = "all"
    """Samples on which a star looks at its neighbours' models: all its own, or a batch this large."""
    holdout: Annotated[Real, Gt(0), Lt(1)] = 0.2
    """The share of a client's training samples that are set aside, where the method wants that."""
    precision: Precision = "full"
    """The numbers of a message on the wire: "full" as they are, "half" in 16 bits, "int8" in 8 bits with a
    scale for each row of a tensor. What a client keeps is never rounded."""


class Population(Section):
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
    """Iterations that an absence lasts."""

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
        """The attack that attackers make; None: everybody is honest."""
        if self.name == NO_ATTACK:
            return None
        from coterie.core.attack import Attack

        built = self.build("attack", "attack")
        if not isinstance(built, Attack):
            raise ConfigError(f"attack: {self.name!r} is not an Attack but {type(built).__name__}")
        return built

    def among(self, clients: int, seed: int) -> Tensor:
        """Draw who attacks, `[M]` bool."""
        from coterie.core.attack import attackers

        return attackers(clients, 0 if self.name == NO_ATTACK else self.share, seed)


class Evaluate(Section):
    """When and on what clients are tested."""

    every: Count = 50
    """Iterations between two evaluations; the last iteration is always evaluated."""
    uniform: Count = 200
    """Test samples of the global test, which has every label equally often."""
