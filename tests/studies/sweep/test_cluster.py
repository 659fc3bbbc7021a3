"""Sweeps on a real Ray cluster of two machines: one is lost, one is a stranger."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from coterie import Experiment, Run, run
from coterie.core.errors import ConfigError, RunError
from coterie.studies.cluster_run import run_on_cluster
from coterie.studies.sweep.cluster import connected
from coterie.studies.sweep.folder import Sweep
from coterie.studies.sweep.runner import SweepStopped, sweep
from coterie.studies.sweep.worker import JobEvent
from tests.cli.conftest import SMALL
from tests.studies.sweep.small import PYTHONPATH, Shown, equal, gated, grid, own_data, pipe
from tests.trees import close

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
    # Ray leaves sockets and files to the garbage collector, which may come when another test runs.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LEAN = {"object_store_memory": 80 << 20, "include_log_monitor": False}
"""Little memory for Ray's objects on each machine, and no process that nobody needs."""


@pytest.fixture(scope="module")
def cluster(outside: None) -> Iterator[Any]:
    """Two machines with a core each, and a head without; what they keep for themselves goes at the end."""
    from ray.cluster_utils import Cluster

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as short,  # for the names of Ray's sockets
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", short)
        patch.setenv("PYTHONPATH", PYTHONPATH)
        made: Any = Cluster(
            initialize_head=True, head_node_args={**LEAN, "num_cpus": 0, "include_dashboard": False}
        )
        try:
            for _ in range(2):
                made.add_node(num_cpus=1, **LEAN)
            yield made
        finally:
            made.shutdown()


@pytest.fixture(scope="module")
def joined(cluster: Any) -> Iterator[Any]:
    """The cluster, connected for several sweeps: what starts there for one is there for the next."""
    with connected(cluster.address):
        yield cluster


def nowhere(tmp_path: Path, address: str, device: str, cpus: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sweep(grid(tmp_path, device=device), tmp_path / "sweep", ray=address, cpus=cpus)
    assert not (tmp_path / "sweep").exists()


def test_more_cores_than_any_machine_has(cluster: Any, tmp_path: Path) -> None:
    """By the address alone, as every sweep of a user comes to a cluster."""
    words = "takes 3 CPU, but no machine of the Ray cluster has more than 1; use a smaller --cpus"
    nowhere(tmp_path, cluster.address, "cpu", 3, words)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda", "takes 1 GPU, but no machine of the Ray cluster has more than 0; use device = 'cpu'"),
        ("cuda:1", "device 'cuda:1' cannot be had on a Ray cluster"),
    ],
)
def test_a_device_that_no_machine_has(joined: Any, tmp_path: Path, device: str, words: str) -> None:
    nowhere(tmp_path, joined.address, device, 1, words)


