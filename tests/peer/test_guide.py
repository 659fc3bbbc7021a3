"""docs/peers.md, command by command, on three machines: network namespaces joined by a switch."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from coterie.core.streams import Stream
from tests.waiting import until

GUIDE = Path(__file__).parents[2] / "docs" / "peers.md"
MACHINES = {"alpha": "10.0.0.1", "beta": "10.0.0.2", "gamma": "10.0.0.3"}

# Machines are folders here, so a copy from one to the other is a copy.
SCP = """\
#!/bin/sh
for last; do :; done
to="$MACHINES/${last%%:*}/${last#*:}"
while [ $# -gt 1 ]; do cp "$1" "$to"; shift; done
"""


class Block(NamedTuple):
    """Commands of the guide and where they are typed."""

    machines: list[str]
    run: bool
    """They go on until they are stopped."""
    text: str


def blocks() -> list[Block]:
    found = re.findall(r"^```sh ([a-z ]+)\n(.*?)^```", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [
        Block([w for w in words.split() if w in MACHINES], "run" in words.split(), t) for words, t in found
    ]


def shell(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=30)


@pytest.fixture
def machines(tmp_path: Path, outside: None) -> Iterator[Path]:
    """Three namespaces, each with a home; skipped where one may not make any."""
    tag = f"coterie{os.getpid()}"
    made = []
    try:
        try:
            for name in (*MACHINES, "switch"):
                shell("ip", "netns", "add", f"{tag}-{name}")
                made.append(f"{tag}-{name}")
            hub = f"{tag}-switch"
            shell("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
            shell("ip", "-n", hub, "link", "set", "hub", "up")
            for name, address in MACHINES.items():
                own = f"{tag}-{name}"
                shell(
                    "ip", "-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", hub
                )
                shell("ip", "-n", hub, "link", "set", name, "master", "hub", "up")
                shell("ip", "-n", own, "addr", "add", f"{address}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    shell("ip", "-n", own, "link", "set", device, "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces are not to be had here: {error}")
        for number, name in enumerate(MACHINES):
            (tmp_path / name / "ward").mkdir(parents=True)
            (tmp_path / name / "ward" / "ward.csv").write_text(table(number))
        tools = tmp_path / "bin"
        tools.mkdir()
        (tools / "scp").write_text(SCP)
        (tools / "pip").write_text("#!/bin/sh\n")  # it is installed already
        for tool in tools.iterdir():
            tool.chmod(0o755)
        yield tmp_path
    finally:
        for name in made:
            shell("ip", "netns", "delete", name)


def table(seed: int) -> str:
    """Two diagnoses that three numbers tell apart; on the third machine nobody is sick."""
    x = Stream(seed, "ward").normal(3 * 120).view(120, 3)
    sick = torch.arange(120) % 2 * (seed < 2)
    x[:, 0] += 3 * sick
    rows = [
        f"{a:.4f},{b:.4f},{c:.4f},{'sick' if s else 'well'}" for (a, b, c), s in zip(x, sick, strict=True)
    ]
    return "\n".join(["pulse,pressure,age,diagnosis", *rows]) + "\n"


def typed(folder: Path, machine: str, text: str) -> tuple[list[str], dict[str, str]]:
    """The command that types this at a machine, and its environment."""
    command = ["ip", "netns", "exec", f"coterie{os.getpid()}-{machine}", "bash", "-euc", text]
    here = Path(sys.executable).parent
    return command, {
        "HOME": str(folder / machine),
        "MACHINES": str(folder),
        "PATH": f"{folder / 'bin'}:{here}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }


def output(folder: Path, machine: str, text: str) -> str:
    command, environment = typed(folder, machine, text)
    done = subprocess.run(
        command, env=environment, cwd=folder / machine, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_guide_as_written(machines: Path) -> None:
    beside = str(Path(sys.executable).parent)
    assert shutil.which("coterie", path=beside), "the command coterie is not installed beside this Python"
    running: list[subprocess.Popen[bytes]] = []
    seen = ""
    try:
        for block in blocks():
            for machine in block.machines:
                if not block.run:
                    seen = output(machines, machine, block.text)
                    continue
                command, environment = typed(
                    machines, machine, block.text.replace("coterie peer", "exec coterie peer")
                )
                with open(machines / machine / "log", "wb") as log:
                    running.append(
                        subprocess.Popen(
                            command, env=environment, cwd=machines / machine, stderr=log, stdout=log
                        )
                    )
            if block.run:
                _wait_until_they_know_each_other(machines)
        assert "accuracy" in seen
        assert seen.count("alive") == 2
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in running] == [0, 0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait()
    for machine in MACHINES:
        told = (machines / machine / "log").read_text()
        assert '"what": "left"' in told
        assert '"level": "error"' not in told


def _wait_until_they_know_each_other(folder: Path) -> None:
    logs = [folder / machine / "log" for machine in MACHINES]
    until(
        lambda: all(log.read_text().count('"what": "joined"') >= 2 for log in logs),
        told=lambda: [log.read_text()[-2000:] for log in logs],
    )
