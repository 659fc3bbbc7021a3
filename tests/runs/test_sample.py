"""Samples of very many clients are recorded one by one, beside numbers over everybody."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from coterie import Run
from coterie.core.errors import RunError
from coterie.runs.gains import accounts
from coterie.runs.plots.pictures import Pictures
from coterie.runs.results import caption
from tests.runs.sampled_fixture import CLIENTS, SAMPLE, small_and_large

ONE_MODEL = {"name": "mlp", "hidden": [8]}


@pytest.fixture(scope="module", params=["one model", "two models"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    models = ONE_MODEL if request.param == "one model" else [ONE_MODEL, {"name": "linear"}]
    return small_and_large(tmp_path_factory.mktemp("runs"), model=models)


def test_rows_are_of_the_sample_and_numbers_over_all_are_exact(runs: tuple[Run, Run]) -> None:
    every, some = runs
    for own, part in zip(every.tracks, some.tracks, strict=True):
        numbers = part.roster.numbers
        assert len(numbers) == len(part.group) == SAMPLE
        for score, values in part.scores.items():
            np.testing.assert_array_equal(values, own.scores[score][:, numbers])
            np.testing.assert_allclose(part.means(score), own.means(score), rtol=1e-12)
            a, b = own.last(score), part.last(score)
            assert a is not None
            assert b == pytest.approx(a, rel=1e-12)
        assert part.labels.tolist() == own.labels[numbers].tolist()
        assert part.architecture == tuple(own.architecture[k] for k in numbers if own.architecture)
        assert part.attacking == len(own.attackers) == 6
        np.testing.assert_array_equal(part.gain_or_nan("personal"), own.gain_or_nan("personal")[numbers])


def test_files_are_bounded_and_say_so(runs: tuple[Run, Run]) -> None:
    every, some = runs
    assert [json.loads((run.path / "environment.json").read_text())["format"] for run in runs] == [2, 3]
    (people,) = some.clients
    assert (people["clients"], len(people["sample"])) == (CLIENTS, SAMPLE)
    assert people["groups"] == [[0, 20], [1, 20], [2, 20]]
    rows = [json.loads(line) for line in (some.path / "exchanges.jsonl").read_text().splitlines()]
    same = [json.loads(line) for line in (every.path / "exchanges.jsonl").read_text().splitlines()]
    assert rows == [row for row in same if row["client"] in people["sample"]]
    assert some.recorded == "a sample of 20 of 60 clients one by one"
    assert "hurt and graph AUC: of a sample of 20 clients, all else over all of them." in caption(
        some.summary()
    )
    assert "of a sample" not in caption(every.summary())
    assert set(some.per_client()["client"]) == set(some.metrics["client"]) == set(people["sample"])


def test_what_is_said_of_a_client_is_the_same(runs: tuple[Run, Run]) -> None:
    every, some = runs
    client = some.clients[0]["sample"][3]
    (own,), (part,) = accounts(every, client), accounts(some, client)
    assert (part.client, part.personal) == (client, own.personal)
    assert part.gain == pytest.approx(own.gain, nan_ok=True)
    group, before = part.facts.get("own_group"), own.facts.get("own_group")
    assert (group is None) == (before is None)
    if group and before:
        assert group["value"] == pytest.approx(before["value"], nan_ok=True)
    other = next(k for k in range(CLIENTS) if k not in some.clients[0]["sample"])
    with pytest.raises(
        RunError, match=f"a sample of 20 of 60 .* and client {other} is none of them; near it"
    ):
        accounts(some, other)
    with pytest.raises(RunError, match="no client 60; there are 0 to 59"):
        accounts(some, 60)


def test_models_of_the_sample_are_kept(runs: tuple[Run, Run]) -> None:
    client = runs[1].clients[0]["sample"][-1]
    own, part = (run.model("KD-PDFL", 0, client) for run in runs)
    assert own.card.architecture == part.card.architecture
    x = torch.linspace(0, 1, 192).view(3, 1, 8, 8)
    assert torch.equal(own(x), part(x))


def test_pictures_are_drawn_by_groups(runs: tuple[Run, Run]) -> None:
    pictures = Pictures(runs[1])
    axes = pictures.graph("KD-PDFL").axes[0]
    assert axes.get_ylabel() == "listening clients, 20 of all"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["group 0", "group 1", "group 2"]
    assert set(pictures.all()) >= {"overview", "labels", "gain", "graph-KD-PDFL"}


def test_a_sample_that_does_not_fit_is_damage(runs: tuple[Run, Run], tmp_path: Path) -> None:
    _, some = runs
    for name in ("experiment.toml", "environment.json", "worlds.json", "metrics.jsonl", "task.json"):
        (tmp_path / name).write_bytes((some.path / name).read_bytes())
    (people,) = some.clients
    (tmp_path / "clients.json").write_text(json.dumps([{**people, "groups": [[0, 59]]}]))
    with pytest.raises(RunError, match="is damaged"):
        _ = Run(tmp_path).tracks