class Losing(Shown):
    """Takes away the machine of the first job that gets going, and opens the gate when that is known."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        super().__init__(self.lose)
        self.cluster, self.pipe, self.lost, self.gate = cluster, pipe(folder), "", -1

    def lose(self, event: JobEvent) -> None:
        node = event.where.partition("(")[2][:6]
        (there,) = (n for n in self.cluster.worker_nodes if n.node_id.startswith(node))
        self.cluster.remove_node(there, allow_graceful=False)
        self.lost = event.job

    def ended(self, job: str, state: str) -> None:
        super().ended(job, state)
        if self.gate < 0:
            self.gate = os.open(self.pipe, os.O_RDWR)


def test_a_machine_is_lost_in_the_middle(joined: Any, tmp_path: Path) -> None:
    """Its job is begun again on another one, and everything comes to the bits of one machine."""
    joined.add_node(num_cpus=1, **LEAN)
    small, shown = gated(tmp_path, grid={"train.batch": [3, 4, 5]}), Losing(joined, tmp_path)
    found = sweep(small, tmp_path / "sweep", ray=joined.address, cpus=1, view=shown)
    want = sweep(small, tmp_path / "whole", cpus=1)
    os.close(shown.gate)
    attempts = {job.name: job.attempts for job in found.jobs}
    assert attempts == {name: 2 if name == shown.lost else 1 for name in ("001", "002", "003")}
    assert shown.ends[0] == (shown.lost, "died")
    assert [f"job {shown.lost} lost its worker, so once more (1 of 3)" in text for text in shown.notices] == [
        True
    ]
    assert shown.counts[-1] == (3, 3)
    for name in attempts:
        equal(found.path / "jobs" / name, want.path / "jobs" / name)
        assert not list((found.path / "jobs" / name).glob("*.safetensors")), "checkpoints stay where they are"
    assert found.table().equals(want.table())


def test_stopped_the_workers_save_and_the_sweep_goes_on(joined: Any, tmp_path: Path) -> None:
    """Ctrl-C here becomes a checkpoint there, from which the same machine goes on."""
    small = gated(tmp_path, grid={"train.lr": [0.05, 0.2]})
    gates: list[int] = []

    def interrupt(event: JobEvent) -> None:
        signal.raise_signal(signal.SIGINT)
        gates.append(os.open(pipe(tmp_path), os.O_RDWR))

    with pytest.raises(SweepStopped, match="stopped with 0 of 1 jobs done") as stopped:
        sweep(small, tmp_path / "sweep", ray=joined.address, cpus=1, view=Shown(interrupt))
    id_ = Sweep(stopped.value.path).manifest["id"]
    assert Run(Path(os.environ["TMPDIR"], f"coterie-sweep-{id_}", "001")).status["state"] == "stopped"
    found = sweep(small, tmp_path / "sweep", ray=joined.address, resume=True)
    want = sweep(small, tmp_path / "whole", cpus=1)
    os.close(*gates)
    equal(found.path / "jobs/001", want.path / "jobs/001")


def test_other_data_are_refused_there_too(joined: Any, tmp_path: Path) -> None:
    small = grid(tmp_path, data__set=own_data(tmp_path))
    found = sweep(small, tmp_path / "sweep", data=tmp_path, cpus=1)
    shutil.rmtree(found.path / "jobs" / "002")
    own_data(tmp_path, fourth="3,3,1")
    with pytest.raises(
        RunError, match=r"\) has other data than .*: .* hash to \w{16} and \w{16}; put the same"
    ):
        sweep(small, tmp_path / "sweep", data=tmp_path, ray=joined.address, resume=True)
    assert not (found.path / "jobs" / "002").exists()
    assert {job.name: job.state for job in found.jobs} == {"001": "done", "002": "waiting"}


def test_another_version_is_refused_before_anything_is_done(joined: Any, tmp_path: Path) -> None:
    other = tmp_path / "coterie-0.0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: coterie\nVersion: 0.0.1\n")
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}
    stranger = joined.add_node(num_cpus=1, env_vars=path, **LEAN)
    words = rf"has coterie 0\.0\.1 \(.*\), but this machine has coterie {version('coterie')} \(.*\); install"
    with pytest.raises(RunError, match=words):
        sweep(grid(tmp_path), tmp_path / "sweep", ray=joined.address, cpus=1)
    joined.remove_node(stranger)
    assert not (tmp_path / "sweep").exists()


def test_one_run_on_two_machines(joined: Any, tmp_path: Path) -> None:
    """The first rank is here, the second on another machine; what they come to is what one comes to."""
    e = Experiment.load(_small(tmp_path), {"dtype": "float64"})
    found = run_on_cluster(joined.address, e, 2, tmp_path / "two", plots=False)
    assert found.status["state"] == "done"
    run(e, tmp_path / "one", plots=False)
    for name in ("metrics.jsonl", "exchanges.jsonl"):
        got, want = (list(map(json.loads, (tmp_path / f / name).open())) for f in ("two", "one"))
        close(got, want, 1e-10)


def test_a_run_for_which_the_cluster_has_no_devices(joined: Any, tmp_path: Path) -> None:
    e = Experiment.load(_small(tmp_path))
    for devices, words in (
        (None, "say how many, with --devices N"),
        (9, r"--devices 9 needs 8 CPUs, but the Ray cluster has \d; use --devices \d"),
    ):
        with pytest.raises(ConfigError, match=words):
            run_on_cluster(joined.address, e, devices, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def _small(folder: Path) -> Path:
    file = folder / "small.toml"
    file.write_text(SMALL)
    return file
