"""Every kind of mistake: one clear sentence, exit code 2, no traceback, nothing written or lost."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command, Refused, says
from tests.disk import full_after

NPZ = "data.set={name='npz',path='x.npz'}"
CSV = "data.set={name='csv',path='x.csv',label='label'}"
IDX = "data.set={name='idx',folder='idx'}"
GRAPH = "exchange.topology={name='file',path='graph.txt'}"


# Names.


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        (
            "methods=['FedAgv']",
            ["algorithm 'FedAgv'", "known: ", "FedAvg, FedAvg+, FedAvg-Gaussian", "'FedAvg'?"],
        ),
        ("methods.mine.name=kd-pfdl", ["algorithm 'kd-pfdl'", "Did you mean 'KD-PDFL'?"]),
        (
            "methods.KD-PDFL={reading='paper',distance='cosin'}",
            ["distance 'cosin'", "Did you mean 'cosine'?"],
        ),
        ("methods.KD-PDFL.mu=1", ["methods.KD-PDFL.mu", "known: ", "c_base", "Did you mean 'mu"]),
        ("methods.KD-PDFL={reading='paper',outputs='no_layer'}", ["layer 'no_layer'", "there are: "]),
        ("methods.KD-PDFL.share=nothing*", ["share pattern 'nothing*'", "there are: ", "1.weight"]),
        ("data.set=digit", ["dataset 'digit'", "synthetic", "Did you mean 'digits'?"]),
        ("data.partition=dirichlett", ["partition 'dirichlett'", "iid", "Did you mean 'dirichlet'?"]),
        ("data.shift=['concpt']", ["shift 'concpt'", "Did you mean 'concept'?"]),
        ("model=mpl", ["model 'mpl'", "resnet", "Did you mean 'mlp'?"]),
        ("model.hiden=[3]", ["model.hiden", "Did you mean 'hidden'?"]),
        ("exchange.channel=raileigh", ["channel 'raileigh'", "ideal", "Did you mean 'rayleigh'?"]),
        ("exchange.topology=rng", ["topology 'rng'", "k_regular", "Did you mean 'ring'?"]),
        ("train.optimizer=sdg", ["train.optimizer", "sgd", "adam", "'sdg'"]),
        ("train.iteration=3", ["'train.iteration'", "Did you mean 'iterations'?"]),
        ("trian.lr=3", ["'trian'", "Did you mean 'train'?"]),
        ("device=gpu", ["device 'gpu'", "cpu"]),
        ("device=meta", ["device 'meta'", "cpu"]),
        ("device=cuda:7", ["device 'cuda:7'", "use device = 'cpu'"]),
        ("grid={'train.lrr'=[1]}", ["grid", "train.lrr"]),
        ("grid={'methods.Nobody.mu1'=[1]}", ["Nobody"]),
    ],
)
def test_unknown_names(refused: Refused, setting: str, parts: list[str]) -> None:
    for verb in ("check", "run"):
        says(refused(verb, "small.toml", "--set", setting), *parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["run", "quickstrat"], ["preset", "'quickstrat'", "known: ", "Did you mean 'quickstart'?"]),
        (["check", "nowhere"], ["preset", "must end in .toml", "'nowhere'"]),
        (["run", "nowhere.toml"], ["cannot read nowhere.toml", "No such file"]),
        (["run", "[/nowhere].toml"], ["cannot read [/nowhere].toml", "No such file"]),
        (["show", "/nowhere"], ["/nowhere is not a run folder: there is no such folder; coterie ls runs"]),
        (["check", "folder.toml"], ["cannot read folder.toml", "Is a directory"]),
        (["run"], ["coterie run quickstart"]),
        (["run", "--resume"], ["--resume with --out"]),
        (["ls", "algoritms"], ["kind 'algoritms'", "Did you mean 'algorithms'?"]),
        (["ls", ""], ["kind ''"]),
        (["ls", "algorithms", "kd"], ["algorithm 'kd'", "known: ", "KD-PDFL"]),
        (["ls", "models", "nobodys:Model"], ["no module 'nobodys'"]),
        (["ls", "models", "raises_when_imported:Model"], ["raises_when_imported", "ZeroDivisionError"]),
        (["ls", "algorithms", "math:pi"], ["algorithm 'math:pi' must be a class or a function, got float"]),
        (["ls", "presets", "quickstar"], ["preset 'quickstar'", "'quickstart'?"]),
        (["ls", "runs", "none"], ["none is not a run folder"]),
        (["show", "none"], ["none is not a run folder", "no such folder, nor runs/none or sweeps/none"]),
        (["report", "none"], ["none is not a run folder", "no such folder"]),
        (["dashboard", "none"], ["none: no such folder", "holds the run folders"]),
        (["dashboard", "none", "--peer", "127.0.0.1:1"], ["none: no such folder"]),
        (["run", "small"], ["no preset 'small', but a file: name it in full, small.toml"]),
        (["new", "mine", "--from", "quick"], ["preset", "'quick'", "Did you mean 'quickstart'?"]),
        (["show", "small.toml"], ["small.toml is not a run folder"]),
        (["plot", "none"], ["none is not a run folder"]),
        (["run", "--resume", "--out", "none"], ["none is not a run folder: there is no such folder"]),
        (["run", "small.toml", "--resume", "--out", "none"], ["none is not a run folder"]),
        (["run", "small.toml", "--resume"], ["runs/small is not a run folder"]),
        (["new", ""], ["name", "''"]),
        (["new", "small"], ["small.toml is already there"]),
        (["new", "small.toml"], ["small.toml is already there"]),
        (["new", "nowhere/mine"], ["cannot write nowhere/mine.toml"]),
        (["new", "small.toml/mine"], ["cannot write small.toml/mine.toml"]),
        (["new", ".."], ["name", "'..'"]),
        (["new", "a\nb"], ["name", "letters"]),
        (["new", "a\0b"], ["name", "letters"]),
    ],
)
def test_bad_words(refused: Refused, words: list[str], parts: list[str]) -> None:
    Path("folder.toml").mkdir()
    Path("raises_when_imported.py").write_text("1 / 0")
    says(refused(*words), *parts)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["frobnicate"], "frobnicate"),
        (["run", "small.toml", "--seeds", "0"], "--seeds"),
        (["run", "small.toml", "--seeds", "some"], "--seeds"),
        (["run", "small.toml", "--sed", "x"], "--sed"),
        (["run", "small.toml", "more"], "more"),
        (["run", "small.toml", "--checkpoint", "-1"], "--checkpoint"),
        (["show"], "RUN"),
        (["new"], "NAME"),
        (["check"], "FILE.toml"),
    ],
)
def test_words_that_are_no_command(coterie: Command, words: list[str], part: str) -> None:
    answer = coterie(*words)
    assert answer.code == 2
    assert part in answer.err
    assert "Try 'coterie" in answer.err


# Values.


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("data.clients=1", ["data.clients", "greater than or equal to 2", "got 1"]),
        ("data.clients=many", ["data.clients", "valid integer", "got 'many'"]),
        ("data.clients=2.5", ["data.clients", "got 2.5"]),
        ("data.clients=100000000", ["memory", "data.clients"]),
        ("data.clients=99999999999999999999999", ["data.clients"]),
        ("data.partition={name='dirichlet',alpha=0}", ["data.partition.alpha", "greater than 0", "got 0"]),
        ("data.partition={name='dirichlet',alpha=-1.5}", ["data.partition.alpha", "got -1.5"]),
        ("data.partition={name='dirichlet',alpha=nan}", ["data.partition", "alpha", "finite", "nan"]),
        ("data.partition.alpha=1", ["data.partition.alpha", "iid"]),
        ("data.sizes=[0,0]", ["data.sizes", "greater than or equal to 1", "got 0"]),
        ("data.sizes=[5,3]", ["sizes", "in order", "[5, 3]"]),
        ("data.sizes=[3]", ["data.sizes"]),
        ("data.sizes=few", ["data.sizes", "'few'"]),
        ("data.test=0", ["data.test", "got 0"]),
        ("data.test_share=1", ["data.test_share", "less than 1"]),
        ("data.shift=concept", ["data.shift", "'concept'"]),
        ("data.shift=[{name='concept',groups=1000}]", ["data.clients = 4", "2000 groups"]),
        ("data.shift=['rotate']", ["rotate"]),
        ("data.set.groups=9", ["data.clients = 4", "9 groups"]),
        ("data.set=3", ["data.set", "got 3"]),
        ("data=3", ["data:", "got 3"]),
        ("data.set={}", ["data.set.name", "required"]),
        ("data.sizes=[4000,4000]", ["client 0 needs 4000 samples", "only", "smaller data.sizes"]),
        ("data.partition={name='pathological',num_classes_per_partition=9}", ["9", "3"]),
        ("train.lr=nan", ["train.lr", "finite", "nan"]),
        ("train.lr=inf", ["train.lr", "finite", "inf"]),
        ("train.lr=0", ["train.lr", "greater than 0", "got 0"]),
        ("train.lr=fast", ["train.lr", "number", "'fast'"]),
        ("train.lr=", ["train.lr", "number", "''"]),
        ("train.lr.x=1", ["train.lr"]),
        ("train.lr={}", ["train.lr: input should be a valid number, got a table"]),
        ("train.lr=[0.1", ["--set 'train.lr=[0.1'", "not valid TOML: Unclosed array"]),
        ("data.set={name=csv}", ["--set", "not valid TOML", "text within brackets needs quotes"]),
        ("model='mlp", ["--set", "not valid TOML"]),
        ("train.lr=1\ntrain.batch=2", ["--set", "expected one value"]),
        ("train=3", ["train: input should be a table of keys and values, got 3"]),
        ("methods.Local.train=3", ["methods.Local.train: input should be a table of keys and values, got 3"]),
        ("train.batch=0", ["train.batch", "got 0"]),
        ("train.batch=2000000000", ["memory", "train.batch"]),
        ("train.iterations=0", ["train.iterations", "got 0"]),
        ("train.iterations=10000000000000000000000", ["train.iterations"]),
        ("train.optimizer={name='sgd',momentum=2}", ["train.optimizer", "momentum", "less than 1", "got 2"]),
        ("train.optimizer={name='adam',eps=inf}", ["train.optimizer", "eps", "finite"]),
        ("train.init=ones", ["train.init", "'shared', 'independent', 'zeros' or 'given'", "'ones'"]),
        ("exchange.every=2", ["exchange.every", "greater than or equal to 3", "got 2"]),
        ("exchange.stars=1.5", ["exchange.stars", "1.5"]),
        ("exchange.stars=0", ["exchange.stars", "got 0"]),
        ("exchange.cap=0", ["exchange.cap", "got 0"]),
        ("exchange.probe=2000000000", ["memory", "exchange.probe"]),
        ("exchange.probe=some", ["exchange.probe", "'all'", "'some'"]),
        ("exchange.topology=file", ["exchange.topology.path", "required"]),
        ("exchange.channel.neighbours=2", ["exchange.channel.neighbours", "'ideal'"]),
        ("exchange.topology={name='k_regular',k=30}", ["30", "4"]),
        ("population.speed=[1,0.5]", ["speed", "in order"]),
        ("evaluate.every=0", ["evaluate.every", "got 0"]),
        ("evaluate.uniform=2000000000", ["memory", "evaluate.uniform"]),
        ("seeds=0", ["seeds", "at least 1", "got 0"]),
        ("seeds=[1,1]", ["seeds", "different", "[1, 1]"]),
        ("seeds=[]", ["seeds"]),
        ("seeds=three", ["seeds: input should be a number of seeds, or a list", "[0, 1, 2], got 'three'"]),
        ("seeds=1.5", ["seeds: input should be a number of seeds", "got 1.5"]),
        ("seeds=true", ["seeds: input should be a number of seeds", "got True"]),
        ("seeds=1000000000", ["seeds"]),
        ("seeds=[99999999999999999999999]", ["seeds"]),
        ("methods=3", ["methods", "got 3"]),
        ("methods=[]", ["methods is empty"]),
        ("methods.KD-PDFL.mu1=-1", ["methods.KD-PDFL.mu1", "got -1"]),
        ("methods.KD-PDFL.mu1=inf", ["methods.KD-PDFL", "mu1", "finite"]),
        (
            "methods.KD-PDFL={reading='paper',distance='jensen_shannon',outputs='logits'}",
            ["jensen_shannon", "probabilities"],
        ),
        ("methods.KD-PDFL.step=big", ["methods.KD-PDFL.step", "'unit'", "'big'"]),
        ("methods.=Local", ["methods", "empty"]),
        ("model={}", ["model.name", "required"]),
        ("model=3", ["model: input should be a name, or a table with one", "got 3"]),
        ("train.optimizer=adamw", ["train.optimizer: input should be one of 'sgd', 'adam', got 'adamw'"]),
        ("train.optimizer={name='adamw'}", ["input should be one of 'sgd', 'adam', got 'adamw'"]),
        ("train.optimizer={momentum=0.5}", ["train.optimizer: the name is missing"]),
        ("train.optimizer={name='sgd',momentm=1}", ["train.optimizer.momentm: there is no such option"]),
        ("train.batch=1.5", ["train.batch: input should be a valid integer, got 1.5"]),
        ("data.sizes=x", ["data.sizes: input should be a list or 'all', got 'x'"]),
        ("data.sizes=[1,2,3]", ["data.sizes: input should be a list of at most 2 or 'all'"]),
        ("data.overlap=maybe", ["data.overlap: input should be true or false, got 'maybe'"]),
        ("exchange.topology={name='file',path=3}", ["exchange.topology.path: input should be a path, got 3"]),
        ("device=3", ["device: input should be text, got 3"]),
        ("model=cnn", ["model 'cnn'", "images", "(6,)", "'mlp'"]),
        ("model.hidden=[0]", ["model.hidden", "got 0"]),
        ("model.hidden=[10000000000]", ["memory", "model"]),
        ("dtype=float16", ["dtype", "'float32' or 'float64'"]),
        ("compile=maybe", ["compile", "'maybe'"]),
        ("grid={'train.lr'=[0.1,-1]}", ["grid", "train.lr", "got -1"]),
        ("grid={'train.lr'=[]}", ["grid", "train.lr"]),
        ("grid={'train.lr'=[0.1,0.1]}", ["grid", "train.lr", "twice"]),
        ("grid={'train.lr'=3}", ["grid", "train.lr", "got 3"]),
        ("name=../x", ["name", "letters", "'../x'"]),
        ("name=/tmp/x", ["name", "letters", "'/tmp/x'"]),
        ("name=..", ["name", "letters", "'..'"]),
        ("name=.hidden", ["name", "letters", "'.hidden'"]),
        ("name=''", ["name", "''"]),
        (f"name={'x' * 300}", ["name", "at most 200 bytes", "got 300"]),
        (f"name={'ü' * 101}", ["name", "at most 200 bytes", "got 202"]),
        ("train.lr", ["--set 'train.lr'", "KEY=VALUE"]),
        ("=3", ["--set '=3'", "KEY=VALUE"]),
        ("", ["--set ''", "KEY=VALUE"]),
        ("train..lr=3", ["key 'train.'"]),
        ("ü=3", ["'ü'"]),
    ],
)
def test_bad_values(refused: Refused, setting: str, parts: list[str]) -> None:
    says(refused("check", "small.toml", "--set", setting), *parts)


def test_a_bad_value_in_a_file(refused: Refused) -> None:
    text = Path("small.toml").read_text()
    Path("bad.toml").write_text(text.replace("batch = 4", 'batch = "four"'))
    says(refused("run", "bad.toml"), "train.batch", "valid integer", "got 'four'")
    Path("bad.toml").write_text(text.replace("[train]", "[trainig]"))
    says(refused("run", "bad.toml"), "'trainig'", "Did you mean 'train'?")
    Path("bad.toml").write_text(text.replace("batch = 4", "batch = [4"))
    says(refused("run", "bad.toml"), "bad.toml is not valid TOML", "line 1")
    for nothing in ("", "# later\n"):
        Path("bad.toml").write_text(nothing)
        says(refused("check", "bad.toml"), "bad.toml is empty", "coterie new")
    Path("bad.toml").write_bytes(b"\xff\xfe")
    says(refused("run", "bad.toml"), "cannot read bad.toml")


# The user's own code.


OWN = {
    "model": {
        "nowhere_at_all:Net": ["no module 'nowhere_at_all'"],
        "own_code:Nothing": ["module 'own_code' has no 'Nothing'"],
        "own_code:": ["own_code"],
        ":Net": ["':Net'", "pkg.mod:Name"],
        "..own_code:Net": ["pkg.mod:Name"],
        "own_code:three": ["own_code:three", "a function"],
        "raises_inside:Net": ["raises_inside:Net", "ZeroDivisionError", "raises_inside.py"],
        "not_python:Net": ["not_python:Net", "SyntaxError"],
        "needs_missing:Net": ["needs_missing:Net", "no_such_package"],
        "own_code:too_wide": ["Linear", "(4, 7)", "(4, 3)", "3 classes"],
        "own_code:raises": ["own_code:raises", "RuntimeError: oh dear"],
        "own_code:no_module": ["own_code:no_module", "int", "nn.Module"],
    },
    "methods.X.name": {
        "own_code:Channel": ["methods.X", "not an Algorithm"],
        "coterie:Algorithm": ["methods.X", "abstract"],
        "coterie.core.tasks.task:Task": ["methods.X"],
        "own_code:Raising": ["Raising", "oh dear"],
    },
    "data.set": {
        "own_code:three": ["data.set"],
        "own_code:nonsense": ["own_code:nonsense", "(x, y)", "got int"],
        "own_code:ragged": ["own_code:ragged", "x"],
        "own_code:uneven": ["own_code:uneven", "y", "10"],
        "own_code:not_finite": ["own_code:not_finite", "not finite"],
        "own_code:an_empty_client": ["own_code:an_empty_client", "client 1", "no samples"],
        "own_code:five_clients": ["5 owners", "data.clients = 4", "set data.clients = 5"],
        "own_code:one_class": ["own_code:one_class", "at least 2 classes"],
        "own_code:negative": ["own_code:negative", "y", "-1"],
        "own_code:raises": ["own_code:raises", "RuntimeError: oh dear"],
        "own_code:needs": ["own_code:needs", "missing", "option"],
    },
    "exchange.channel": {
        "own_code:Nothing": ["has no 'Nothing'"],
        "own_code:Method": ["exchange.channel", "links"],
    },
}

OWN_CODE = """
from dataclasses import dataclass
import numpy as np
from torch import nn
from coterie import Algorithm

