"""Experiments: defaults, mistakes with the path of their key, grids, fingerprints."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.models.optim import Adam, Sgd
from coterie.experiment import Experiment, presets

parse = Experiment.parse


def nested(path: str, value: Any) -> dict[str, Any]:
    """`{"train": {"lr": value}}` for `train.lr`."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return dict(value)


def test_the_defaults_are_valid() -> None:
    e = parse({})
    assert e == Experiment()
    assert list(e.methods) == ["Local", "FedAvg", "FedAvg+", "KD-PDFL"]
    assert e.seeds == (0, 1, 2)
    assert (e.data.clients, e.train.personalize, e.exchange.every) == (20, 0.1, 20)


FULL = """
name = "all of it"
seeds = [3, 1]
model = { name = "mlp", hidden = [8] }
dtype = "float64"

[methods]
Local = {}
"FedAvg+" = { switch = 10 }
mine = { name = "KD-PDFL", reading = "paper", mu1 = 2, share = ["*.weight"] }

[data]
clients = 6
partition = { name = "dirichlet", alpha = 0.5 }
shift = ["concept", { name = "rotate" }]

[train]
optimizer = { name = "adam", beta1 = 0.8 }
personalize_lr = 0.01

[exchange]
stars = 0.5
channel = { name = "rayleigh", neighbours = 3 }
topology = "ring"
cap = 2
probe = 8

[grid]
"train.lr" = [0.1, 0.2]
"""


@pytest.mark.parametrize("text", ["", FULL])
def test_plain_data_there_and_back(text: str) -> None:
    e = parse(tomllib.loads(text))
    again = parse(e.plain())
    assert again == e
    assert again.plain() == e.plain()
    assert again.fingerprint() == e.fingerprint()


def test_a_full_experiment_says_what_was_written() -> None:
    e = parse(tomllib.loads(FULL))
    assert e.algorithm("mine").mu1 == 2.0  # type: ignore[attr-defined]
    assert e.algorithm("mine").share == ("*.weight",)
    assert e.train.optimizer == Adam(beta1=0.8)
    assert [s.name for s in e.data.shift] == ["concept", "rotate"]
    assert e.exchange.channel.options == {"neighbours": 3}
    assert isinstance(e.exchange.stars, float)


def test_a_plugin_by_its_name_alone_is_the_same_as_a_table() -> None:
    assert parse(nested("exchange.channel", "ideal")) == parse(nested("exchange.channel", {"name": "ideal"}))
    assert parse(nested("train.optimizer", "sgd")).train.optimizer == Sgd()


@pytest.mark.parametrize(("stars", "kind"), [(1, int), (3, int), (1.0, float), (0.25, float)])
def test_stars_are_a_number_or_a_share(stars: float, kind: type) -> None:
    for e in (parse(nested("exchange.stars", stars)), parse(parse(nested("exchange.stars", stars)).plain())):
        assert e.exchange.stars == stars
        assert type(e.exchange.stars) is kind


def test_an_experiment_is_frozen() -> None:
    with pytest.raises(ValidationError):
        parse({}).train.lr = 1.0


# Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", ""),
        ("name", 3),
        ("seeds", 0),
        ("seeds", -1),
        ("seeds", [0, 0]),
        ("seeds", []),
        ("seeds", [-1]),
        ("seeds", ["a"]),
        ("seeds", True),
        ("seeds", [True]),
        ("seeds", 1.5),
        ("methods", []),
        ("methods", {}),
        ("methods", 3),
        ("methods", "Local"),
        ("methods", [3]),
        ("methods", [["Local"]]),
        ("methods", {"Local": 3}),
        ("model", 3),
        ("dtype", "float16"),
        ("compile", "maybe"),
        ("data", 3),
        ("data", []),
        ("data.set", 3),
        ("data.clients", 1),
        ("data.clients", 0),
        ("data.clients", 2.5),
        ("data.clients", "many"),
        ("data.clients", "6"),
        ("data.sizes", [2, "5"]),
        ("data.sizes", [5, 2]),
        ("data.sizes", [0, 2]),
        ("data.sizes", [5]),
        ("data.sizes", 5),
        ("data.sizes", "some"),
        ("data.overlap", "perhaps"),
        ("data.min_partition_size", 0),
        ("data.validation", 1.0),
        ("data.validation", -0.1),
        ("data.test", 0),
        ("data.test_share", 0.0),
        ("data.test_share", 1.0),
        ("data.shift", "concept"),
        ("train", "fast"),
        ("train.iterations", 0),
        ("train.iterations", "many"),
        ("train.batch", 0),
        ("train.lr", 0),
        ("train.lr", -0.1),
        ("train.lr", "fast"),
        ("train.lr", "0.1"),
        ("train.lr", True),
        ("train.lr", float("inf")),
        ("train.lr", float("nan")),
        ("train.lr", [0.1]),
        ("train.personalize", 1.0),
        ("train.personalize", -0.1),
        ("train.personalize_lr", 0),
        ("train.init", "ones"),
        ("train.optimizer", "rmsprop"),
        ("train.optimizer", {"name": "sgd", "momentum": 1.0}),
        ("train.optimizer", {"name": "sgd", "momentun": 0.9}),
        ("train.optimizer", {"name": "sgd", "weight_decay": True}),
        ("train.optimizer", {"name": "adam", "beta1": "0.9"}),
        ("train.optimizer", {"name": "adam", "beta1": -0.1}),
        ("train.optimizer", {"name": "adam", "eps": 0}),
        ("exchange.every", 2),
        ("exchange.every", 0),
        ("exchange.stars", 0),
        ("exchange.stars", 0.0),
        ("exchange.stars", 1.5),
        ("exchange.stars", -1),
        ("exchange.stars", True),
        ("exchange.cap", 0),
        ("exchange.loss", 1.1),
        ("exchange.loss", -0.1),
        ("exchange.probe", 0),
        ("exchange.probe", "some"),
        ("exchange.precision", "int4"),
        ("exchange.precision", 8),
        ("exchange.channel", 3),
        ("exchange.channel", {"neighbours": 3}),
        ("population.speed", [0.0, 1.0]),
        ("population.speed", [1.0, 0.5]),
        ("population.late", 2),
        ("population.late", True),
        ("attack", {"name": "sign_flip", "share": "0.3"}),
        ("population.leave", -1),
        ("population.away", 1.0),
        ("population.spell", 0),
        ("evaluate.every", 0),
        ("evaluate.uniform", 0),
        ("grid", {"train.lr": 0.1}),
        ("grid", {"train.lr": []}),
        ("grid", 3),
        ("search", {"train.lr": []}),
        ("search", 3),
    ],
)
def test_a_bad_value_is_one_sentence_with_the_path_of_its_key(path: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(nested(path, value))
    message = str(caught.value)
    table = path.partition(".")[0]
    assert (
        path in message or f"{table}: {path.rpartition('.')[2]} " in message or path in ("seeds", "methods")
    )
    assert table in message
    assert "\n" not in message
    assert "pydantic" not in message
    assert "constrained" not in message  # the path is the user's, not that of a union's branch


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "data.partition",
            {"name": "dirichlet", "alpha": 0},
            "data.partition.alpha: .*greater than 0, got 0",
        ),
        ("data.partition", {"name": "dirichlet", "alpha": -1.0}, "data.partition.alpha"),
        ("data.partition", {"name": "dirichlet", "alfa": 1}, "data.partition.alfa.*Did you mean 'alpha'"),
        ("exchange.channel", {"name": "rayleigh", "neighbours": 0}, "exchange.channel.neighbours"),
        ("methods", {"KD-PDFL": {"tau": -1}}, "methods.KD-PDFL.tau: .*got -1"),
        ("methods", {"mine": {"name": "KD-PDFL", "mu": 1}}, "'methods.mine.mu' .*Did you mean 'mu"),
        ("methods", {"KD-PDFL": {"tau": date(2020, 1, 1)}}, "methods.KD-PDFL.tau"),
        ("methods", {"FedAvg+": {"beta": 1.5}}, r"methods.FedAvg\+.beta"),
        ("methods", {"KD-PDFL": {"distance": "nearness"}}, "methods.KD-PDFL.*unknown distance 'nearness'"),
        ("data.shift", [{"name": "concept", "groups": 0}], "data.shift.0.groups"),
        ("data.shift", ["concept", {"name": "concept", "grups": 3}], "data.shift.1.grups"),
    ],
)
def test_a_bad_option_of_a_plugin(path: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(nested(path, value))


@pytest.mark.parametrize(
    ("path", "value", "kind", "nearest"),
    [
        ("methods", ["Local", "KD-PDLF"], "algorithm", "KD-PDFL"),
        ("methods", {"mine": "Fedavg++"}, "algorithm", "FedAvg+"),
        ("exchange.channel", "raleigh", "channel", "rayleigh"),
        ("exchange.topology", "rings", "topology", "ring"),
        ("data.partition", "dirichlett", "partition", "dirichlet"),
        ("data.shift", ["concepts"], "shift", "concept"),
        ("data.set", "digitz", "dataset", "digits"),
        ("model", "mpl", "model", "mlp"),
    ],
)
def test_an_unknown_plugin_lists_and_suggests(path: str, value: Any, kind: str, nearest: str) -> None:
    with pytest.raises(
        UnknownNameError, match=f"unknown {kind} .*known: .*Did you mean {nearest!r}".replace("+", r"\+")
    ):
        parse(nested(path, value))


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("sedes", "seeds"),
        ("train.learning_lr", "personalize_lr"),
        ("train.bach", "batch"),
        ("exchange.evry", "every"),
        ("population.sped", "speed"),
        ("data.client", "clients"),
    ],
)
def test_an_unknown_key_is_named_with_its_path_and_the_nearest(path: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown key '{path}'.*known: .*Did you mean '{nearest}'"):
        parse(nested(path, 1))


def test_an_unknown_option_of_the_optimiser_names_the_key() -> None:
    with pytest.raises(ConfigError, match=r"train\.optimizer\.momentun"):
        parse(nested("train.optimizer", {"name": "sgd", "momentun": 0.9}))


# Shorthands -------------------------------------------------------------------------------------


def test_seeds_by_their_number() -> None:
    assert parse({"seeds": 4}).seeds == (0, 1, 2, 3)
    assert parse({"seeds": [7, 5]}).seeds == (7, 5)


def test_methods_as_a_list_a_name_or_a_table() -> None:
    e = parse({"methods": ["Local", "kd_pdfl"]})
    assert list(e.methods) == ["Local", "kd_pdfl"]
    assert type(e.algorithm("kd_pdfl")).__name__ == "KDPDFL"
    e = parse(
        {
            "methods": {
                "quick": "FedAvg",
                "sure": {"name": "KD-PDFL", "reading": "paper", "step": "sign"},
                "Local": {},
            }
        }
    )
    assert [type(e.algorithm(label)).__name__ for label in e.methods] == ["FedAvg", "KDPDFL", "Local"]


# Grids ------------------------------------------------------------------------------------------


def test_worlds_without_a_grid() -> None:
    worlds = list(parse({"seeds": 2, "methods": ["Local", "FedAvg"]}).worlds())
    assert [(w.name, w.seed) for w in worlds] == [("Local", 0), ("FedAvg", 0), ("Local", 1), ("FedAvg", 1)]
    assert [w.experiment.seeds for w in worlds] == [(0,), (0,), (1,), (1,)]
    assert [list(w.experiment.methods) for w in worlds[:2]] == [["Local"], ["FedAvg"]]
    assert type(worlds[1].algorithm).__name__ == "FedAvg"


def test_a_grid_is_the_product_of_its_values() -> None:
    e = parse(
        {
            "seeds": 2,
            "methods": ["Local", "FedAvg"],
            "grid": {"train.lr": [0.1, 0.2], "exchange.channel.name": ["ideal", "bernoulli"]},
        }
    )
    worlds = list(e.worlds())
    assert len(worlds) == 2 * 2 * 2 * 2
    assert [w.name for w in worlds[:5]] == [
        "Local [lr=0.1, name=ideal]",
        "FedAvg [lr=0.1, name=ideal]",
        "Local [lr=0.1, name=ideal]",
        "FedAvg [lr=0.1, name=ideal]",
        "Local [lr=0.1, name=bernoulli]",
    ]
    last = worlds[-1]
    assert last.setting == {"train.lr": 0.2, "exchange.channel.name": "bernoulli"}
    assert (last.experiment.train.lr, last.experiment.exchange.channel.name) == (0.2, "bernoulli")
    assert last.experiment.grid == {}


def names(values: list[Any]) -> list[str]:
    """The rows of a grid over attacks."""
    return [w.name for w in parse({"seeds": 1, "methods": ["Local"], "grid": {"attack": values}}).worlds()]


def test_different_settings_never_share_a_row() -> None:
    share, scale, other = ({"name": "gaussian_noise", **o} for o in ({"share": 0.3}, {"scale": 0.3}, {}))
    assert names([share, other]) == ["Local [attack=gaussian_noise 0.3]", "Local [attack=gaussian_noise]"]
    assert names([share, scale, other]) == [
        "Local [attack=gaussian_noise share=0.3]",
        "Local [attack=gaussian_noise scale=0.3]",
        "Local [attack=gaussian_noise]",
    ]
    with pytest.raises(ConfigError, match=r"grid: 'attack' has two values .*both called 'gaussian_noise'"):
        names(["gaussian_noise", other])


def test_a_grid_over_an_option_of_one_method_does_not_touch_the_others() -> None:
    e = parse({"seeds": 1, "methods": ["Local", "KD-PDFL"], "grid": {"methods.KD-PDFL.tau": [0.5, 2.0]}})
    worlds = list(e.worlds())
    assert all(list(w.experiment.methods) == [w.label] for w in worlds)
    tau = [w.algorithm.tau for w in worlds if w.label == "KD-PDFL"]  # type: ignore[attr-defined]
    assert tau == [0.5, 2.0]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"train.lrr": [0.1]}, "grid: .*train.lrr"),
        ({"trian.lr": [0.1]}, "grid: .*trian"),
        ({"train.lr": [0.1, -1]}, "grid: train.lr: .*got -1"),
        ({"train.lr.x": [1]}, "train.lr.x: 'lr' is a value"),
        ({"methods.KD-PDFL.mu": [1]}, "methods.KD-PDFL.mu"),
        ({"methods.Foo.tau": [1]}, "Foo"),
        ({"exchange.channel": ["ideal", "raleigh"]}, "unknown channel 'raleigh'"),
    ],
)
def test_a_grid_over_what_cannot_be_is_refused(grid: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse({"grid": grid})


# A method's own training, what to search -----------------------------------------------------


def test_a_method_may_have_its_own_learning_rates_and_optimiser() -> None:
    own = {"lr": 0.3, "personalize_lr": 0.01, "optimizer": "adam"}
    e = parse(
        {"seeds": 1, "methods": {"Local": {}, "mine": {"name": "FedAvg", "share": "base", "train": own}}}
    )
    local, mine = (world.experiment.train for world in e.worlds())
    assert local == e.train
    assert (mine.lr, mine.personalize_lr, mine.optimizer) == (0.3, 0.01, Adam())
    assert (mine.iterations, mine.batch, mine.personalize) == (1000, 16, 0.1)
    assert e.methods["mine"].options == {"share": "base"}
    assert parse(e.plain()) == e
    assert e.fingerprint() != e.replace(methods__mine__train__lr=0.2).fingerprint()
    assert "train" not in e.plain()["methods"]["Local"]


def test_a_grid_may_be_over_a_methods_own_training() -> None:
    e = parse({"seeds": 1, "methods": ["Local", "FedAvg"], "grid": {"methods.FedAvg.train.lr": [1, 2]}})
    assert [w.experiment.train.lr for w in e.worlds()] == [0.05, 1.0, 0.05, 2.0]


@pytest.mark.parametrize("key", ["iterations", "batch", "personalize", "init", "speed"])
def test_a_method_may_not_have_its_own_schedule(key: str) -> None:
    with pytest.raises(
        ConfigError, match=f"methods.FedAvg.train: '{key}' cannot .* lr, optimizer, personalize_lr"
    ):
        parse(nested(f"methods.FedAvg.train.{key}", 3))
    with pytest.raises(ConfigError, match=f"grid: methods.FedAvg.train: '{key}' cannot"):
        parse({"methods": ["FedAvg"], "grid": {f"methods.FedAvg.train.{key}": [3]}})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (nested("methods.FedAvg.train.lr", 0), r"methods\.FedAvg\.train\.lr: .*greater than 0, got 0"),
        (
            nested("methods.FedAvg.train.optimizer", "sdg"),
            r"methods\.FedAvg\.train\.optimizer: .*'sgd', 'adam'",
        ),
        (nested("methods.FedAvg.train", 3), r"methods\.FedAvg\.train: .*got 3"),
        (
            {**nested("methods.FedAvg.train.lr", 1), "grid": {"train.lr": [1]}},
            "grid: 'train.lr' has no say over 'FedAvg'",
        ),
        (
            {**nested("methods.FedAvg.train.optimizer", "adam"), "grid": {"train.optimizer.momentum": [0.5]}},
            "grid: 'train.optimizer.momentum' has no say over 'FedAvg'",
        ),
    ],
)
def test_a_mistake_in_a_methods_own_training(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(values)


def test_other_options_for_some_methods() -> None:
    e = parse({"methods": {"a. b": {"name": "KD-PDFL", "reading": "paper", "mu1": 2.0}, "Local": {}}})
    new = e.changed({"a. b": {"mu2": 0.25, "train.lr": 0.5}})
    assert new.methods["a. b"].options == {"reading": "paper", "mu1": 2.0, "mu2": 0.25}
    assert new.methods["a. b"].train.given() == {"lr": 0.5}
    assert new.methods["Local"] == e.methods["Local"]
    with pytest.raises(ConfigError, match=r"methods\.Local\.mu2"):
        e.changed({"Local": {"mu2": 1}})


def test_what_to_search_for_each_method() -> None:
    search = {"train.lr": [1, 2], "methods.KD-PDFL.tau": [0.5, 1], "methods.Local.train.lr": [3]}
    e = parse({"search": search})
    assert parse(e.plain()) == e
    assert e.searched("FedAvg") == {"train.lr": (1, 2)}
    assert e.searched("KD-PDFL") == {"train.lr": (1, 2), "tau": (0.5, 1)}
    assert e.searched("Local") == {"train.lr": (3,)}
    assert all(world.experiment.search == {} for world in e.worlds())


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"train.lr": []}, "search: 'train.lr' has no values"),
        ({"train.lr": [1, 1]}, "search: 'train.lr' has a value twice"),
        ({"train.lr": [1, -1]}, r"search: methods\.Local\.train\.lr: .*got -1"),
        ({"train.batch": [1]}, "search: 'train.batch' .*train.lr, train.optimizer, train.personalize_lr or"),
        ({"exchange.every": [5]}, "search: 'exchange.every' is not a setting in which methods may differ"),
        ({"lr": [5]}, "search: 'lr' is not"),
        ({"methods.Nobody.tau": [1]}, "LABEL is one of Local, FedAvg"),
        ({"methods.KD-PDFL": [{}]}, "search: 'methods.KD-PDFL' is not"),
        ({"methods.KD-PDFL.mu3": [1]}, "search: .*'methods.KD-PDFL.mu3' .*Did you mean 'mu"),
        ({"methods.KD-PDFL.tau": [1, "x"]}, "search: methods.KD-PDFL.tau: .*got 'x'"),
        ({"methods.KD-PDFL.train.batch": [1]}, "search: 'methods.KD-PDFL.train.batch' is not"),
        ({"methods.KD-PDFL.train.optimizer.momentum": [1]}, "momentum' is not"),
        ({"methods.KD-PDFL.train": [{}]}, "search: 'methods.KD-PDFL.train' is not"),
        ({"methods.KD-PDFL.name": ["FedAvg"]}, "search: 'methods.KD-PDFL.name' is not"),
    ],
)
def test_a_search_over_what_cannot_be_is_refused(search: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse({"search": search})


def test_a_setting_is_compared_or_searched_not_both() -> None:
    with pytest.raises(ConfigError, match=r"search: 'train\.lr' is in the grid too"):
        parse({"search": {"train.lr": [1]}, "grid": {"train.lr": [1]}})


# Changed copies, files --------------------------------------------------------------------------


def test_replace_by_paths() -> None:
    e = parse({})
    new = e.replace(train__lr=0.3, data__partition__name="dirichlet", data__partition__alpha=0.7, seeds=1)
    assert (new.train.lr, new.seeds) == (0.3, (0,))
    assert new.data.partition.options == {"alpha": 0.7}
    assert e.train.lr == 0.05
    with pytest.raises(UnknownNameError, match=r"^unknown key 'train\.lrr'; known: .*Did you mean 'lr'\?$"):
        e.replace(train__lrr=1)
    with pytest.raises(ConfigError, match=r"train\.lr: "):
        e.replace(train__lr=-1)


def test_a_file_with_settings_on_top(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('seeds = 1\nmethods = ["Local", "KD-PDFL"]\n[exchange]\nchannel = "rayleigh"\n')
    top = {"exchange.channel.neighbours": 7, "methods.KD-PDFL.tau": 3, "train.lr": 0.2}
    e = Experiment.load(file, top)
    assert Experiment.load(str(file), top) == e
    assert e.exchange.channel.options == {"neighbours": 7}
    assert e.algorithm("KD-PDFL").tau == 3  # type: ignore[attr-defined]
    assert list(e.methods) == ["Local", "KD-PDFL"]


@pytest.mark.parametrize("label", ["KDPDFL", "kd-pdfl", "KD_PDFL"])
def test_a_change_of_a_method_under_a_slightly_other_name(label: str) -> None:
    with pytest.raises(ConfigError, match=rf"methods\.{label}\.tau: .*did you mean 'KD-PDFL'"):
        Experiment.load("quickstart", {f"methods.{label}.tau": 2})
    with pytest.raises(ConfigError, match="did you mean 'KD-PDFL'"):
        Experiment().replace(**{f"methods__{label}__tau": 2})
    both = {"methods": ["KD-PDFL"], f"methods.{label}x.name": "KD-PDFL"}
    assert list(Experiment.load("quickstart", both).methods) == ["KD-PDFL", f"{label}x"]


def test_a_file_without_methods_has_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("seeds = 1\n")
    e = Experiment.load(file, {"methods.KD-PDFL.tau": 0.5})
    assert list(e.methods) == ["Local", "FedAvg", "FedAvg+", "KD-PDFL"]
    assert e.algorithm("KD-PDFL").tau == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seeds = [1", "is not valid TOML"),
        (b"\xff\xfe", "cannot read"),
        (b"[train]\nlr = 'x'\n", "train.lr: "),
        (b"seeds = 1\nseeds = 2\n", "is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Experiment.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml: No such file"):
        Experiment.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        Experiment.load(tmp_path)


def test_presets_are_described_and_valid() -> None:
    for name, line in presets().items():
        assert line
        assert Experiment.load(name).methods
    with pytest.raises(UnknownNameError, match=r"unknown preset .*must end in \.toml"):
        Experiment.load("no such preset")


# The fingerprint --------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"name": "other"}, {"search": {"train.lr": [1]}}])
def test_the_fingerprint_stays_where_results_cannot_change(change: dict[str, Any]) -> None:
    assert parse(change).fingerprint() == parse({}).fingerprint()


def test_the_fingerprint_moves_with_everything_else() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"seeds": 2},
        {"seeds": [1, 0]},
        {"methods": ["Local"]},
        {"methods": {"KD-PDFL": {"tau": 2}}},
        {"model": {"name": "mlp", "hidden": [3]}},
        {"dtype": "float64"},
        nested("data.clients", 21),
        nested("data.partition", "shard"),
        nested("train.lr", 0.06),
        nested("train.optimizer", "adam"),
        nested("train.optimizer", {"name": "sgd", "momentum": 0.9}),
        nested("exchange.stars", 1.0),
        nested("exchange.loss", 0.1),
        nested("exchange.precision", "int8"),
        nested("population.late", 0.1),
        nested("evaluate.every", 51),
        {"grid": {"train.lr": [0.05]}},
    ]
    assert len({parse(change).fingerprint() for change in changes}) == len(changes)
