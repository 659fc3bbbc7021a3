"""What the page is told is what the run folder holds."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie import Run
from coterie.core.errors import CoterieError, RunError
from coterie.dashboard.incremental import Evaluations, bisection_order
from coterie.dashboard.sources import RunIndex, RunSource
from coterie.dashboard.views.graph import NOT_MET, SELF, affinity, clustered, places
from coterie.runs import RunFolder
from coterie.runs.gains import WorldGains, accounts
from coterie.runs.graph import CollaborationGraph, graph, graph_auc, listening
from coterie.runs.jsonl_index import JsonlIndex
from coterie.runs.metrics import by_name
from coterie.runs.results import columns
from coterie.runs.summary import curve
from tests.runs.hurt_fixture import sampled
from tests.runs.run_fixture import CLIENTS, EXCHANGES, EXPERIMENT, METRICS, WORLDS, make

WORLD = {"method": "KD-PDFL", "seed": "1"}


@pytest.fixture
def source(root: Path) -> RunSource:
    return RunSource(root / "small")


def test_the_overview_has_the_table_of_coterie_show(source: RunSource, small: Run) -> None:
    seen = source.answer("overview", {})
    shown = {title: [cell["text"] for cell in cells] for title, cells in seen["table"].items()}
    assert shown == {title: [c.text for c in cells] for title, cells in columns(small.summary()).items()}
    assert seen["parameters"] == small.config
    assert seen["environment"] == small.environment
    assert (seen["state"], seen["t"], seen["closing"], seen["length"]) == ("done", 60, 54, 60)
    assert [(row["name"], row["alone"]) for row in seen["rows"]] == [
        ("Local", True), ("FedAvg", False), ("KD-PDFL", False),
    ]  # fmt: skip


@pytest.mark.parametrize("score", ["personal", "global", "loss"])
def test_curves_are_means_over_seeds_with_their_spread(source: RunSource, small: Run, score: str) -> None:
    seen = source.answer("curves", {})
    assert seen["complete"] == 1
    for name, worlds in by_name(small.tracks).items():
        t, means = curve(worlds, score)
        drawn = seen["methods"][name][score]
        assert drawn["t"] == t.tolist()
        real = np.array(drawn["mean"], dtype=float)
        np.testing.assert_allclose(real, means.mean(axis=0), rtol=1e-4)
        np.testing.assert_allclose(
            np.array(drawn["std"], float), means.std(axis=0, ddof=1), rtol=1e-3, atol=1e-9
        )
    assert seen["methods"]["KD-PDFL"]["bytes"]["mean"][-1] > 0


@pytest.mark.parametrize("t", [5, 30, 60])
def test_a_frame_is_the_graph_at_that_iteration(source: RunSource, small: Run, t: int) -> None:
    while (seen := source.answer("graph", WORLD))["complete"] < 1:
        pass
    frame = source.answer("frame", {**WORLD, "t": str(t)})
    codes = np.frombuffer(base64.b64decode(frame["cells"]), dtype=np.uint8).reshape(8, 8)
    world = next(w for w in small.tracks if w.name == "KD-PDFL" and w.seed == 1)
    truth = graph(small.weighed[world.world], world.roster, t)
    met = listening(small.weighed[world.world], 8, t)
    assert (np.diag(codes) == SELF).all()
    off = ~np.eye(8, dtype=bool)
    assert ((codes == NOT_MET) == ~truth.met)[off].all()
    expected = np.clip(truth.weight / frame["top"] * 253, 0, 253)
    np.testing.assert_allclose(codes[truth.met], expected[truth.met], atol=0.51)
    for i, j, w in frame["edges"]:
        assert truth.weight[i, j] == pytest.approx(w, rel=1e-2)
    assert frame["auc"] == pytest.approx(graph_auc(met, world.roster), rel=1e-4) or frame["auc"] is None
    assert seen["group"] == world.group.tolist()
    assert list(seen["orders"]) == ["group", "cluster", "number"]
    assert [sorted(order) for order in seen["orders"].values()] == 3 * [list(range(8))]


def test_a_client_is_explained_by_what_it_heard(tmp_path: Path) -> None:
    source = RunSource(make(tmp_path / "made").path)
    seen = source.answer("client", {"method": "KD-PDFL", "seed": "0", "client": "0"})
    assert [(n["client"], n["weight"], n["share"], n["distance"]) for n in seen["neighbours"]] == [
        (1, 0.8, pytest.approx(8 / 9, rel=1e-4), 0.1),
        (2, 0.1, pytest.approx(1 / 9, rel=1e-4), 0.9),
    ]
    assert seen["events"] == [{"t": 0, "kind": "mix", "from": [1, 2], "lost": [3], "weight": [0.8, 0.1]}]
    assert seen["labels"] == [5, 0]
    assert seen["curves"]["own"] == [0.9, 0.6]
    assert seen["curves"]["local"]["own"] == [0.1, 0.5]
    late = source.answer("client", {"method": "KD-PDFL", "seed": "0", "client": "3", "t": "4"})
    assert (late["neighbours"], late["events"]) == ([], []), "it woke at 5"
    assert late["confidence"] == {"t": [5], "value": [0.3]}


def test_clients_and_who_is_hurt(tmp_path: Path) -> None:
    source = RunSource(make(tmp_path / "made").path)
    seen = source.answer("clients", {})
    assert (seen["method"], seen["seed"]) == ("KD-PDFL", 0)
    np.testing.assert_allclose(seen["gain"], [0.1, 0.0, 0.2, -0.1], atol=1e-9)
    other = source.answer("clients", {"method": "KD-PDFL", "seed": "1"})
    assert (other["diverged"], other["personal"][3], other["gain"][3]) == ([3], None, None)
    alone = source.answer("clients", {"method": "Local", "seed": "0"})
    assert (alone["gain"], alone["surely"]) == (None, None)
    assert seen["surely"] is None, "the run did not record which samples were right"


def test_clients_and_who_surely_lost_or_gained(tmp_path: Path) -> None:
    source = RunSource(sampled(tmp_path / "made", [(5, 0), (4, 0), (0, 5)]).path)
    assert source.answer("clients", {})["surely"] == [-1, 0, 1]
    world = {"method": "FedAvg", "seed": "0"}
    accounts = [source.answer("client", {**world, "client": str(k)})["account"] for k in range(3)]
    assert [account["surely"] for account in accounts] == ["lost", "neither", "gained"]
    assert source.answer("overview", {})["table"]["surely hurt"][1]["text"] == "33%"
    assert source.answer("clients", {"method": "Local", "seed": "0"})["surely"] is None


def test_a_client_is_told_what_coterie_show_tells(small: Run) -> None:
    source = RunSource(small.path)
    for account in accounts(small, 3, seed=1):
        asked = {"method": account.method, "seed": "1", "client": "3"}
        assert source.answer("client", asked)["account"] == account.plain()
    tally = source.answer("clients", {"method": "FedAvg", "seed": "1"})["tally"]
    worlds = by_name(small.tracks)["FedAvg"]
    assert tally == WorldGains(worlds[1], worlds).tally()


def test_a_client_that_exchanges_nothing_is_complete(tmp_path: Path) -> None:
    """The page asks again until it is, and so does a report."""
    source = RunSource(sampled(tmp_path / "made", [(5, 0), (4, 0)]).path)
    assert source.answer("client", {"method": "FedAvg", "seed": "0", "client": "0"})["complete"] == 1


def test_of_a_large_run_the_latest_exchanges_tell_what_goes_with_a_gain(
    small: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RunSource(small.path).answer("client", {**WORLD, "client": "3"})["account"]
    monkeypatch.setattr("coterie.dashboard.incremental._LARGE", 0)
    assert RunSource(small.path).answer("client", {**WORLD, "client": "3"})["account"] == whole


# Reading


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 61, 1000])
def test_a_spread_takes_each_once_the_ends_first_and_the_rest_evenly(count: int) -> None:
    order = bisection_order(count)
    assert sorted(order) == list(range(count))
    assert order[:2] == list(dict.fromkeys([count - 1, 0]))[:count]
    if count > 16:
        assert np.diff(sorted(order[:17])).max() <= count / 16 + 1


def test_the_last_evaluations_are_read_first_and_the_rest_later(small: Run) -> None:
    evaluations = Evaluations(small.path)
    evaluations.read(enough=lambda: True)
    last = {world: max(rows) for world, rows in evaluations.rows.items()}
    assert last == dict.fromkeys(range(6), 60)
    assert 0 < evaluations.share < 0.3
    evaluations.read(enough=lambda: False)
    assert evaluations.share == 1
    assert [sorted(rows) for rows in evaluations.rows.values()] == 6 * [[*range(0, 61, 10)]]


def test_large_files_are_answered_from_a_part_of_them(small: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time at all each answer still comes, from a few rows, and says of how much."""
    monkeypatch.setattr("coterie.dashboard.open_run.PATIENCE", 0.0)
    monkeypatch.setattr("coterie.dashboard.incremental._AT_ONCE", 3)
    monkeypatch.setattr("coterie.dashboard.open_run.OpenRun.tracks.__defaults__", (0.0,))
    monkeypatch.setattr("coterie.dashboard.open_run.OpenRun.history.__defaults__", (0.0,))
    read: list[int] = []
    monkeypatch.setattr(JsonlIndex, "_parsed", _counting(JsonlIndex._parsed, read))
    source = RunSource(small.path)
    assert source.answer("curves", {})["complete"] < 0.5
    assert len(read) < 12
    shares = [source.answer("graph", WORLD)["complete"] for _ in range(3)]
    assert 0 < shares[0] < shares[1] < shares[2] < 1


