"""`coterie data`, and what `coterie run` says where its data are not as they should be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.core.registry import register
from coterie.data_files.catalogue import catalogue
from tests.cli.conftest import Command
from tests.data_files.server import Server, page, rest, serving
from tests.data_files.test_fetch import FILES, entry, zipped
from tests.plugins.datasets.test_emnist import put

KAGGLE = "https://www.kaggle.com/datasets/fanbyprinciple/iot-device-identification"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, plugins: None) -> Iterator[Server]:
    """A server that hands out `tiny`, which is registered for as long as the test lasts."""
    monkeypatch.setenv("no_proxy", "*")
    with serving(zipped()) as server:

        @register("dataset", "tiny")
        class Tiny:
            entries = (entry(server),)

        yield server


def state(coterie: Command, name: str, *words: str | Path) -> list[str]:
    answer = coterie("data", "ls", *words)
    assert answer.code == 0, answer
    return next(line.split()[1:5] for line in answer.out.splitlines() if line.split()[:1] == [name])


def error(coterie: Command, *words: str | Path) -> str:
    answer = coterie(*words)
    assert answer.code == 2, answer
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    return answer.err


def test_ls_lists_everything(coterie: Command) -> None:
    out = coterie("data", "ls").out
    for name, one in catalogue().items():
        found, *size, where = state(coterie, name)
        assert (found, where) == (("present", where) if one.shipped else ("absent", f"data/{one.folders[0]}"))
        assert size[1] == "MB"
        assert one.about in out
        assert one.terms in out
    assert state(coterie, "iot") == ["absent", "2.7", "MB", "data/iot"]
    assert state(coterie, "wisdm") == ["absent", "?", "MB", "data/wisdm"]


def test_ls_tells_what_is_here(coterie: Command, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("far/tiny")
    folder.mkdir(parents=True)
    assert state(coterie, "tiny", "--data", "far")[0] == "absent"
    (folder / "a.gz").write_bytes(FILES["a.gz"])
    assert state(coterie, "tiny", "--data", "far") == ["incomplete", "0.0", "MB", "far/tiny"]
    (folder / "b.gz").write_bytes(FILES["b.gz"][:-1])
    assert state(coterie, "tiny", "--data", "far")[0] == "damaged"
    (folder / "b.gz").write_bytes(FILES["b.gz"])
    monkeypatch.setenv("COTERIE_DATA", "far")
    assert state(coterie, "tiny") == ["present", "0.0", "MB", "far/tiny"]


def test_ls_tells_the_size_of_a_prepared_file(coterie: Command) -> None:
    Path("far/natural").mkdir(parents=True)
    Path("far/natural/wisdm.npz").write_bytes(bytes(250_000))
    assert state(coterie, "wisdm", "--data", "far") == ["present", "0.2", "MB", "far/natural"]


def test_fetch_and_verify(coterie: Command, server: Server) -> None:
    sentence = error(coterie, "data", "verify", "tiny")
    assert "tiny: 2 of 2 files in data/tiny are not sound (a.gz is missing ...)" in sentence
    assert "run: coterie data fetch tiny" in sentence
    answer = coterie("data", "fetch", "tiny")
    assert answer.code == 0, answer
    assert "tiny is in data/tiny\nsource    free\n" in answer.out
    assert {p.name for p in Path("data/tiny").iterdir()} == {*FILES, "all.zip"}
    answer = coterie("data", "verify", "tiny")
    assert (answer.code, answer.out) == (0, "data/tiny/a.gz: sound\ndata/tiny/b.gz: sound\n")
    Path("data/tiny/b.gz").write_bytes(b"c" * 300)
    assert "b.gz is damaged or another file (sha256 " in error(coterie, "data", "verify", "tiny")
    assert coterie("data", "fetch", "tiny").code == 0
    assert coterie("data", "verify", "TINY").code == 0


@pytest.mark.parametrize("terminal", [False, True])
def test_fetch_that_is_stopped_goes_on(
    coterie: Command, server: Server, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    server.plan = [rest(100)]
    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", interrupted)  # Ctrl-C while it waits for another attempt
        answer = coterie("data", "fetch", "tiny", "--data", "far")
    said = answer.err.rpartition("\x1b[2K")[2]  # in a terminal, behind the sign of life that is wiped away
    assert (answer.code, said) == (130, "stopped; the same command goes on from here\n")
    assert "note: the connection was cut after 100 of" in answer.out
    assert Path("far/tiny/all.zip.part").stat().st_size == 100
    answer = coterie("data", "fetch", "tiny", "--data", "far")
    assert answer.code == 0, answer
    assert server.asked == [None, "bytes=100-"]
    assert not Path("far/tiny/all.zip.part").exists()


def test_fetch_in_vain(coterie: Command, server: Server) -> None:
    server.plan = [page(b"", status=404)]
    sentence = error(coterie, "data", "fetch", "tiny")
    assert "404 Not Found" in sentence
    assert "put it into data/tiny and run coterie data fetch tiny" in sentence
    Path("data.csv").touch()
    assert "cannot write data.csv/tiny" in error(coterie, "data", "fetch", "tiny", "--data", "data.csv")


def test_what_only_a_person_can_fetch(coterie: Command) -> None:
    sentence = error(coterie, "data", "fetch", "iot", "--data", "far")
    for part in (KAGGLE, "iot_device_train.csv", "iot_device_test.csv", "account", "into far/iot"):
        assert part in sentence
    assert "into data/emnist47" in error(coterie, "data", "fetch", "emnist47")


def test_what_comes_with_coterie(coterie: Command) -> None:
    assert "data_files/shipped/heart" in coterie("data", "fetch", "heart").out
    answer = coterie("data", "verify", "heart")
    assert answer.code == 0, answer
    assert answer.out.count("here (its checksum is not known)") == 4


@pytest.mark.parametrize("verb", ["fetch", "verify"])
def test_unknown_names(coterie: Command, verb: str) -> None:
    sentence = error(coterie, "data", verb, "emnist-balancd")
    assert "unknown data set 'emnist-balancd'; known: emnist, " in sentence
    assert "Did you mean 'emnist-balanced'?" in sentence
    assert "emnist-balanced-train-images" in coterie("data", "verify", "emnist").out


def test_help_says_where_data_lie(coterie: Command) -> None:
    assert "COTERIE_DATA" in coterie("data", "--help").out
    for verb in ("ls", "fetch", "verify"):
        assert "Example" in coterie("data", verb, "--help").out


# The runs that read them.


IOT = "data.set=iot"
EMNIST = "data.set={name='emnist',split='emnist47'}"


def iot(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    lines = [f"9,{i % 7},{i % 3},{kind}" for i in range(rows) for kind in ("TV", "socket", "watch")]
    for part in ("train", "test"):
        (folder / f"iot_device_{part}.csv").write_text("\n".join(["ack,a,b,device_category", *lines]))


def test_a_run_finds_what_fetch_put_there(coterie: Command) -> None:
    iot(Path("data/iot"), rows=20)
    put(Path("far/emnist47"), "emnist47")
    answer = coterie("check", "small.toml", "--set", IOT)
    assert answer.code == 0, answer
    assert "3 classes" in answer.out
    words = ("--set", EMNIST, "--set", "data.sizes=[1,2]", "--set", "data.overlap=true", "--data", "far")
    assert coterie("check", "small.toml", *words).code == 0


def test_a_run_of_real_clients_needs_no_files(coterie: Command) -> None:
    words = ("--set", "data.set=heart", "--set", "model=iot_mlp")
    answer = coterie("check", "small.toml", *words)
    assert answer.code == 0, answer
    assert "clients with 72 to 176 training samples, 2 classes" in answer.out
    sentence = error(coterie, "check", "small.toml", *words, "--set", "data.clients=20")
    assert "dealt to 4 owners" in sentence
    assert "set data.clients = 4" in sentence


def test_a_run_without_its_data(coterie: Command) -> None:
    assert KAGGLE in error(coterie, "run", "small.toml", "--set", IOT)
    assert "run: coterie data fetch emnist-balanced --data far" in error(
        coterie, "check", "small.toml", "--set", "data.set=emnist", "--data", "far"
    )
    assert not Path("runs").exists()


def test_a_run_with_damaged_data(coterie: Command) -> None:
    iot(Path("data/iot"), rows=20)
    with open("data/iot/iot_device_test.csv", "a") as file:
        file.write("\n9,1")
    assert "data/iot/iot_device_test.csv, line 62: expected 4 cells" in error(
        coterie, "run", "small.toml", "--set", IOT
    )


def test_too_little_data_for_the_clients(coterie: Command) -> None:
    iot(Path("data/iot"), rows=4)
    words = ("check", "small.toml", "--set", IOT, "--set")
    assert "the training part has only" in error(coterie, *words, "data.sizes=[40,50]")
    sentence = error(coterie, *words, "data.overlap=false", "--set", "data.clients=40")
    assert "40 clients need" in sentence
    assert "set data.overlap = true, or use fewer clients or smaller data.sizes" in sentence
