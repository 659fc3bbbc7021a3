from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.core.errors import RunError, UnknownNameError
from coterie.runs import Run, RunFolder
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, WORLDS, metrics


def test_what_was_written_is_read(run: Run) -> None:
    assert run.experiment == EXPERIMENT
    assert run.worlds == WORLDS
    assert run.clients == CLIENTS
    assert run.status["state"] == "done"
    assert repr(run) == f"Run({str(run.path)!r})"


def test_summary_by_hand(run: Run) -> None:
    summary = run.summary()
    assert (summary["seeds"], summary["clients"], summary["groups"]) == ([0, 1], 4, 2)
    assert summary["local"] == ["Local"]
    ours = summary["methods"]["KD-PDFL"]
    # seed 0: .6 .6 .9 .7, seed 1: .6 .8 .2 and one diverged
    assert ours["personal"] == {
        "mean": pytest.approx((0.7 + 1.6 / 3) / 2),
        "std_seeds": pytest.approx((0.7 - 1.6 / 3) / 2**0.5),
        "std_clients": pytest.approx((0.015**0.5 + (0.56 / 9) ** 0.5) / 2),
        "worst10": pytest.approx((0.6 + 0.2) / 2),
        "hurt_vs_local": pytest.approx((1 / 4 + 1 / 3) / 2),
    }
    assert ours["global"]["mean"] == 0.5
    assert ours["best"] == {
        "personal": {"mean": pytest.approx(0.85), "t": 0},
        "global": {"mean": 0.5, "t": 0},
    }
    assert ours["bytes_sent"] == 2000
    assert ours["models_carried"] == 0.5
    # met: inside .8 .5 .05, outside .1 .5; 3.5 of 6 pairs in order
    assert ours["graph_auc"] == pytest.approx(3.5 / 6)
    assert ours["diverged"] == [{"seed": 1, "client": 3}]
    local = summary["methods"]["Local"]
    assert local["personal"]["hurt_vs_local"] == 0
    assert local["graph_auc"] is None
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def write(path: Path, worlds: list[int], rows: list[dict[str, object]]) -> Run:
    with RunFolder.create(path, EXPERIMENT) as folder:
        folder.describe(WORLDS, CLIENTS)
        for row in rows:
            if row["world"] in worlds:
                folder.metrics(row)
    return Run(path)


def test_one_seed_has_no_spread_and_without_local_nobody_is_hurt(tmp_path: Path) -> None:
    run = write(tmp_path, [1], [metrics(1, 0, [0.5] * 4)])
    ours = run.summary()["methods"]["KD-PDFL"]
    assert ours["personal"]["std_seeds"] is None
    assert ours["personal"]["hurt_vs_local"] is None
    assert run.table()["personal_std_seeds"].isna().all()
    assert run.per_client()["vs_local"].isna().all()


def test_all_clients_diverged(tmp_path: Path) -> None:
    run = write(tmp_path, [1], [metrics(1, 0, [float("nan")] * 4, diverged=[0, 1, 2, 3])])
    ours = run.summary()["methods"]["KD-PDFL"]
    assert set(ours["personal"].values()) == {None}
    assert ours["best"]["personal"] is None
    assert len(ours["diverged"]) == 4
    assert run.curves()["personal"].isna().all()
    assert run.plot(tmp_path / "plots")


def test_local_is_compared_at_the_same_iteration(tmp_path: Path) -> None:
    rows = [metrics(0, 0, [0.9] * 4), metrics(1, 0, [0.1] * 4), metrics(1, 5, [0.95] * 4)]
    run = write(tmp_path, [0, 1], rows)
    assert run.summary()["methods"]["KD-PDFL"]["personal"]["hurt_vs_local"] is None
    ours = run.per_client(t=4).query("method == 'KD-PDFL'")
    assert ours["vs_local"].tolist() == pytest.approx([-0.8] * 4)


def test_table(run: Run) -> None:
    table = run.table()
    assert list(table.index) == ["Local", "KD-PDFL"]
    assert table.loc["Local", "personal_mean"] == pytest.approx((0.65 + 0.4) / 2)
    assert table.loc["KD-PDFL", "personal_best"] == pytest.approx(0.85)
    assert table.loc["KD-PDFL", "diverged"] == 1
    assert table["graph_auc"].isna().tolist() == [True, False]


def test_curves(run: Run) -> None:
    curves = run.curves()
    assert len(curves) == 8
    last = curves.query("method == 'KD-PDFL' and seed == 1 and t == 10").iloc[0]
    assert last["personal"] == pytest.approx(1.6 / 3)
    assert last["loss"] == 2.0  # the diverged client's 4.0 is left out
    assert (last["bytes"], last["diverged"]) == (3000, 1)


