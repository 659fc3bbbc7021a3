"""Objects in the place of names: data, models and methods of one's own, in `Experiment(...)`."""

from __future__ import annotations

import functools
import gc
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from coterie import Algorithm, Context, Experiment, Inbox, Info, Probe, Run, State, Task, run
from coterie.core.data import Dataset as OwnDataset
from coterie.core.data import Samples
from coterie.core.errors import ConfigError, CoterieError, DataError, ModelError, RunError
from coterie.core.own.objects import digest
from coterie.core.own.own_data import read_dataset
from coterie.experiment import Plugin
from coterie.federation import Dealer
from coterie.plugins.algorithms.kd_pdfl import KDPDFL
from coterie.plugins.datasets.synthetic import Synthetic
from coterie.plugins.models.mlp import Mlp
from coterie.storage import model_file
from coterie.studies.tuning.trials import tune
from coterie.swarm.plan import fit_for_peers

Y = np.arange(120) % 3
X = (np.random.default_rng(0).normal(size=(120, 4)) + Y[:, None]).astype(np.float32)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    kind=np.array(["red", "blue", "green"])[Y], site=[f"s{i % 4}" for i in range(120)]
)
SHORT: dict[str, Any] = {
    "seeds": 1,
    "train": {"iterations": 12, "batch": 4},
    "exchange": {"every": 4, "channel": "ideal"},
    "evaluate": {"every": 6, "uniform": 9},
}


class Net(nn.Module):
    """A model of a module, which another process can import."""

    def __init__(self, inputs: tuple[int, ...], classes: int, width: int = 5) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs[0], width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x)
        return found


