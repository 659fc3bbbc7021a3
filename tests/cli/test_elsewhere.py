"""What lies beside a TOML file is found, wherever the command is given: modules, data and graphs."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie import Experiment, Run
from coterie.core.errors import ConfigError
from coterie.experiment import settled
from coterie.federation import Dealer
from coterie.peer.config import PeerConfig
from coterie.schedule import Schedule
from tests.cli.conftest import Command, Refused, says

MODULE = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, inputs, classes, width=4):
        super().__init__(nn.Linear(*inputs, width), nn.ReLU(), nn.Linear(width, classes))
"""

TOML = """
name = "mine"
seeds = 1
methods = ["FedAvg"]
model = "beside_toml:Net"

[data]
set = { name = "csv", path = "ward.csv", label = "kind" }
clients = 2
sizes = [5, 10]
test = 5

[train]
iterations = 12

[exchange]
every = 5
channel = "ideal"
topology = { name = "file", path = "ward.edgelist" }
"""


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Go to another folder as a new process would, which has imported nothing and knows no paths."""
    path = list(sys.path)

    def leave(folder: str) -> Path:
        monkeypatch.setattr(sys, "path", list(path))
        monkeypatch.delitem(sys.modules, "beside_toml", raising=False)
        Path(folder).mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        return Path.cwd()

    return leave


@pytest.fixture
def mine(coterie: Command, tmp_path: Path, leave: Callable[[str], Path]) -> Path:
    """A folder with an experiment and all that it needs; the command is given in another one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "beside_toml.py").write_text(MODULE)
    (folder / "ward.edgelist").write_text("0 1\n")
    rows = "".join(f"{i},{i % 7},{'xy'[i % 2]}\n" for i in range(60))
    (folder / "ward.csv").write_text(f"a,b,kind\n{rows}")
    (folder / "mine.toml").write_text(TOML)
    leave("elsewhere")
    return folder


def test_run_and_resume_from_anywhere(mine: Path, coterie: Command, leave: Callable[[str], Path]) -> None:
    assert coterie("check", "../mine/mine.toml").code == 0
    answer = coterie("run", "../mine/mine.toml", "--out", "run", "--no-plots")
    assert (answer.code, answer.err) == (0, "")
    there = Path("run").resolve()
    assert tomllib.loads((there / "experiment.toml").read_text())["home"] == str(mine)
    leave("farther")
    assert coterie("run", "--resume", "--out", there, "--no-plots").code == 0
    leave("yet")
    assert Run(there).experiment.fingerprint() == Experiment.load(mine / "mine.toml").fingerprint()


def test_sweeps_and_their_jobs(mine: Path, coterie: Command) -> None:
    grid = '[grid]\n"train.batch" = [4, 5]\n'
    (mine / "grid.toml").write_text(TOML + grid)
    answer = coterie("sweep", "../mine/grid.toml", "--cpus", "1", "--out", "sweep")
    assert (answer.code, answer.err) == (0, "")
    assert tomllib.loads(Path("sweep/sweep.toml").read_text())["home"] == str(mine)


def test_a_peer_finds_what_lies_beside_its_file(mine: Path) -> None:
    (mine / "peer.toml").write_text(
        'address = "10.0.0.1:7440"\nmodel = "beside_toml:Net"\nmembers = 2\n'
        '[data]\nset = { name = "csv", path = "ward.csv", label = "kind" }\n'
        '[exchange]\ntopology = { name = "file", path = "ward.edgelist" }\n'
    )
    one = PeerConfig.load(Path("../mine/peer.toml"))
    assert one.home == mine
    client = one.client_of("p0", one.federation(one.data_folder(mine / "peer.toml")))
    assert client.own.inputs.columns == ("a", "b")
    assert client.schedule.clients == 2


def test_where_a_data_file_is_looked_for_first(
    mine: Path, leave: Callable[[str], Path], tmp_path: Path
) -> None:
    e = Experiment.load(mine / "mine.toml")
    assert len(Dealer(None).federation(e, 0).pool) == 60
    other = tmp_path / "other"
    other.mkdir()
    assert len(Dealer(other).federation(e, 0).pool) == 60  # --data that lacks it
    (other / "ward.csv").write_text("\n".join((mine / "ward.csv").read_text().splitlines()[:41]))
    assert len(Dealer(other).federation(e, 0).pool) == 40  # --data that has it
    leave(str(other))
    assert len(Dealer(None).federation(e, 0).pool) == 60  # beside the file before the current folder
    assert Schedule.of(e, 0).clients == 2


def test_two_modules_of_one_name_are_told_apart(mine: Path, tmp_path: Path) -> None:
    Experiment.load(mine / "mine.toml")
    twin = tmp_path / "twin"
    twin.mkdir()
    (twin / "beside_toml.py").write_text(MODULE)
    (twin / "mine.toml").write_text(TOML)
    with pytest.raises(
        ConfigError, match=r"the module 'beside_toml' is .*/mine/.* not .*/twin/beside_toml\.py"
    ):
        Experiment.load(twin / "mine.toml")


def test_what_is_not_there_is_told_with_all_places(mine: Path, refused: Refused) -> None:
    (mine / "beside_toml.py").unlink()
    places = f"no module 'beside_toml' in {mine}, {Path.cwd()} or among the installed"
    says(refused("check", "../mine/mine.toml"), places)


def test_settings_that_name_nothing_of_their_own_stay_as_they_are(tmp_path: Path) -> None:
    plain = {"name": "small", "model": "mlp", "data": {"set": "digits"}}
    assert settled(plain, tmp_path / "small.toml") == plain
    assert settled({**plain, "home": str(tmp_path / "gone")}, tmp_path / "small.toml") == plain
    endless = {**plain, "model": "x" * 1000}
    assert settled(endless, tmp_path / "small.toml") == endless
    (tmp_path / "lib").mkdir()
    lib = str(tmp_path / "lib")
    assert settled({**plain, "home": "lib"}, tmp_path / "small.toml") == {**plain, "home": lib}