def test_per_client(run: Run) -> None:
    ours = run.per_client().query("method == 'KD-PDFL' and seed == 0")
    assert ours["client"].tolist() == [0, 1, 2, 3]
    assert ours["group"].tolist() == [0, 0, 1, 1]
    assert ours["train"].tolist() == [5, 6, 7, 8]
    assert ours["vs_local"].tolist() == pytest.approx([0.1, 0.0, 0.2, -0.1])
    early = run.per_client(t=9)
    assert set(early["t"]) == {0}
    assert run.per_client(t=-1).empty


def test_graph_by_hand(run: Run) -> None:
    w = run.graph("KD-PDFL", seed=0)
    assert w.tolist() == [
        [0, 0.8, 0.1, 0.25],  # client 3 was not heard: its weight stays at 1/M
        [0.05, 0, 0.25, 0.25],
        [0.25, 0.25, 0, 0.25],
        [0.25, 0.5, 0.5, 0],
    ]
    assert run.graph("KD-PDFL", seed=0, t=4)[3].tolist() == [0.25, 0.25, 0.25, 0]


def test_graphs_that_there_are_not(run: Run) -> None:
    with pytest.raises(UnknownNameError, match=r"known: KD-PDFL, Local\. Did you mean 'KD-PDFL'"):
        run.graph("KDPDFL", seed=0)
    with pytest.raises(RunError, match="no seed 7 of Local; there are: 0, 1"):
        run.graph("Local", seed=7)
    with pytest.raises(RunError, match=r"Local of .* reported no weights"):
        run.graph("Local", seed=0)


def test_a_grid_compares_within_its_setting(tmp_path: Path) -> None:
    experiment = EXPERIMENT.replace(seeds=[0], grid={"train.lr": [0.1, 0.2]})
    with RunFolder.create(tmp_path, experiment) as folder:
        worlds = list(experiment.worlds())
        folder.describe([{**w._asdict(), "experiment": None, "federation": 0} for w in worlds], CLIENTS[:1])
        for k, accuracy in enumerate((0.5, 0.6, 0.7, 0.6)):
            folder.metrics(metrics(k, 10, [accuracy] * 4))
    methods = Run(tmp_path).summary()["methods"]
    assert list(methods) == ["Local [lr=0.1]", "KD-PDFL [lr=0.1]", "Local [lr=0.2]", "KD-PDFL [lr=0.2]"]
    hurt = [m["personal"]["hurt_vs_local"] for m in methods.values()]
    assert hurt == [0, 0, 0, 1]


def test_a_run_going_on(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, EXPERIMENT) as folder:
        folder.describe(WORLDS, CLIENTS)
        run = Run(tmp_path)
        assert run.status == {"state": "running", "t": 0, "iterations": 10, "seconds": 0.0}
        assert run.summary()["methods"] == {}
        assert run.table().empty
        assert run.curves().empty
        assert run.per_client().empty
        with pytest.raises(RunError, match="nothing to draw yet"):
            run.plot()
        folder.metrics(metrics(1, 0, [0.5] * 4))
        folder.status("running", 0, 10, 0.1)
        with (tmp_path / "metrics.jsonl").open("ab") as file:
            file.write(b'{"world": 1, "t": 5, "perso')
        assert Run(tmp_path).curves()["t"].tolist() == [0]


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no experiment\.toml"):
        Run(tmp_path)


@pytest.mark.parametrize("content", ['{"format": 99}', "{}", "[]"])
def test_another_format(run: Run, content: str) -> None:
    (run.path / "environment.json").write_text(content)
    with pytest.raises(RunError, match=r"format .* reads format 1 or 2"):
        Run(run.path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.jsonl", '{"world": 9, "t": 0}\n', "do not fit together"),
        ("metrics.jsonl", '{"t": 0}\n', "do not fit together"),
        ("metrics.jsonl", '{"world": 0, "t": 0, "personal": [1, 2]}\n', "do not fit together"),
        ("metrics.jsonl", "rubbish\n", r"metrics\.jsonl is damaged in line 1"),
        ("worlds.json", "[", r"worlds\.json is damaged"),
        ("worlds.json", "{}", "do not fit together"),
        ("clients.json", "[]", "do not fit together"),
        ("exchanges.jsonl", '{"weight": [1]}\n', r"exchanges\.jsonl is damaged"),
        ("experiment.toml", "seeds = [", r"experiment\.toml is damaged"),
    ],
)
def test_damaged_files(run: Run, file: str, content: str, message: str) -> None:
    (run.path / file).write_text(content)
    with pytest.raises(RunError, match=message):
        Run(run.path).summary()


def test_reading_a_run_needs_neither_torch_nor_pandas(run: Run) -> None:
    code = (
        "import sys; from coterie.runs import Run; Run(sys.argv[1]).summary();"
        "print([m for m in ('torch', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
