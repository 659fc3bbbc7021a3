"""Sweeps on a real Ray cluster of two machines: one is lost, one is a stranger, one does not answer."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from coterie import Run
from coterie.core.errors import ConfigError, RunError
from coterie.sweep import cluster as clusters
from coterie.sweep.conduct import SweepStopped, sweep
from coterie.sweep.grid import Grid
from coterie.sweep.reading import Sweep
from coterie.sweep.work import Event
from tests.sweep.small import SAME, Shown, grid

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
    # Ray leaves sockets and files to the garbage collector, which may come when another test runs.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
"""Where workers find the gate."""
MEMORY = 80 << 20
"""Bytes for Ray's objects on each machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two machines with a core each, and a head without; what they keep for themselves goes at the end."""
    from ray.cluster_utils import Cluster

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as short,  # for the names of Ray's sockets
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", short)
        patch.setenv("PYTHONPATH", ROOT)
        head = {"num_cpus": 0, "object_store_memory": MEMORY, "include_dashboard": False}
        made: Any = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                made.add_node(num_cpus=1, object_store_memory=MEMORY)
            yield made
        finally:
            made.shutdown()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a gate."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def gated(home: Path, **changes: Any) -> Grid:
    """Jobs that stop in their second exchange until somebody opens the gate."""
    gate = {"name": "tests.sweep.gate:Gate", "pipe": str(home / "pipe")}
    return grid(home, exchange__channel=gate, **changes)


def open_gate(home: Path) -> int:
    """For everybody who stands there or comes by, until it is closed again."""
    return os.open(home / "pipe", os.O_RDWR)


def the_same(got: Path, want: Path) -> None:
    for name in SAME:
        assert (got / name).read_bytes() == (want / name).read_bytes(), name


class Losing(Shown):
    """Takes away the machine of the first job that gets going, and opens the gate when that is known."""

    def __init__(self, cluster: Any, home: Path) -> None:
        super().__init__(self.lose)
        self.cluster, self.home, self.lost, self.gate = cluster, home, "", -1

    def lose(self, event: Event) -> None:
        node = event.where.partition("(")[2][:6]
        (there,) = (n for n in self.cluster.worker_nodes if n.node_id.startswith(node))
        self.cluster.remove_node(there, allow_graceful=False)
        self.lost = event.job

    def ended(self, job: str, state: str) -> None:
        super().ended(job, state)
        if self.gate < 0:
            self.gate = open_gate(self.home)


def test_a_machine_is_lost_in_the_middle(cluster: Any, home: Path) -> None:
    """Its job is begun again on another one, and everything comes to the bits of one machine."""
    cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    small, shown = gated(home, grid={"train.batch": [3, 4, 5]}), Losing(cluster, home)
    found = sweep(small, home / "sweep", ray=cluster.address, cpus=1, view=shown)
    want = sweep(small, home / "whole", cpus=1)
    os.close(shown.gate)
    attempts = {job.name: job.attempts for job in found.jobs}
    assert attempts == {name: 2 if name == shown.lost else 1 for name in ("001", "002", "003")}
    assert shown.ends[0] == (shown.lost, "died")
    assert [f"job {shown.lost} lost its worker, so once more (1 of 3)" in text for text in shown.notices] == [
        True
    ]
    assert shown.counts[-1] == (3, 3)
    for name in attempts:
        the_same(found.path / "jobs" / name, want.path / "jobs" / name)
        assert not list((found.path / "jobs" / name).glob("*.safetensors")), "checkpoints stay where they are"
    assert found.table().equals(want.table())


def test_stopped_the_workers_save_and_the_sweep_goes_on(cluster: Any, home: Path) -> None:
    """Ctrl-C here becomes a checkpoint there, from which the same machine goes on."""
    small = gated(home, grid={"train.lr": [0.05, 0.2]})
    gates: list[int] = []

    def interrupt(event: Event) -> None:
        signal.raise_signal(signal.SIGINT)
        gates.append(open_gate(home))

    with pytest.raises(SweepStopped, match="stopped with 0 of 1 jobs done") as stopped:
        sweep(small, home / "sweep", ray=cluster.address, cpus=1, view=Shown(interrupt))
    id_ = Sweep(stopped.value.path).manifest["id"]
    assert Run(Path(os.environ["TMPDIR"], f"coterie-sweep-{id_}", "001")).status["state"] == "stopped"
    found = sweep(small, home / "sweep", ray=cluster.address, resume=True)
    want = sweep(small, home / "whole", cpus=1)
    os.close(*gates)
    the_same(found.path / "jobs/001", want.path / "jobs/001")


@pytest.mark.parametrize(
    ("device", "cpus", "words"),
    [
        ("cpu", 3, r"takes 3 CPU, but no machine of the Ray cluster has more than 1; use a smaller --cpus"),
        ("cuda", 1, r"takes 1 GPU, but no machine of the Ray cluster has more than 0; use device = 'cpu'"),
        ("cuda:1", 1, r"device 'cuda:1' cannot be had on a Ray cluster"),
    ],
)
def test_jobs_that_fit_nowhere(cluster: Any, home: Path, device: str, cpus: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sweep(grid(home, device=device), home / "sweep", ray=cluster.address, cpus=cpus)
    assert not (home / "sweep").exists()


def test_another_version_is_refused_before_anything_is_done(cluster: Any, home: Path) -> None:
    other = home / "coterie-0.0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: coterie\nVersion: 0.0.1\n")
    path = {"PYTHONPATH": f"{home}{os.pathsep}{ROOT}"}
    stranger = cluster.add_node(num_cpus=1, object_store_memory=MEMORY, env_vars=path)
    words = rf"has coterie 0\.0\.1 \(.*\), but this machine has coterie {version('coterie')} \(.*\); install"
    with pytest.raises(RunError, match=words):
        sweep(grid(home), home / "sweep", ray=cluster.address, cpus=1)
    cluster.remove_node(stranger)
    assert not (home / "sweep").exists()


def test_an_address_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = grid(home)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(RunError, match=rf"no Ray cluster answers at '{address}': .*refused; start one"):
            sweep(small, home / "sweep", ray=address)
        deaf.listen()
        monkeypatch.setattr(clusters, "WELCOME", 5.0)
        with pytest.raises(RunError, match="something is there, but not Ray: silent for 5 s"):
            sweep(small, home / "sweep", ray=address)
    for odd in ("nonsense", "host:", ":6379", "host:99999"):
        with pytest.raises(ConfigError, match=r"expected auto, local, HOST:PORT or ray://HOST:PORT"):
            sweep(small, home / "sweep", ray=odd)
    assert not (home / "sweep").exists()


def test_without_ray(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"--ray needs Ray.*pip install 'coterie\[ray\]'"):
        sweep(grid(home), home / "sweep", ray="auto")
