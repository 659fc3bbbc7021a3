"""`coterie doctor`: facts and remarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.cli.examination import facts, remarks
from tests.cli.conftest import Command

SOUND: dict[str, Any] = {
    "device": ["cpu", "cuda:0 (any, 80 GB)"],
    "compiler": "/usr/bin/c++",
    "cores": 4,
    "threads": 4,
    "memory_free_gb": 8.0,
    "disk_free_gb": 50.0,
    "extras": {"peer": True, "dev": False},
    "data": {"heart": {"state": "present", "where": "here"}},
    "plugins": [],
}


def test_a_sound_machine_needs_nothing() -> None:
    assert remarks(SOUND) == []


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        ({"device": ["cpu"]}, "no GPU", "--device cuda"),
        ({"compiler": None}, "no C++ compiler", "g++"),
        ({"threads": 9}, "9 threads, but this process may use 4 cores", "OMP_NUM_THREADS=4"),
        ({"threads": 1}, "torch uses 1 of 4 cores", "leave OMP_NUM_THREADS unset"),
        ({"memory_free_gb": 0.5}, "only 0.5 GB of memory", "fewer clients"),
        ({"disk_free_gb": 0.5}, "only 0.5 GB are free on this disk", "--out"),
        ({"extras": {"ray": False, "peer": True}}, "not installed: ray", "pip install 'coterie[ray]'"),
        ({"data": {"iot": {"state": "incomplete", "where": ""}}}, "not here: iot", "coterie data fetch"),
        ({"plugins": ["plugins of the package x are missing"]}, "package x", "mend"),
    ],
)
def test_what_is_slow_or_missing_has_a_remedy(change: dict[str, Any], what: str, remedy: str) -> None:
    (one,) = remarks({**SOUND, **change})
    assert what in one.what
    assert remedy in one.remedy


def test_the_facts_of_this_machine() -> None:
    found = facts(None)
    assert found["torch"] == torch.__version__
    assert found["cores"] >= 1
    assert found["packages"]["torch"]
    assert found["extras"]["peer"] is True
    assert found["data"]["heart"]["state"] == "present"


def test_doctor_for_people_and_for_programs(coterie: Command, tmp_path: Path) -> None:
    answer = coterie("doctor", "--data", str(tmp_path))
    assert answer.code == 0
    assert "coterie data fetch NAME" in answer.out
    found = json.loads(coterie("doctor", "--json", "--data", str(tmp_path)).out)
    assert found["data_folder"] == str(tmp_path)
    assert {"what", "remedy"} == set(found["remarks"][0])