three = 3

def too_wide(inputs, classes): return nn.Linear(6, 7)
def raises(*_): raise RuntimeError("oh dear")
def no_module(inputs, classes): return 3

@dataclass(frozen=True)
class Channel:
    def links(self, graph, stream): return lambda u, star, candidate: u

@dataclass(frozen=True)
class Method(Algorithm):
    def mix(self, task, state, inbox, probe, ctx): return state, {}

@dataclass(frozen=True)
class Raising(Algorithm):
    def mix(self, task, state, inbox, probe, ctx): raise RuntimeError("oh dear")

x, y = np.ones((10, 6)), np.arange(10) % 3
def nonsense(): return 3
def ragged(): return [[1, 2], [3]], [0, 1]
def uneven(): return x, y[:9]
def not_finite(): return x * np.nan, y
def an_empty_client(): return [(x, y), (x[:0], y[:0]), (x, y), (x, y)]
def five_clients(): return [(x, y)] * 5
def one_class(): return x, y * 0
def negative(): return x, y - 1
def needs(something): return x, y
"""


@pytest.mark.parametrize(
    ("key", "name", "parts"),
    [(key, name, parts) for key, names in OWN.items() for name, parts in names.items()],
)
def test_mistakes_in_the_users_own_code(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, key: str, name: str, parts: list[str]
) -> None:
    files = {
        "own_code": OWN_CODE,
        "raises_inside": "1 / 0",
        "not_python": "def",
        "needs_missing": "import no_such_package",
    }
    for module, text in files.items():
        Path(f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
    says(refused("check", "small.toml", "--set", f'{key}="{name}"'), *parts)
    for module in files:
        sys.modules.pop(module, None)


# Files.


def test_missing_and_corrupt_files(refused: Refused) -> None:
    def check(setting: str, *parts: str) -> None:
        says(refused("check", "small.toml", "--set", setting), *parts)

    for setting in (NPZ, CSV, IDX):
        check(setting, "there is no", "--data")
    Path("x.npz").write_bytes(b"PK\x03\x04 and no more")
    check(NPZ, "x.npz", "damaged")
    Path("x.npz").write_text("x")
    check(NPZ, "x.npz", "expected an .npz archive")
    np.savez("x.npz", x=np.ones((5, 2)))
    check(NPZ, "x.npz", "no array 'y'")
    np.savez("x.npz", x=np.ones((5, 2)), y=np.array([None] * 5))
    check(NPZ, "x.npz")
    Path("x.csv").write_text("")
    check(CSV, "x.csv", "no rows")
    Path("x.csv").write_text("a,b\n1,2\n")
    check(CSV, "x.csv", "column 'label'")
    Path("x.csv").write_text("a,label\n1,2\nx,2\n")
    check(CSV, "x.csv, line 3", "column 'a'", "'x'")
    Path("idx").mkdir()
    check(IDX, "idx", "no IDX files")
    Path("idx/train-images-idx3-ubyte").write_bytes(bytes((0, 0, 8, 3)) + b"\0\0\0\1" * 3)
    Path("idx/train-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1)) + b"\0\0\0\1\0")
    check(IDX, "train-images-idx3-ubyte", "expected 1 bytes", "cut short")
    check(GRAPH, "graph.txt", "No such file")
    Path("graph.txt").write_text("0 1\n1 2\n")
    check(GRAPH, "graph.txt", "3 nodes", "4 clients")


# Folders.


@pytest.mark.parametrize("out", ["small.toml", "small.toml/x", "full"])
def test_a_folder_that_cannot_be_used(refused: Refused, out: str) -> None:
    Path("full").mkdir()
    Path("full/precious").write_text("mine")
    says(refused("run", "small.toml", "--out", out), out, "choose another folder with --out")


def test_a_run_is_not_overwritten(refused: Refused, finished: Path) -> None:
    shutil.copytree(finished, "run")
    says(refused("run", "small.toml", "--out", "run"), "run is in use", "--resume", "--out")
    says(
        refused("run", "small.toml", "--out", "run", "--resume", "--set", "data.clients=6"),
        "another experiment",
        "data.clients (there 4, now 6)",
    )


def test_pictures_where_there_can_be_none(refused: Refused, finished: Path) -> None:
    says(refused("plot", finished, "--out", "small.toml"), "cannot write small.toml")
    says(refused("plot", finished, "--out", "small.toml/x"), "cannot write small.toml/x")


def cut(file: Path) -> None:
    half = file.read_bytes()[: file.stat().st_size // 2]
    file.write_bytes(half[: half.rfind(b"=") + 1 or None])  # TOML that ends with a line is not damaged


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("checkpoint-0.safetensors", "damaged or cut short"),
        ("metrics.jsonl", "is damaged"),
        ("experiment.toml", "experiment.toml"),
        ("environment.json", "is damaged"),
    ],
)
def test_a_damaged_run_cannot_be_resumed(refused: Refused, finished: Path, name: str, part: str) -> None:
    shutil.copytree(finished, "run")
    cut(Path("run") / name)
    says(refused("run", "small.toml", "--resume", "--out", "run"), name, part)


def test_the_checkpoint_of_another_experiment(refused: Refused, coterie: Command, finished: Path) -> None:
    shutil.copytree(finished, "run")
    assert coterie("run", "small.toml", "--set", "train.lr=0.3", "--no-plots", "--out", "other").code == 0
    shutil.copy("other/checkpoint-0.safetensors", "run")
    says(refused("run", "--resume", "--out", "run"), "checkpoint-0.safetensors", "another experiment")


@pytest.mark.parametrize("name", ["worlds.json", "clients.json", "environment.json", "status.json"])
@pytest.mark.parametrize("content", ["", "{", "3", "[]", '{"state": 3}'])
@pytest.mark.parametrize("verb", ["show", "plot"])
def test_a_damaged_run_is_not_shown(
    refused: Refused, finished: Path, verb: str, name: str, content: str
) -> None:
    shutil.copytree(finished, "run")
    (Path("run") / name).write_text(content)
    says(refused(verb, "run"), "run")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", "nonsense\n"),
        ("metrics.jsonl", '{"world": 99, "t": 0}\n'),
        ("metrics.jsonl", '{"world": 0, "t": 0, "personal": ["a", "b"]}\n'),
        ("exchanges.jsonl", '{"world": 0, "weight": [1]}\n'),
        ("exchanges.jsonl", '{"world": 0, "t": 5, "client": 77, "neighbours": [88], "weight": [1]}\n'),
        ("experiment.toml", "name = 3\n"),
        ("experiment.toml", "name ="),
        ("experiment.toml", ""),
    ],
)
@pytest.mark.parametrize("verb", ["show", "plot"])
def test_nonsense_in_a_run(refused: Refused, finished: Path, verb: str, name: str, content: str) -> None:
    shutil.copytree(finished, "run")
    (Path("run") / name).write_text(content)
    says(refused(verb, "run"), "damaged")


def test_a_run_of_another_format(refused: Refused, finished: Path) -> None:
    shutil.copytree(finished, "run")
    Path("run/environment.json").write_text(json.dumps({"format": 99}))
    says(refused("show", "run"), "format 99", "version of coterie")


def test_a_full_disk(coterie: Command, tmp_path: Path) -> None:
    """A limit on the size of files stands in for it: writing fails in the middle, as on a full disk."""
    coterie("check", "small.toml")
    with full_after(4096):
        answer = coterie("run", "small.toml", "--out", "run")
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1
    says(answer.err, "error: cannot write", "continue with --resume")
    before = (tmp_path / "run" / "experiment.toml").read_bytes()
    answer = coterie("run", "--resume", "--out", "run", "--no-plots")  # with room again it goes on
    assert answer.code == 0, answer.err
    assert (tmp_path / "run" / "experiment.toml").read_bytes() == before


# Trained models.


def test_models_that_cannot_be_exported(refused: Refused, finished: Path) -> None:
    words = ["export", finished, "-o", "m.safetensors", "--method"]
    says(refused(*words, "KD-PDFL", "--client", 4), "has no client 4; there are 0 to 3")
    says(refused(*words, "KD-PDFL", "--client", -1), "has no client -1; there are 0 to 3")
    says(refused(*words, "KDPDFL", "--client", 0), "unknown method", "Did you mean 'KD-PDFL'?")
    says(refused(*words, "KD-PDFL", "--client", 0, "--seed", 7), "has no seed 7", "there are: 0, 1")
    Path("m.safetensors").write_text("mine")
    says(
        refused(*words, "KD-PDFL", "--client", 0),
        "m.safetensors is not known to be a file that coterie wrote",
    )


def test_rows_that_cannot_be_predicted(coterie: Command, refused: Refused, finished: Path) -> None:
    coterie("export", finished, "--method", "KD-PDFL", "--client", 0, "-o", "m.safetensors")
    rows = {
        "few.csv": ("a,b\n1,2\n", "few.csv has 2 columns, but the model takes 6 numbers, of shape [6]"),
        "words.csv": (
            "a,b,c,d,e,f\n1,2,3,x,5,6\n",
            "words.csv, line 2, column 'd': expected a finite number",
        ),
        "none.csv": ("a,b,c,d,e,f\n", "none.csv: expected a header line and rows of data"),
        "missing.csv": (None, "cannot read missing.csv"),
    }
    for name, (text, told) in rows.items():
        if text is not None:
            Path(name).write_text(text)
        says(refused("predict", "m.safetensors", name), told)
    says(refused("predict", "few.csv", "few.csv"), "few.csv is no safetensors file")
    says(refused("predict", "nowhere", "few.csv"), "nowhere is not a trained model: there is no such file")
    says(refused("predict", "m.safetensors", "few.csv", "--json", "-o", "x.csv"), "choose one")
    says(refused("predict", "m.safetensors", "few.csv", "-o", "words.csv"), "so it is not replaced")


def test_rows_that_lack_named_columns(coterie: Command, refused: Refused) -> None:
    Path("x.csv").write_text(
        "hum,rattle,label\n" + "\n".join(f"{k},{k % 5},{k % 2}" for k in range(60)) + "\n"
    )
    coterie("run", "small.toml", "--set", CSV, "--out", "run", "--no-plots", "--seeds", 1)
    coterie("export", "run", "--method", "Local", "--client", 0, "-o", "m.safetensors")
    Path("rows.csv").write_text("hum,time\n1,2\n")
    says(
        refused("predict", "m.safetensors", "rows.csv"),
        "rows.csv lacks the columns 'rattle'; it has: hum, time",
    )
