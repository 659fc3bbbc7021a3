"""What a release is made of: its version, its dependencies, the files that the wheel brings along."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import coterie

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSIONS = ROOT / ".ci" / "versions"
SOURCE = ROOT / "src" / "coterie"
NEEDED = ("peer", "dashboard")
"""Extras of users, whose oldest versions are tested, too."""


def pins(file: str) -> dict[str, str]:
    """The versions that a file of constraints names, by package."""
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in found}


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    bounds = [re.fullmatch(r"([\w-]+)>=([\d.]+)", r) for r in requirements if not r.startswith("coterie[")]
    assert all(bounds), requirements
    return {b[1]: b[2] for b in bounds if b}


def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_admitted() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    admitted = lower_bounds([*PROJECT["project"]["dependencies"], *(r for e in NEEDED for r in extras[e])])
    oldest = pins("constraints-oldest.txt")
    padded = {
        name: bound + ".0" * (oldest[name].count(".") - bound.count(".")) for name, bound in admitted.items()
    }
    assert {name: oldest[name] for name in admitted} == padded


def test_every_requirement_is_pinned() -> None:
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    named = {name.lower() for group in groups for name in lower_bounds(group)}
    assert named - pins("constraints.txt").keys() == set()


def test_pins_are_sorted() -> None:
    assert list(pins("constraints.txt")) == sorted(pins("constraints.txt"))


def test_the_wheel_brings_every_file_along() -> None:
    globs = PROJECT["tool"]["setuptools"]["package-data"]["coterie"]
    files = [f for f in SOURCE.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc", ".pyi")]
    names = [str(f.relative_to(SOURCE)) for f in files]
    assert len(names) > 40
    assert [name for name in names if not any(fnmatch(name, glob) for glob in globs)] == []


def test_changelog_and_citation_name_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    dated = re.search(
        rf"^## \[{re.escape(coterie.__version__)}\] - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE
    )
    assert dated
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {coterie.__version__}\n" in citation
    assert f"\ndate-released: {dated[1]}\n" in citation


def pythons_tested() -> list[str]:
    listed = re.search(r"^pythons=\(([\d. ]+)\)$", VERSIONS.read_text("utf-8"), re.MULTILINE)
    assert listed
    return listed[1].split()


def test_every_python_that_is_supported_is_tested_here_and_in_ci() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert pythons_tested() == declared
    assert PROJECT["project"]["requires-python"] == f">={declared[0]}"

    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    matrix = re.search(r"python: \[(.+)\]", workflow)
    assert matrix
    assert re.findall(r"[\d.]+", matrix[1]) == declared
    jobs = re.findall(r'python-version: "([\d.]+)" }\n      - run: make test-(\w+)', workflow)
    assert sorted(jobs) == [(declared[0], "oldest"), (declared[-1], "newest")]


def all_versions(folder: Path, make: str, *parts: str) -> subprocess.CompletedProcess[str]:
    """What the command says where `make` is another program, and Python 3.11 the only one that is found."""
    (folder / "python3.11").write_text("exit 0\n")
    (folder / "python3.12").write_text("exit 127\n")  # as version managers have names with nothing behind
    for python in folder.glob("python*"):
        python.chmod(0o755)
    names = {"PATH": f"{folder}:/usr/bin:/bin", "MAKE": make, "LOGS": f"{folder}/logs"}
    return subprocess.run(
        ["bash", VERSIONS, *parts], env={**os.environ, **names}, capture_output=True, text=True, check=False
    )


def test_pythons_that_are_missing_are_named_and_what_fails_makes_the_command_fail(tmp_path: Path) -> None:
    well = all_versions(tmp_path, "true", "3.11", "3.12", "oldest")
    assert (well.returncode, well.stderr) == (0, "")
    assert "\n3.11: passed" in well.stdout
    assert "\n3.12: NOT TESTED, there is no python3.12 on the PATH" in well.stdout
    assert "\noldest: passed" in well.stdout

    badly = all_versions(tmp_path, "false", "3.12", "oldest")
    assert badly.returncode == 1
    assert "\n3.12: NOT TESTED" in badly.stdout
    assert "\noldest: FAILED" in badly.stdout
