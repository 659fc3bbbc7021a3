from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.core.errors import RunError
from coterie.experiment import Experiment
from coterie.runs import Run, RunFolder, free_name
from tests.disk import full_after
from tests.runs.run_fixture import EXPERIMENT, fill, make, metrics


def files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir()}


def test_what_a_folder_holds(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "a" / "run", EXPERIMENT, device="cpu (8 cores)") as folder:
        fill(folder)
        folder.summarize()
    assert set(files(folder.path)) == {
        ".lock", "clients.json", "environment.json", "exchanges.jsonl", "experiment.toml", "metrics.jsonl",
        "status.json", "summary.json", "task.json", "worlds.json",
    }  # fmt: skip
    assert Experiment.load(folder.path / "experiment.toml") == EXPERIMENT
    status = json.loads((folder.path / "status.json").read_text())
    assert status == {"state": "done", "t": 10, "iterations": 10, "seconds": 1.5}
    assert json.loads((folder.path / "summary.json").read_text()) == Run(folder.path).summary()
    environment = json.loads((folder.path / "environment.json").read_text())
    assert environment["device"] == "cpu (8 cores)"
    assert environment["python"] == sys.version.split()[0]
    assert {"coterie", "torch", "numpy", "platform", "cpus", "commit", "command", "date"} < set(environment)
    assert b"NaN" not in b"".join(files(folder.path).values())


def test_a_filled_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match=r"is in use: it is not empty; choose another folder with --out"):
        RunFolder.create(tmp_path, EXPERIMENT)
    assert files(tmp_path) == {"thesis.txt": b"years of work"}


def test_a_finished_run_is_not_overwritten(run: Run) -> None:
    before = files(run.path)
    with pytest.raises(RunError, match="continue it with --resume"):
        RunFolder.create(run.path, EXPERIMENT)
    assert files(run.path) == before


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, EXPERIMENT).close()
    assert Run(tmp_path).status["state"] == "interrupted"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="in use"):
        RunFolder.create(tmp_path / "file", EXPERIMENT)
    with pytest.raises(RunError, match="cannot"):
        RunFolder.create(tmp_path / "file" / "run", EXPERIMENT)


def test_only_one_writer_at_a_time(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, EXPERIMENT):
        with pytest.raises(RunError, match="in use: another process is writing here"):
            RunFolder.resume(tmp_path, EXPERIMENT)
        with pytest.raises(RunError, match="in use"):
            RunFolder.create(tmp_path, EXPERIMENT)
    RunFolder.resume(tmp_path, EXPERIMENT).close()