def _counting(parsed: Any, read: list[int]) -> Any:
    def count(self: JsonlIndex, line: bytes, number: int) -> Any:
        read.append(number)
        return parsed(self, line, number)

    return count


# Layout


def test_of_a_large_run_the_latest_exchanges_come_first(
    small: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(small.path, tmp_path / "large")
    (tmp_path / "large" / "summary.json").unlink()
    for name, size in (("_LARGE", 1000), ("_END", 6000), ("_LATEST", 4)):
        monkeypatch.setattr(f"coterie.dashboard.incremental.{name}", size)
    large = RunSource(tmp_path / "large")
    world = next(w.world for w in small.tracks if (w.name, w.seed) == ("KD-PDFL", 1))
    last = small.weighed[world][-1].t
    first = large.answer("graph", WORLD)
    assert (first["complete"], first["exchanges"], first["times"][-1]) == (0.0, 4, last)
    while (seen := large.answer("graph", WORLD))["complete"] < 1:
        assert seen["exchanges"] == 4
    at_end = {**WORLD, "t": str(last)}
    frame = large.answer("frame", at_end)
    aucs = [large.answer("overview", {})["table"]["graph AUC"][-1]["value"] for _ in range(2)]
    assert aucs[0] is None, "the first answer does not wait for it"
    assert 0 <= aucs[1] <= 1

    monkeypatch.undo()
    whole = RunSource(small.path)
    for part in ("times", "exchanges", "orders"):
        assert seen[part] == whole.answer("graph", WORLD)[part]
    assert frame == whole.answer("frame", at_end)


def test_groups_that_listen_to_themselves_lie_and_stand_together() -> None:
    group = np.arange(24) % 3
    same = (group[:, None] == group[None, :]) & ~np.eye(24, dtype=bool)
    near = affinity(CollaborationGraph(np.where(same, 1.0, 0.01), ~np.eye(24, dtype=bool)))
    order = clustered(near)
    assert (np.diff(group[order]) != 0).sum() == 2, "each group in one piece"
    at = places(near, order)
    assert np.linalg.norm(at, axis=1).max() == pytest.approx(1)
    apart = np.linalg.norm(at[:, None] - at[None, :], axis=-1)
    assert apart[same].mean() < 0.5 * apart[group[:, None] != group[None, :]].mean()
    np.testing.assert_array_equal(at, places(near, order))
    moved = np.linalg.norm(places(near, order, at) - at, axis=1)
    assert moved.max() < 0.35, "what was placed stays about where it is"


@pytest.mark.parametrize("clients", [2, 3])
def test_the_smallest_graphs_have_places(clients: int) -> None:
    near = affinity(
        CollaborationGraph(np.zeros((clients, clients)), np.zeros((clients, clients), dtype=bool))
    )
    assert np.isfinite(places(near, clustered(near))).all()


# Bad input


def test_runs_are_found_below_and_each_that_cannot_be_read_says_why(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "small", tmp_path / "table1" / "iot")
    shutil.copytree(root / "small", tmp_path / "old")
    old = tmp_path / "old" / "environment.json"
    old.write_text(json.dumps(json.loads(old.read_text()) | {"format": 99}))
    shutil.copytree(root / "small", tmp_path / "torn")
    (tmp_path / "torn" / "status.json").write_text('{"state": "run')
    (tmp_path / "other").mkdir()
    listing = RunIndex(tmp_path).listing()
    found = {run["id"]: run for run in listing["runs"]}
    assert set(found) == {"old", "table1/iot", "torn"}
    assert found["table1/iot"]["state"] == "done"
    assert "format 99, but this version of coterie reads format 1" in found["old"]["error"]
    assert "status.json is damaged" in found["torn"]["error"]


def test_a_run_folder_itself_can_be_shown(root: Path) -> None:
    shelf = RunIndex(root / "small")
    assert [run["id"] for run in shelf.listing()["runs"]] == ["small"]
    assert shelf.source("small").answer("status", {})["name"] == "small"


def test_a_folder_that_is_not_there_is_empty_and_a_file_is_refused(tmp_path: Path) -> None:
    assert RunIndex(tmp_path / "none").listing()["runs"] == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file; name the folder"):
        RunIndex(tmp_path / "file")


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "new", EXPERIMENT) as folder:
        source = RunSource(folder.path)
        assert source.answer("status", {})["methods"] == {}
        assert source.answer("overview", {})["rows"] == []
        assert source.answer("clients", {}) == {"worlds": []}
        assert source.answer("graph", {})["worlds"] == []
        before = source.stamp()
        folder.describe(WORLDS, CLIENTS)
        folder.metrics(METRICS[0])
        folder.status("running", 5, 10, 20.0)
        assert source.stamp() != before
        seen = source.answer("status", {})
        assert (seen["left"], seen["methods"], seen["quiet"]) == (20.0, {"Local": 0.1}, None)


