"""Every verb on its way to success."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coterie import Experiment, Run
from coterie.cli.template import template
from coterie.core.registry import KINDS, registered
from coterie.experiment import Data, Evaluate, Exchange, Population, Train, presets
from coterie.runs.gains import accounts
from coterie.storage.lock import locked
from tests.cli.conftest import Command, Refused, says
from tests.conftest import Install

VERBS = [
    "run", "reproduce", "tune", "sweep", "ls", "show", "plot", "new", "check", "bench", "dashboard", "report",
    "ca", "peer", "swarm", "replay", "doctor",
]  # fmt: skip


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


# The command itself.


def test_help_names_every_verb_and_where_to_start(coterie: Command) -> None:
    answer = coterie("--help")
    assert answer.code == 0
    assert "coterie run quickstart" in answer.out
    for verb in VERBS:
        assert f" {verb} " in answer.out


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_help_of_every_verb_has_an_example(coterie: Command, verb: str, flag: str) -> None:
    answer = coterie(verb, flag)
    assert answer.code == 0
    assert "Example" in answer.out
    assert f"coterie {verb}" in answer.out.partition("Example")[2]


def test_version(coterie: Command) -> None:
    answer = coterie("--version")
    assert answer.code == 0
    assert answer.out.startswith("coterie 0.")


@pytest.mark.parametrize("module", ["coterie", "coterie.cli", "coterie.runs"])
def test_torch_is_not_loaded_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'sklearn', 'matplotlib') if m in sys.modules])"
    assert python(code).stdout == "[]\n"


def test_a_reader_of_a_pipe_may_leave() -> None:
    command = f"{sys.executable} -c 'from coterie.cli import main; main()' ls | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("algorithms\n", "")


# run


def test_run_writes_a_folder_and_says_how_it_went_in_plain_lines(coterie: Command, tmp_path: Path) -> None:
    answer = coterie("run", "small.toml")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "reading small.toml ..."
    assert lines[1] == "small: 4 clients, 2 methods x 2 seeds, 20 iterations on cpu"
    assert any(line.startswith("20/20  ") and "Local" in line and "KD-PDFL" in line for line in lines)
    assert "\x1b" not in answer.out
    assert "personal" in answer.out
    assert "results   runs/small" in lines
    for picture in ("curves", "graph-KD-PDFL", "labels", "overview"):
        assert f"picture   runs/small/plots/{picture}.png" in lines
        assert (tmp_path / f"runs/small/plots/{picture}.png").stat().st_size > 1000
    assert Run("runs/small").status["state"] == "done"


def test_settings_seeds_device_folder(coterie: Command) -> None:
    answer = coterie(
        "run", "small.toml", "--set", "train.lr=0.2", "--set", "methods.KD-PDFL.adoption=mix",
        "--set", "train.iterations=6", "--set", 'data.partition={name="dirichlet",alpha=0.5}',
        "--seeds", "1", "--device", "cpu", "--out", "here/and/there", "--no-plots",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "1 seed," in answer.out
    e = Run("here/and/there").experiment
    assert (e.train.lr, e.train.iterations, e.seeds, e.device) == (0.2, 6, (0,), "cpu")
    assert e.methods["KD-PDFL"].options == {"adoption": "mix"}
    assert e.data.partition.options == {"alpha": 0.5}
    assert not Path("here/and/there/plots").exists()
    assert not Path("runs").exists()


def test_a_second_run_gets_a_folder_of_its_own(coterie: Command) -> None:
    for folder in ("runs/small", "runs/small-2", "runs/small-3"):
        answer = coterie("run", "small.toml", "--set", "train.iterations=3", "--no-plots")
        assert f"results   {folder}\n" in answer.out
    listed = coterie("ls", "runs").out
    for folder in ("runs/small", "runs/small-2", "runs/small-3"):
        assert f"{folder} " in listed
    assert "done, iteration 3 of 3" in listed


def test_resume(coterie: Command) -> None:
    coterie("run", "small.toml", "--no-plots")
    before = Path("runs/small/metrics.jsonl").read_bytes()
    for words in (["small.toml"], ["--out", "runs/small"], ["small.toml", "--out", "runs/small"]):
        answer = coterie("run", "--resume", "--no-plots", *words)
        assert answer.code == 0, answer.err
        assert "results   runs/small\n" in answer.out
    assert Path("runs/small/metrics.jsonl").read_bytes() == before
    assert not Path("runs/small-2").exists()


def test_the_data_folder(coterie: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    rows = [f"{i % 7},{i % 3},{'no' if i % 2 else 'yes'}" for i in range(80)]
    (tmp_path / "far" / "table.csv").write_text("\n".join(["a,b,label", *rows]))
    words = (
        "run",
        "small.toml",
        "--no-plots",
        "--set",
        "data.set={name='csv',path='table.csv',label='label'}",
    )
    assert coterie(*words, "--data", "far", "--out", "one").code == 0
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "far"))
    assert coterie(*words, "--out", "two").code == 0
    assert Run("one").clients == Run("two").clients
    assert Run("one").clients[0]["classes"] == ["no", "yes"]


def test_a_grid_shows_every_setting(coterie: Command) -> None:
    answer = coterie(
        "run", "small.toml", "--no-plots", "--set", "grid={'train.lr'=[0.1,0.2]}", "--seeds", "1"
    )
    assert "2 methods x 1 seed x 2 settings" in answer.out
    assert "20/20  " in answer.out
    for name in ("Local [lr=0.1]", "KD-PDFL [lr=0.2]"):
        assert name in answer.out.partition("personal %")[0]  # in the lines on the way
    rows = [line.split()[:2] for line in answer.out.splitlines()]
    assert ["method", "lr"] in rows
    for row in (["Local", "0.1"], ["KD-PDFL", "0.1"], ["Local", "0.2"], ["KD-PDFL", "0.2"]):
        assert row in rows  # in columns of the table


def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    """See test_simulation for the signals; here, what people read."""
    from coterie.api import Stopped

    assert str(Stopped(tmp_path, 3, 9)) == f"stopped at iteration 3 of 9; everything is saved in {tmp_path}"


# ls


@pytest.mark.parametrize("kind", KINDS)
def test_ls_lists_every_plugin_with_one_line(coterie: Command, kind: str) -> None:
    answers = [coterie("ls", word) for word in (KINDS[kind], kind, kind.capitalize())]
    assert len(set(answers)) == 1
    title, *lines, empty = answers[0].out.splitlines()
    assert (answers[0].code, title, empty) == (0, KINDS[kind], "")
    assert [line.split()[0] for line in lines] == list(registered(kind))
    assert all(len(line.split()) > 3 for line in lines)


def test_ls_alone_lists_all_kinds_and_presets(coterie: Command) -> None:
    out = coterie("ls").out
    titles = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert titles == [*KINDS.values(), "presets"]


def test_the_help_of_ls_names_every_kind(coterie: Command) -> None:
    words = coterie("ls", "--help").out.replace(",", " ").split()
    assert {*KINDS.values(), "presets", "runs"} <= set(words)


def test_ls_shows_the_options_of_one(coterie: Command) -> None:
    out = coterie("ls", "algorithms", "kd_pdfl").out
    assert "mu1" in out
    assert "Sensitivity to the statistical distance." in out
    assert "`l2` is ½ Σ_j w_ij²" in out
    assert "no options" in coterie("ls", "distance", "cosine").out
    assert "required" in coterie("ls", "datasets", "csv").out


def test_ls_of_a_users_own(coterie: Command) -> None:
    Path("ls_mine.py").write_text('def data(n: int = 3) -> None:\n    "Two lists: [first, second]."\n')
    out = coterie("ls", "datasets", "ls_mine:data").out
    assert "Two lists: [first, second]." in out
    assert ["n", "3", "whole", "number"] in [line.split() for line in out.splitlines()]


def test_ls_says_which_package_brings_a_plugin(coterie: Command, install: Install) -> None:
    install("ls_package", "from coterie import register\nregister('channel', 'wire')(type('Wire', (), {}))\n")
    install("ls_broken", "import no_such_module")
    answer = coterie("ls", "channels")
    assert ["wire", "(ls_package", "1.2)"] in [line.split() for line in answer.out.splitlines()]
    assert "plugins of the package ls_broken 1.2 are missing: module 'ls_broken' cannot be imp" in answer.err
    assert ["package", "ls_package", "1.2"] in [
        line.split() for line in coterie("ls", "channels", "wire").out.splitlines()
    ]
    assert json.loads(coterie("ls", "channels", "wire", "--json").out)["package"] == "ls_package 1.2"


def test_ls_shows_a_preset_as_it_is_written(coterie: Command) -> None:
    listed = coterie("ls", "presets").out
    for name, line in presets().items():
        assert line in listed
        shown = coterie("ls", "presets", name).out
        assert Experiment.parse(tomllib.loads(shown)) == Experiment.load(name)


def test_ls_runs(coterie: Command, finished: Path) -> None:
    assert "none yet" in coterie("ls", "runs").out
    shutil.copytree(finished, "runs/good")
    shutil.copytree(finished, "runs/bad")
    Path("runs/bad/status.json").write_text("{")
    answer = coterie("ls", "runs")
    assert answer.code == 0
    good, bad = sorted(answer.out.splitlines()[1:3], reverse=True)
    assert good.split() == ["runs/good", "done,", "iteration", "20", "of", "20"]
    assert "damaged" in bad
    assert coterie("ls", "runs", "good").out == coterie("show", "runs/good").out


# show


def test_show_as_a_table(coterie: Command, finished: Path) -> None:
    answer = coterie("show", finished)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    for text in ("small", "Local", "KD-PDFL", "personal", "vs Local", "graph", "2 true groups"):
        assert text in words


def test_the_table_fits_a_narrow_terminal(
    coterie: Command, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = coterie("show", finished).out
    assert "KD-PDFL" in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_show_by_model(coterie: Command, refused: Refused, tmp_path: Path) -> None:
    toml = tmp_path / "phones.toml"
    toml.write_text(
        'name = "phones"\nseeds = 1\nmethods = ["Local", "KD-PDFL"]\n'
        'model = ["linear", { name = "mlp", hidden = [4] }]\n'
        '[data]\nset = "synthetic"\nclients = 4\n[train]\niterations = 10\n[exchange]\nevery = 5\n'
    )
    coterie("run", toml, "--out", tmp_path / "run", "--no-plots")
    words = ["show", tmp_path / "run", "--by", "model"]
    shown = coterie(*words).out
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith(("Local", "KD-PDFL"))] == [
        [method, model, "2"] for method in ("Local", "KD-PDFL") for model in ("linear", "mlp")
    ]
    numbers = json.loads(coterie(*words, "--json").out)
    assert numbers["methods"]["KD-PDFL"]["mlp"].keys() == {
        "clients", "personal", "global", "gain", "hurt_vs_local", "surely_hurt",
    }  # fmt: skip
    assert "| KD-PDFL | linear | 2 |" in coterie(*words, "--markdown").out
    assert "--by model is about all clients" in refused(*words, "--client", 1)


def test_one_model_is_not_told_apart(refused: Refused, finished: Path) -> None:
    assert "no clients with different models to tell apart" in refused("show", finished, "--by", "model")


def test_show_finds_a_run_by_its_name(coterie: Command, finished: Path) -> None:
    shutil.copytree(finished, "runs/mine")
    assert coterie("show", "mine") == coterie("show", "runs/mine") == coterie("show", finished)


def test_show_as_json_has_the_promised_keys(coterie: Command, finished: Path) -> None:
    shown = json.loads(coterie("show", finished, "--json").out)
    assert list(shown["methods"]) == ["Local", "KD-PDFL"]
    for method in shown["methods"].values():
        for score in ("personal", "global"):
            assert list(method[score]) == ["mean", "std_seeds", "std_clients", "worst10", "hurt_vs_local"]
            assert 0 <= method[score]["mean"] <= 1
    assert shown["methods"]["Local"]["bytes_sent"] == 0
    assert shown["methods"]["Local"]["graph_auc"] is None
    assert shown["methods"]["KD-PDFL"]["bytes_sent"] > 0
    assert 0 <= shown["methods"]["KD-PDFL"]["graph_auc"] <= 1
    assert 0 <= shown["methods"]["KD-PDFL"]["surely_hurt"] <= 1
    assert shown == Run(finished).summary() == json.loads((finished / "summary.json").read_text())


def test_show_as_markdown(coterie: Command, finished: Path) -> None:
    header, rule, *rows = coterie("show", finished, "--markdown").out.splitlines()
    assert header.startswith("| method | personal % |")
    assert rule.startswith("| --- | ---: |")
    assert rows[0].startswith("| Local | ")
    assert {line.count("|") for line in (header, rule, *rows[:2])} == {9}


@pytest.mark.parametrize("state", ["running", "stopped", "failed", "interrupted"])
def test_show_of_a_run_that_is_not_done(coterie: Command, finished: Path, state: str) -> None:
    shutil.copytree(finished, "half")
    killed = state == "interrupted"
    status = {"state": "running" if killed else state, "t": 10, "iterations": 20, "seconds": 1.0}
    Path("half/status.json").write_text(json.dumps(status))
    rows = Path("half/metrics.jsonl").read_text().splitlines(keepends=True)
    Path("half/metrics.jsonl").write_text("".join(r for r in rows if json.loads(r)["t"] < 20))
    with contextlib.nullcontext() if killed else locked(Path("half")) as lock:
        answer = coterie("show", "half")
    if lock is not None:
        os.close(lock)
    assert answer.code == 0
    assert f"{state.capitalize()} at iteration 10 of 20." in " ".join(answer.out.split())
    assert (state != "running") == answer.out.endswith("continue with: coterie run --resume --out half\n")


def test_show_tells_of_one_client(coterie: Command, finished: Path) -> None:
    (account,) = accounts(Run(finished), 1)
    words = coterie("show", finished, "--client", "1").out.split()
    assert " ".join(words) == f"KD-PDFL, seed 0: {account.text}"
    shown = json.loads(coterie("show", finished, "--client", "1", "--seed", "0", "--json").out)
    assert shown == [account.plain()]
    assert shown[0]["gain"] == pytest.approx(
        Run(finished).per_client().query("method == 'KD-PDFL' and seed == 0 and client == 1").vs_local.item(),
        abs=1e-5,
    )


def test_a_client_is_named_by_its_owner(coterie: Command, refused: Refused) -> None:
    rows = [f"{k % 7},{k % 2},{('Ann', 'b:cat: [b]Bob' + chr(27))[k // 30]}" for k in range(60)]
    Path("rows.csv").write_text("\n".join(["a,kind,who", *rows]) + "\n")
    Path("owned.toml").write_text(
        'name = "owned"\nseeds = 1\nmethods = ["Local", "FedAvg"]\nmodel = "linear"\n[data]\nclients = 2\n'
        'set = { name = "csv", path = "rows.csv", label = "kind", owner = "who" }\n'
        "[train]\niterations = 6\nbatch = 4\n[exchange]\nevery = 3\n"
    )
    assert coterie("run", "owned.toml", "--no-plots").code == 0
    shown = coterie("show", "owned", "--client", "ann").out
    assert shown == coterie("show", "owned", "--client", "0").out
    assert "Client 0 (Ann) " in shown
    evil = " ".join(coterie("show", "owned", "--client", "1").out.split())
    assert "Client 1 (b:cat: [b]Bob�) " in evil  # as it is written, and nothing that steers the terminal
    (account,) = json.loads(coterie("show", "owned", "--client", "Ann", "--json").out)
    assert (account["client"], account["owner"]) == (0, "Ann")
    answer = coterie("export", "owned", "--method", "FedAvg", "--client", "Ann", "-o", "ann.safetensors")
    assert answer.out.startswith("model     ann.safetensors  (linear, of Ann, 2 classes, accuracy ")
    given = coterie("export", "owned", "--method", "FedAvg", "--client", "0", "-o", "a.safetensors", "--json")
    assert json.loads(given.out)["owner"] == "Ann"
    for words in (("show", "owned"), ("export", "owned", "--method", "FedAvg", "-o", "b.safetensors")):
        says(refused(*words, "--client", "Anne"), "unknown owner 'Anne' of runs/owned", "Did you mean 'Ann'?")


def test_models_by_owner_are_checked_before_a_run(refused: Refused) -> None:
    Path("by.toml").write_text(
        'model = [{ name = "linear", owners = ["Hungry"] }, { name = "mlp" }]\n'
        'methods = ["Local"]\n[data]\nset = "heart"\nclients = 4\n'
    )
    says(refused("check", "by.toml"), "'linear' goes to an unknown owner 'Hungry'", "Did you mean 'Hungary'?")
    says(refused("check", "by.toml", "--set", "data.set=diabetes", "--set", "data.clients=8",
                 "--set", "task=regression"), "known: sex 1, age 19 to 37")  # fmt: skip
    says(refused("check", "by.toml", "--set", "data.set=digits"), "the data name none", "`clients`")


def test_show_of_a_client_that_is_not_there(refused: Refused, finished: Path) -> None:
    clients = len(Run(finished).tracks[0].group)
    says(refused("show", finished, "--client", "99"), f"no client 99; there are 0 to {clients - 1}")
    says(refused("show", finished, "--client", "-1"), f"no client -1; there are 0 to {clients - 1}")
    says(refused("show", finished, "--client", "Ann"), "expected the number of a client", "name no owners")
    says(refused("show", finished, "--client", "1", "--seed", "99"), "no seed 99; there are: 0")
    says(refused("show", finished, "--seed", "0"), "name the client, too: --client N")
    says(refused("show", finished, "--client", "1", "--markdown"), "leave out --markdown")


def test_ls_of_a_run_that_was_killed(coterie: Command, finished: Path) -> None:
    shutil.copytree(finished, "runs/half")
    Path("runs/half/status.json").write_text('{"state": "running", "t": 10, "iterations": 20}')
    want = "interrupted, iteration 10 of 20; continue with: coterie run --resume --out runs/half"
    assert want in coterie("ls", "runs").out


# plot


def test_export_and_predict(coterie: Command, finished: Path) -> None:
    answer = coterie(
        "export", finished, "--method", "KD-PDFL", "--client", 2, "--seed", 1, "-o", "c.safetensors"
    )
    assert answer.out.startswith("model     c.safetensors  (mlp, 3 classes, accuracy ")
    assert "through the shift concept" not in answer.err
    Path("rows.csv").write_text("a,b,c,d,e,f\n1,-1,0.25,2,0,0.5\n0,0,0,0,0,0\n")
    shown = coterie("predict", "c.safetensors", "rows.csv").out.splitlines()
    assert shown[0] == "class,probability"
    assert len(shown) == 3
    rows = json.loads(coterie("predict", "c.safetensors", "rows.csv", "--json", "--probabilities").out)
    assert sum(v for k, v in rows[0].items() if k.startswith("p(")) == pytest.approx(1, abs=1e-5)
    assert shown[1] == f"{rows[0]['class']},{rows[0]['probability']}"
    for _ in range(2):  # its own file is replaced
        assert "2 rows   out.csv" in coterie("predict", "c.safetensors", "rows.csv", "-o", "out.csv").out
    assert Path("out.csv").read_text().splitlines() == shown


def test_predict_finds_columns_by_their_names(coterie: Command) -> None:
    lines = [f"{k % 3 * 10 + k / 100},{k % 2},{'abc'[k % 3]}" for k in range(60)]
    Path("raw.csv").write_text("\n".join(["hum,rattle,state", *lines]) + "\n")
    settings = "data.set={name='csv',path='raw.csv',label='state',transform='standard'}"
    coterie("run", "small.toml", "--set", settings, "--out", "run", "--no-plots", "--seeds", 1)
    coterie("export", "run", "--method", "Local", "--client", 0, "-o", "m.safetensors")
    Path("turned.csv").write_text(
        "rattle,note,hum\n" + "\n".join(f"{k % 2},x,{k % 3 * 10}" for k in range(9)) + "\n"
    )
    Path("plain.csv").write_text("hum,rattle\n" + "\n".join(f"{k % 3 * 10},{k % 2}" for k in range(9)) + "\n")
    found = coterie("predict", "m.safetensors", "turned.csv").out
    assert found == coterie("predict", "m.safetensors", "plain.csv").out
    assert len(set(found.splitlines()[1:])) > 3


def test_a_model_of_a_regression_predicts_numbers(coterie: Command, refused: Refused) -> None:
    lines = [f"{k / 60},{k % 2},{3 * k / 60 + k % 2}" for k in range(60)]
    Path("load.csv").write_text("\n".join(["hours,night,price", *lines]) + "\n")
    settings = ("data.set={name='csv',path='load.csv',target=['price']}", "task=regression", "model=linear")
    sets = [part for one in settings for part in ("--set", one)]
    coterie("run", "small.toml", *sets, "--set", "data.partition=iid", "--out", "run", "--no-plots")
    written = coterie("export", "run", "--method", "Local", "--client", 0, "--seed", 0, "-o", "m.safetensors")
    assert "(linear, regression, RMSE " in written.out
    Path("new.csv").write_text("night,hours\n0,0.0\n1,0.5\n")
    rows = json.loads(coterie("predict", "m.safetensors", "new.csv", "--json").out)
    assert [list(row) for row in rows] == [["predicted(price)"], ["predicted(price)"]]
    assert rows[0]["predicted(price)"] < rows[1]["predicted(price)"]
    for _ in range(2):  # its own file is replaced
        assert "2 rows   out.csv" in coterie("predict", "m.safetensors", "new.csv", "-o", "out.csv").out
    Path("prices.csv").write_text("price\n1.0\n")
    assert "so it is not replaced" in refused("predict", "m.safetensors", "new.csv", "-o", "prices.csv")


def test_plot_says_what_it_drew(coterie: Command, finished: Path) -> None:
    answer = coterie("plot", finished, "--out", "pictures")
    assert answer.code == 0
    drawn = answer.out.split()
    assert "pictures/overview.png" in drawn
    assert sorted(drawn) == sorted(map(str, Path("pictures").iterdir()))
    for picture in drawn:
        assert Path(picture).read_bytes()[:4] == b"\x89PNG"


def test_plot_replaces_only_what_coterie_drew(coterie: Command, refused: Refused, finished: Path) -> None:
    for _ in range(2):
        assert coterie("plot", finished, "--out", "pictures").code == 0
    Path("pictures/labels.png").write_bytes(b"\x89PNG of a cat")
    says(
        refused("plot", finished, "--out", "pictures"),
        "pictures/labels.png",
        "not known to be a file that coterie",
    )
    shutil.copytree(finished, "mine")
    Path("mine/plots").mkdir()
    Path("mine/plots/labels.png").write_bytes(b"drawn by an older version")
    assert coterie("plot", "mine").code == 0  # in its own folder it may
    assert Path("mine/plots/labels.png").stat().st_size > 1000


# new and check


def test_new_writes_the_defaults_with_what_they_mean(coterie: Command) -> None:
    answer = coterie("new", "mine")
    assert answer.code == 0
    assert "coterie run mine.toml" in answer.out
    text = Path("mine.toml").read_text()
    assert Experiment.load("mine.toml") == Experiment.load("quickstart").replace(name="mine")
    assert "# T, the number of iterations.\niterations = 1000\n" in text
    assert "# The size of a local step. Default: 0.05.\nlr = 0.1\n" in text
    for key in ("[train]", "[exchange]", "[population]", "[evaluate]", "[methods]", "[grid]"):
        assert f"\n{key}\n" in text
    assert max(map(len, text.splitlines())) <= 110


def test_every_setting_is_in_the_template() -> None:
    lines = [line.removeprefix("# ") for line in template("x").splitlines()]
    for section in (Experiment, Data, Train, Exchange, Population, Evaluate):
        for key in section.model_fields:
            assert f"[{key}]" in lines or any(line.startswith(f"{key} =") for line in lines), key


@pytest.mark.parametrize("name", ["mine", "mine.toml", "ünï cødé", "a.b-c_d 2"])
def test_what_new_writes_passes_check(coterie: Command, name: str) -> None:
    coterie("new", name)
    file = f"{name.removesuffix('.toml')}.toml"
    answer = coterie("check", file, "--set", "seeds=1")
    assert answer.code == 0, answer.err
    assert "4 worlds in 1 batched run, 80 clients" in answer.out
    assert "note: " not in answer.out
    assert "10 classes, a model of 4,810 parameters" in answer.out


@pytest.mark.parametrize("preset", presets())
def test_new_begins_from_any_preset(coterie: Command, preset: str) -> None:
    assert coterie("new", "mine", "--from", preset).code == 0
    assert Experiment.load("mine.toml") == Experiment.load(preset).replace(name="mine")


def test_new_begins_from_a_file(coterie: Command) -> None:
    assert coterie("new", "mine", "--from", "small.toml").code == 0
    assert Experiment.load("mine.toml") == Experiment.load("small.toml").replace(name="mine")


def test_new_in_another_folder(coterie: Command) -> None:
    Path("there").mkdir()
    assert coterie("new", "there/mine").code == 0
    assert Experiment.load("there/mine.toml").name == "mine"


def test_check_and_run_tell_what_never_happens(coterie: Command) -> None:
    note = "note: there is no exchange at all: exchange.every = 50, but train.iterations = 20"
    for words in (["check"], ["run", "--no-plots"]):
        answer = coterie(*words, "small.toml", "--set", "exchange.every=50")
        assert (answer.code, answer.err) == (0, "")
        assert note in answer.out


def test_check_and_run_tell_of_weights_that_are_thrown_away(coterie: Command) -> None:
    note = (
        "note: model Sequential brings weights of its own (1.weight, 1.bias, 2.weight and 2 more), which are"
    )
    model = ("--set", "model=tests.plugins.models.pretrained:pretrained")
    for words in (["check"], ["run", "--no-plots"]):
        answer = coterie(*words, "small.toml", *model)
        assert (answer.code, answer.err) == (0, "")
        assert note in answer.out
        answer = coterie(*words, "small.toml", *model, "--set", "train.init=given")
        assert (answer.code, answer.err) == (0, "")
        assert "note: " not in answer.out


def test_check_tells_what_would_be_run(coterie: Command) -> None:
    before = sorted(os.listdir())
    answer = coterie("check", "small.toml", "--set", "data.sizes=[4,4]")
    assert answer.code == 0
    assert answer.out == (
        "small.toml is sound: 4 worlds in 1 batched run, 16 clients with 4 to 4 training samples, "
        "3 classes, a model of 53 parameters\n"
    )
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", presets())
def test_check_of_every_preset(coterie: Command, name: str) -> None:
    """And so of its start: data, models, schedules and one step of each method."""
    fewer = ["--set", "data.clients=12000"] if name == "million" else []
    answer = coterie("check", name, *fewer)
    assert answer.code == 0
    said = answer.out.splitlines()[-1]
    assert said.startswith(f"{name} is sound: ")
    assert ("each of the 1,258 training samples is held by 114 of" in answer.out) == (name == "million")
    assert Experiment.load(name).name == name