class Fixed(nn.Module):
    """A model that knows the shapes of its data."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(x)
        return found


@dataclass(frozen=True)
class Deaf(Algorithm):
    """Hears and does nothing."""

    rate: float = 0.5

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return state, {}


class Items(Dataset[tuple[Any, Any]]):
    """A map-style data set of one item after the other."""

    classes = ("red", "green", "blue")

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return torch.from_numpy(X[i]), int(Y[i])


def experiment(**given: Any) -> Experiment:
    """A short experiment with 3 clients unless the data say how many."""
    data = given.pop("data", (X, Y))
    settings = data if isinstance(data, dict) else {"set": data}
    few = {} if settings.keys() & {"owner", "indices"} else {"clients": 3}
    return Experiment(
        data={"sizes": (5, 15), "test": 6, **few, **settings},
        **{"model": "linear", "methods": ["Local"], **SHORT, **given},
    )


def dealt(e: Experiment) -> Any:
    return Dealer(None).federation(e, 0)


def score(found: Run) -> float:
    value: float = found.summary()["methods"]["Local"]["personal"]["mean"]
    return value


@pytest.mark.parametrize(
    ("data", "classes"),
    [
        ((X, Y), ("0", "1", "2")),
        ((torch.from_numpy(X), torch.from_numpy(Y)), ("0", "1", "2")),
        ((X, np.array(["b", "a", "c"])[Y]), ("a", "b", "c")),
        ({"set": FRAME.drop(columns="site"), "label": "kind"}, ("blue", "green", "red")),
        ({"set": FRAME, "label": "kind", "owner": "site"}, ("blue", "green", "red")),
        (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), ("0", "1", "2")),
        (Items(), Items.classes),
        (Subset(Items(), range(90)), Items.classes),
        (
            OwnDataset(Samples(torch.from_numpy(X), torch.from_numpy(Y)), None, ("u", "v", "w")),
            ("u", "v", "w"),
        ),
        ({"set": [(X[:60], Y[:60]), (X[60:], Y[60:])], "clients": 2}, ("0", "1", "2")),
        (Synthetic(groups=1, classes=3, features=4), ("0", "1", "2")),
    ],
)
def test_data_of_every_kind(data: Any, classes: tuple[str, ...], tmp_path: Path) -> None:
    e = experiment(data=data)
    assert dealt(e).classes == classes
    assert run(e, tmp_path / "run", plots=False).status["state"] == "done"


def test_data_by_themselves() -> None:
    assert Experiment(data=(X, Y)).data.clients == 20
    assert Experiment(data={"set": (X, Y)}).objects() == Experiment(data=(X, Y)).objects()


def test_owners_are_the_clients() -> None:
    e = experiment(data={"set": FRAME, "label": "kind", "owner": "site"})
    assert e.data.clients == 4
    found = dealt(e)
    assert found.owned
    own = {tuple(x) for x in X[np.arange(120) % 4 == 1].tolist()}
    count = found.train.count.tolist()
    assert {tuple(found.pool[i].tolist()) for i in found.train.index[count[0] : count[0] + count[1]]} <= own
    assert experiment(data={"set": (X, Y), "owner": np.arange(120) // 60}).data.clients == 2


@pytest.mark.parametrize(
    "indices", [[range(10), [20, 30, 40, 50]], {"ann": list(range(10)), "bob": [20, 30, 40, 50]}]
)
def test_lists_of_indices_per_client(indices: Any) -> None:
    e = experiment(data={"set": (X, Y), "indices": indices})
    assert e.data.clients == 2
    rows = {tuple(row) for row in dealt(e).pool.tolist()}
    assert rows == {tuple(row) for row in X[[*range(10), 20, 30, 40, 50]].tolist()}


def test_a_test_set_of_its_own() -> None:
    e = experiment(data={"set": (X[:90], Y[:90]), "test_set": (X[90:], Y[90:])})
    found, tested = dealt(e), {tuple(row) for row in X[90:].tolist()}
    assert {tuple(row) for row in found.pool[found.personal.index].tolist()} <= tested


def test_what_is_done_to_the_arrays_later_changes_nothing() -> None:
    x = torch.from_numpy(X.copy())
    e = experiment(data=(x, Y))
    before = dealt(e).pool.clone()
    x.zero_()
    assert torch.equal(dealt(e).pool, before)


def test_pictures_become_channels_from_0_to_1() -> None:
    from PIL import Image

    pixels = np.arange(120 * 2 * 3 * 3, dtype=np.uint8).reshape(120, 2, 3, 3)
    pictures = [(Image.fromarray(one), int(y)) for one, y in zip(pixels, Y, strict=True)]

    class Pictures(Items):
        def __getitem__(self, i: int) -> tuple[Any, Any]:
            return pictures[i]

    pool = dealt(experiment(data=Pictures())).pool
    assert pool.shape[1:] == (3, 2, 3)
    assert pool[0].flatten()[1] == pixels[0, 0, 1, 0] / 255


class ClassLabel(NamedTuple):
    """As `datasets` has it: labels by number, with names."""

    names: list[str]


class Value:
    """As `datasets` has it: a plain value."""


class Image(Value):
    """As `datasets` has it: a picture."""


class Columns:
    """Stand-in for a Hugging Face data set, which is too large to be installed for most tests."""

    def __init__(self, features: dict[str, Any], columns: dict[str, Any]) -> None:
        self.features, self.columns, self.column_names = features, columns, list(columns)

    def __len__(self) -> int:
        return len(Y)

    def with_format(self, kind: str) -> Columns:
        assert kind == "numpy"
        return self

    def __getitem__(self, rows: slice) -> dict[str, Any]:
        return {name: column[rows] for name, column in self.columns.items()}


NAMED = ClassLabel(["red", "green", "blue"])
NUMBERS = {name: X[:, i] for i, name in enumerate("abcd")}
PLAIN = dict.fromkeys("abcd", Value())
LABELLED = Columns({**PLAIN, "y": NAMED}, {**NUMBERS, "y": Y})
UNLABELLED = Columns(PLAIN, NUMBERS)
PIXELS = np.zeros((120, 5, 6, 3), np.uint8)
WORDS = np.array(["u", "v", "w"])[Y]


@pytest.mark.parametrize(
    ("data", "shape", "classes", "columns"),
    [
        ({"set": LABELLED}, (4,), NAMED.names, "abcd"),
        ({"set": Columns({"x": Value(), "y": NAMED}, {"x": X, "y": Y})}, (4,), NAMED.names, ""),
        (
            {"set": Columns({"p": Image(), "y": NAMED}, {"p": list(PIXELS), "y": Y})},
            (3, 5, 6), NAMED.names, "",
        ),
        (
            {"set": Columns({**PLAIN, "y": Value()}, {**NUMBERS, "y": WORDS}), "label": "y"},
            (4,), ["u", "v", "w"], "abcd",
        ),
        (
            {"set": dict.fromkeys(("train", "test"), LABELLED)},
            (4,), NAMED.names, "abcd",
        ),
    ],
)  # fmt: skip
def test_data_sets_with_features(data: dict[str, Any], shape: Any, classes: list[str], columns: str) -> None:
    found = dealt(experiment(data=data))
    assert tuple(found.pool.shape[1:]) == shape
    assert (list(found.classes), "".join(found.columns)) == (classes, columns)


@pytest.mark.filterwarnings("ignore")
def test_data_sets_of_the_real_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    library = pytest.importorskip("datasets", reason="`make test-newest` has it")
    value, kinds = library.Value("float32"), library.ClassLabel(names=["red", "green", "blue"])
    columns = library.Features({**dict.fromkeys("abcd", value), "y": kinds})
    numbers = library.Dataset.from_dict({**NUMBERS, "y": Y}, features=columns)
    arrays = library.Features({"x": library.Array2D((2, 2), "float32"), "y": kinds})
    squares = library.Dataset.from_dict({"x": X.reshape(-1, 2, 2), "y": Y}, features=arrays)
    words = library.Dataset.from_dict({"a": X[:, 0], "kind": WORDS.tolist(), "site": FRAME["site"].tolist()})
    for data, shape, names in (
        ({"set": numbers}, (4,), kinds.names),
        ({"set": numbers.train_test_split(0.2, seed=0)}, (4,), kinds.names),
        ({"set": squares.with_format("torch")}, (2, 2), kinds.names),
        ({"set": words, "label": "kind", "owner": "site"}, (1,), ["u", "v", "w"]),
    ):
        read = read_dataset(data.pop("set"), "data.set", **data)
        assert (tuple(read.train.x.shape[1:]), list(read.classes)) == (shape, names)
        assert (read.test is not None) == (len(read.train.y) < len(Y))
        assert (read.train.owner is not None) == ("owner" in data)
    with pytest.raises(DataError, match="cannot be dealt to clients"):
        read_dataset(numbers.to_iterable_dataset(), "data.set")


class Endless(IterableDataset[Any]):
    """No length and no numbered items."""

    def __iter__(self) -> Iterator[Any]:
        yield from ()


class Restless(Items):
    """Gives another sample each time, as a random transform does."""

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return torch.rand(4), 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"set": FRAME}, "name the column of the labels, .* a, b, c, d, kind, site"),
        ({"set": FRAME, "label": "knid"}, "unknown column 'knid'.* Did you mean 'kind'"),
        ({"set": FRAME, "label": "kind"}, "the column 'site' holds .* not numbers"),
        ({"set": FRAME.assign(a=np.nan), "label": "kind", "owner": "site"}, "'a' lacks 120 values"),
        ({"set": (X, Y), "label": "y"}, "no columns"),
        ({"set": (X, Y[:7])}, "there are 120 samples, but 7 labels"),
        ({"set": (X, Y + 1j)}, "y must be numbers or words"),
        ({"set": (X, Y), "owner": [1, 2]}, "120 samples, but 2 owners"),
        ({"set": (X, Y), "indices": [[0, 1], [500]]}, "client 1 must have different rows from 0 to 119"),
        ({"set": (X, Y), "indices": [[0, 1], []]}, "client 1 needs a list of row numbers"),
        ({"set": (X, Y), "indices": [[0]], "owner": Y}, "give one of them"),
        ({"set": Endless()}, "has no length"),
        ({"set": Restless()}, "gives another sample 0 each time"),
        ({"set": UNLABELLED}, "name the column of the labels"),
        (
            {"set": Columns({**PLAIN, "y": NAMED}, {**NUMBERS, "a": X, "y": Y})},
            "'a' does not hold one number",
        ),
        (
            {"set": {"train": Columns(PLAIN, NUMBERS), "dev": Columns(PLAIN, NUMBERS)}},
            "the splits 'train' and",
        ),
        ({"set": object()}, "expected a Dataset, a pair .* got object"),
        (
            {"set": (X, np.array(["a", "b", "c"])[Y]), "test_set": (X, np.array(["a", "z", "c"])[Y])},
            "the labels z do not occur",
        ),
    ],
)
def test_data_that_cannot_be_used(data: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        experiment(data=data)


def test_numbers_are_no_labels(tmp_path: Path) -> None:
    """What targets may be is the task's business, which meets them when they are dealt."""
    with pytest.raises(DataError, match=r"y must be whole numbers .* numbers are learned by task"):
        run(experiment(data=(X, Y + 0.5)), tmp_path / "run")
    numbers = experiment(data=(X, Y + 0.5), task="regression", methods=["Local"])
    assert run(numbers, tmp_path / "run", plots=False).task.metric.name == "rmse"