def test_a_grid_over_the_length(tmp_path: Path) -> None:
    experiment = EXPERIMENT.replace(seeds=[0], grid={"train.iterations": [10, 40]})
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(tmp_path, experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for world in range(len(worlds)):
            folder.metrics({**METRICS[0], "world": world})
            folder.exchange({**EXCHANGES[0], "world": world})
    source = RunSource(tmp_path)
    seen = source.answer("overview", {})
    assert (seen["closing"], seen["length"], seen["state"]) == (40, 40, "interrupted")
    for t in (10, 40):
        asked = {"method": f"KD-PDFL [iterations={t}]", "seed": "0"}
        assert source.answer("graph", asked)["length"] == t


def test_a_run_that_gives_no_sign_of_life_says_so(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "killed", EXPERIMENT) as folder:
        folder.status("running", 5, 10, 1.0)
        os.utime(folder.path / "status.json", (1, 1))
        assert RunSource(folder.path).answer("status", {})["quiet"] > 1e9


@pytest.mark.parametrize(
    "name", ["worlds.json", "clients.json", "metrics.jsonl", "exchanges.jsonl", "summary.json"]
)
@pytest.mark.parametrize(
    "content", ["", "[", "{}", "[1]", "null", '{"world": 0}\n', '{"world": 0, "t": 5, "client": 9}\n']
)
@pytest.mark.parametrize("view", ["status", "overview", "curves", "graph", "client", "clients", "frame"])
def test_whatever_a_file_holds_there_is_an_answer_or_a_sentence(
    small: Run, tmp_path: Path, name: str, content: str, view: str
) -> None:
    shutil.copytree(small.path, tmp_path / "run")
    (tmp_path / "run" / name).write_text(content)
    with contextlib.suppress(CoterieError):
        json.dumps(RunSource(tmp_path / "run").answer(view, {**WORLD, "client": "1"}), allow_nan=False)