HOLD = """
import sys
from types import SimpleNamespace
from coterie.runs import RunFolder
folder = RunFolder.create(sys.argv[1], SimpleNamespace(plain=lambda: {"seeds": [7]}, device="cpu"))
folder.status("running", 0, 10, 0.0)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_killed_writer_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match="another process is writing here"):
            RunFolder.resume(path, EXPERIMENT)
        assert Run(path).status["state"] == "running"
        child.kill()
    assert Run(path).status["state"] == "interrupted"
    assert Run(path).continue_with == f"coterie run --resume --out {path}"
    with pytest.raises(RunError, match="another experiment"):  # no longer in use, but not ours either
        RunFolder.resume(path, EXPERIMENT)


def test_resuming_another_experiment_names_the_keys(run: Run) -> None:
    other = EXPERIMENT.replace(train__lr=0.2, data__clients=6)
    with pytest.raises(RunError) as caught:
        RunFolder.resume(run.path, other)
    assert "data.clients (there 4, now 6)" in str(caught.value)
    assert "train.lr (there 0.05, now 0.2)" in str(caught.value)
    assert "seeds" not in str(caught.value)
    RunFolder.resume(run.path, EXPERIMENT.replace(name="another label")).close()


def test_resuming_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder.resume(tmp_path / "none", EXPERIMENT)
    assert not (tmp_path / "none").exists()


def test_resuming_damaged_folders(run: Run) -> None:
    (run.path / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"damaged: metrics\.jsonl is missing"):
        RunFolder.resume(run.path, EXPERIMENT)
    (run.path / "experiment.toml").write_text("seeds = [")
    with pytest.raises(RunError, match=r"experiment\.toml cannot be used: .*TOML"):
        RunFolder.resume(run.path, EXPERIMENT)


def test_what_came_after_the_mark_is_written_again(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "cut", EXPERIMENT) as folder:
        folder.metrics(metrics(0, 0, [0.1] * 4))
        mark = folder.checkpoint_offsets()
        first = (folder.path / "metrics.jsonl").read_bytes()
        assert mark == {"metrics.jsonl": len(first), "exchanges.jsonl": 0}
        folder.metrics(metrics(0, 5, [0.2] * 4))
        folder.exchange({"world": 0})
    with (folder.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"world": 0, "t"')  # killed in the middle of a line
    with RunFolder.resume(tmp_path / "cut", EXPERIMENT) as folder:
        folder.metrics({"world": 0, "forgotten": True})
        folder.truncate_to(mark)
        assert (folder.path / "metrics.jsonl").read_bytes() == first
        assert (folder.path / "exchanges.jsonl").read_bytes() == b""
        folder.metrics(metrics(0, 5, [0.3] * 4))
    rows = (folder.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["personal"][0] for row in rows] == [0.1, 0.3]
    with RunFolder.resume(tmp_path / "cut", EXPERIMENT) as folder:
        folder.truncate_to({})
    assert (folder.path / "metrics.jsonl").read_bytes() == b""


def test_a_file_shorter_than_its_mark_is_damaged(tmp_path: Path) -> None:
    with (
        RunFolder.create(tmp_path, EXPERIMENT) as folder,
        pytest.raises(RunError, match=r"metrics\.jsonl is damaged: .* 7 bytes, now it has 0"),
    ):
        folder.truncate_to({"metrics.jsonl": 7, "exchanges.jsonl": 0})


def test_many_rows_reach_readers_before_the_mark(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, EXPERIMENT) as folder:
        folder.exchange({"note": "x" * 100})
        assert (tmp_path / "exchanges.jsonl").stat().st_size == 0
        folder.exchange({"note": "x" * 100_000})
        assert (tmp_path / "exchanges.jsonl").stat().st_size > 100_000
        folder.metrics(metrics(0, 0, [0.5] * 4))
        folder.status("running", 0, 10, 0.0, rate=3.0)
        assert (tmp_path / "metrics.jsonl").stat().st_size > 0
    assert Run(tmp_path).status["rate"] == 3.0


def test_a_full_disk_is_told_once(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, EXPERIMENT)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    folder.metrics({"world": 0})
    with pytest.raises(RunError, match=r"metrics\.jsonl: No space left on device"), folder:
        folder.checkpoint_offsets()
    folder.close()
    with pytest.raises(RunError, match="damaged"), RunFolder.resume(tmp_path, EXPERIMENT) as again:
        again.truncate_to({"metrics.jsonl": 1})


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    broken = EXPERIMENT.model_copy(update={"grid": {"train.lr": ({"x": 1}, None)}})
    with pytest.raises(Exception, match="TOML has no NoneType"):
        RunFolder.create(tmp_path / "run", broken)
    assert [p.name for p in (tmp_path / "run").iterdir()] == [".lock"]
    RunFolder.create(tmp_path / "run", EXPERIMENT).close()


def test_creating_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with full_after(50_000), pytest.raises(RunError, match=r"experiment\.toml: File too large"):
        RunFolder.create(tmp_path, EXPERIMENT.replace(methods={"x" * 100_000: {"name": "Local"}}))
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


def test_free_names(tmp_path: Path) -> None:
    base = tmp_path / "runs" / "quick"
    assert free_name(base) == base
    make(base)
    assert free_name(base) == tmp_path / "runs" / "quick-2"
    make(free_name(base))
    (tmp_path / "runs" / "quick-3").mkdir()  # empty: free
    assert free_name(str(base)) == tmp_path / "runs" / "quick-3"