def linear(inputs: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Linear(inputs[0], classes)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Net, "tests.test_objects:Net"),
        (linear, "tests.test_objects:linear"),
        (functools.partial(Net, width=7), "tests.test_objects:Net"),
        ({"name": Net, "width": 7}, "tests.test_objects:Net"),
        (Fixed, "tests.test_objects:Fixed"),
        (Fixed(), "object Fixed "),
        (lambda inputs, classes: nn.Linear(inputs[0], classes), "object lambda "),
        (Mlp(hidden=(6,)), "mlp"),
        ("linear", "linear"),
    ],
)
def test_models_of_every_kind(model: Any, name: str, tmp_path: Path) -> None:
    e = experiment(model=model)
    assert isinstance(e.model, Plugin)
    assert e.model.name.startswith(name)
    found = run(e, tmp_path / "run", plots=False)
    assert found.experiment == e
    assert found.experiment.fingerprint() == e.fingerprint()


def test_a_model_with_weights_begins_from_them_if_they_are_given(tmp_path: Path) -> None:
    model = Fixed()
    e = experiment(model=model, train={**SHORT["train"], "init": "given", "lr": 1e-9})
    with torch.no_grad():
        model.head.weight.zero_()  # what is done to it later changes nothing
    first = run(e, tmp_path / "run", plots=False).curves().personal
    assert first.iloc[0] == first.iloc[-1]
    assert experiment(model=Fixed()).fingerprint() != experiment(model=Fixed()).fingerprint()


