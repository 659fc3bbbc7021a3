"""`coterie dashboard` as a user meets it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Refused


def test_it_says_where_serves_there_and_ends_with_ctrl_c(finished: Path) -> None:
    words = ["dashboard", str(finished.parent), "--port", "0"]
    code = f"import sys; sys.argv[1:] = {words!r}; from coterie.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"dashboard  (http://127\.0\.0\.1:\d+/)   \(Ctrl-C stops it\)\n", line)
        assert found, line
        with urllib.request.urlopen(f"{found[1]}api/runs") as answer:
            assert [run["id"] for run in json.load(answer)["runs"]] == ["run"]
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, b"")


def test_a_port_in_use(coterie: Command) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        answer = coterie("dashboard", "--port", str(port))
    assert answer.code == 2
    assert f"port {port} is in use" in answer.err
    assert "--port 0" in answer.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["small.toml"], "small.toml is a file; name the folder"),
        (["--host", "256.1.1.1"], "cannot listen at 256.1.1.1:8765"),
        (["--token", "short"], "the token has 5 characters, at least 16"),
    ],
)
def test_a_mistake_is_one_sentence(refused: Refused, words: list[str], sentence: str) -> None:
    assert sentence in refused("dashboard", *words)


def test_without_the_extra_it_says_how_to_get_it(coterie: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == "uvicorn" or m == "coterie.dashboard.app"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    answer = coterie("dashboard")
    assert answer.code == 2
    assert "pip install 'coterie[dashboard]'" in answer.err


def test_another_address_gets_a_token() -> None:
    from coterie.dashboard.app import prepare

    served = prepare(Path("runs"), "0.0.0.0", 0)
    served.listening.close()
    assert re.fullmatch(r"http://0\.0\.0\.0:\d+/\?token=[\w-]{32}", served.address)