def test_methods_as_classes_and_instances() -> None:
    e = experiment(methods=["Local", Deaf, KDPDFL(tau=0.1), {"name": "FedAvg", "adoption": "average"}])
    assert list(e.methods) == ["Local", "Deaf", "KD-PDFL", "FedAvg"]
    assert e.methods["Deaf"].name == "tests.test_objects:Deaf"
    assert e.methods["KD-PDFL"].options == {"tau": 0.1}
    assert e.algorithm("KD-PDFL") == KDPDFL(tau=0.1)
    named = experiment(methods={"mine": Deaf(rate=0.25), "Local": "Local"})
    assert named.algorithm("mine") == Deaf(rate=0.25)
    with pytest.raises(ConfigError, match=r"two of the list are called 'Deaf'.* labels"):
        experiment(methods=[Deaf(rate=0.1), Deaf(rate=0.2)])
    with pytest.raises(ConfigError, match=r"methods\.0: expected a name, a class"):
        experiment(methods=[3j])


def test_objects_give_what_names_give(tmp_path: Path) -> None:
    by_object = experiment(model=Net, methods=[KDPDFL(), "Local"], data=Synthetic(groups=1, classes=3))
    names = {"set": {"name": "synthetic", "groups": 1, "classes": 3}}
    by_name = experiment(model="tests.test_objects:Net", methods=["KD-PDFL", "Local"], data=names)
    files = [
        run(e, tmp_path / n, plots=False).path / "metrics.jsonl"
        for e, n in ((by_object, "a"), (by_name, "b"))
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_names_survive_objects_survive() -> None:
    class Local(Net):
        pass

    e = experiment(model=Local, data=(X, Y), grid={"model": [Local, Net, "linear"]})
    assert len(e.worlds()) == 3
    assert Experiment.parse(e.plain()) == e
    assert e.replace(train__lr=0.2).model == e.model
    assert e.replace(model=Fixed).architectures[0].name == "tests.test_objects:Fixed"
    assert e.fingerprint() == experiment(model=Local, data=(X.copy(), Y), grid=e.grid).fingerprint()
    assert e.fingerprint() != experiment(model=Local, data=(X + 1, Y), grid=e.grid).fingerprint()
    assert list(e.objects()) == ["model", "data.set"]
    assert e.objects()["data.set"] in e._repr_html_()


def test_an_object_is_let_go_with_its_experiments() -> None:
    e = experiment()
    plain = e.plain()
    del e
    with pytest.raises(ConfigError, match=r"'arrays' .fingerprint \w{16}. was given as an object of Python"):
        Experiment.parse(plain)


def test_a_run_with_objects_asks_for_the_same_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = score(run(experiment(), out, plots=False))
    assert score(run(experiment(), out, resume=True, plots=False)) == first
    with pytest.raises(
        RunError, match=r"data\.set\.name \(there 'object arrays .* fingerprint of its content"
    ):
        run(experiment(data=(X + 1, Y)), out, resume=True)
    found = subprocess.run(
        [Path(sys.executable).with_name("coterie"), "run", "--resume", "--out", str(out)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert "In the script or notebook that has it, go on with run(" in found.stderr


def test_a_model_of_a_run_with_objects_goes_out(tmp_path: Path) -> None:
    class Own(Net):
        pass

    cards = []
    for name, model in (("data", "linear"), ("model", Own)):
        found = run(experiment(model=model, methods=["Local"]), tmp_path / name, plots=False, models=True)
        cards.append(found.export("Local", 1, tmp_path / f"{name}.safetensors"))
        read, weights = model_file.load(tmp_path / f"{name}.safetensors")
        assert read == cards[-1]
        assert (read.client, read.seed, read.classes) == ("1", 0, ("0", "1", "2"))
        kept = found.model("Local", 0, 1).net.state_dict()
        assert all(torch.equal(kept[key], weights[key]) for key in kept)
    del found
    gc.collect()
    with pytest.raises(ModelError, match="a model whose class was given as an object of Python"):
        model_file.load_model(tmp_path / "model.safetensors")
    again = tmp_path / "again.safetensors"
    assert Run(tmp_path / "data").export("Local", 1, again) == cards[0]
    with pytest.raises(ConfigError, match=r"take a trained model out with Run\(out\)\.export\(\.\.\.\)"):
        Run(tmp_path / "model").export("Local", 1, again)


def test_an_object_goes_to_no_other_process() -> None:
    with pytest.raises(ConfigError, match="cannot be sent to another"):
        pickle.dumps(experiment())
    with pytest.raises(ConfigError, match=r"data\.set: 'object arrays .* processes of their own"):
        fit_for_peers(experiment())


def test_tuning_takes_objects() -> None:
    tuned = tune(experiment(search={"train.lr": [0.01, 0.1]}), 2, seeds=1).tuned
    assert tuned.objects() == experiment().objects()


def shifted(by: int) -> Callable[[int], int]:
    return lambda x: x + by


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(3), torch.zeros(3).double()),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (np.array([1, 2]), np.array([2, 1])),
        ([[1], [2]], [[1, 2]]),
        (shifted(1), shifted(2)),
        (lambda x: x, lambda x: x + 1),
        ({"a": 1}, {"b": 1}),
        (functools.partial(linear, classes=1), functools.partial(linear, classes=2)),
        (Deaf(rate=0.1), Deaf(rate=0.2)),
    ],
)
def test_what_differs_has_another_fingerprint(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)
    assert digest(one) == digest(one)


def test_a_script_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, torch\nfrom torch import nn\nfrom coterie import Experiment, run\n"
        "class Mine(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(4, 3)\n"
        "    def forward(self, x):\n        return self.l(x)\n"
        "y = torch.arange(90) % 3\n"
        "e = Experiment(data={'set': (torch.randn(90, 4, generator=torch.Generator().manual_seed(0)), y),"
        " 'clients': 3, 'sizes': (5, 9)}, model=Mine, methods=['Local'], seeds=1, train={'iterations': 4})\n"
        "print(run(e, 'out', resume='again' in sys.argv, plots=False).status['state'])\n"
    )
    for again in ([], ["again"]):
        found = subprocess.run(
            [sys.executable, "script.py", *again], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert found.stdout == "done\n"
        assert found.stderr == ""


def test_errors_are_ours() -> None:
    for values in ({"data": 3}, {"data": {"set": 3}}, {"model": 3}, {"methods": 3}, {"methods": [3]}):
        with pytest.raises(CoterieError):
            Experiment(**values)
