"""The page over a run of which a sample is recorded: clients by their numbers, the graph by groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie import Run
from coterie.dashboard.export import report
from coterie.dashboard.sources import RunSource
from coterie.dashboard.views.groups import MANY
from coterie.experiment import Experiment
from tests.dashboard.conftest import Open, serving
from tests.runs.run_fixture import exchange, make, metrics
from tests.runs.sampled_fixture import SAMPLE, small_and_large

WORLD = {"method": "KD-PDFL", "seed": "0"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    small_and_large(folder)
    return folder


@pytest.fixture
def some(root: Path) -> Run:
    return Run(root / "some")


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serving(root) as served:
        yield f"{served.address}#/run/some"


def whole(source: RunSource, view: str, **query: str) -> dict[str, Any]:
    while (answer := source.answer(view, {**WORLD, **query})).get("complete", 1) < 1:
        pass
    return dict(answer)


def test_groups_have_the_mean_weight_of_pairs_that_met(some: Run) -> None:
    source = RunSource(some.path)
    seen, (people,) = whole(source, "graph"), some.clients
    assert (seen["by"], seen["names"]) == ("true group", ["group 0", "group 1", "group 2"])
    assert seen["sizes"] == [20, 20, 20]
    assert sorted(itertools.chain(*seen["members"])) == people["sample"]
    assert seen["recorded"] == "a sample of 20 of 60 clients one by one"
    frame = whole(source, "frame", t=str(seen["times"][-1]))
    world = some.track("KD-PDFL", 0)
    met = some.history(world).listening()
    pair = [met.weight[(met.listener // 20 == 1) & (met.speaker // 20 == k)] for k in range(3)]
    shown = {j: w for i, j, w in frame["edges"] if i == 1}
    for k in (0, 2):
        assert shown.get(k, 0.0) == pytest.approx(pair[k].mean() if len(pair[k]) else 0.0, rel=1e-2)
    assert frame["pairs"] == len(met.weight)
    assert frame["auc"] == pytest.approx(some.summary()["methods"]["KD-PDFL"]["graph_auc"], rel=1e-3)


def test_many_clients_without_groups_are_shown_by_their_most_frequent_label(tmp_path: Path) -> None:
    m = MANY + 1
    experiment = Experiment.parse(
        {
            "seeds": 1,
            "methods": {"Local": {}, "KD-PDFL": {}},
            "data": {"clients": m},
            "train": {"iterations": 10},
        }
    )
    people = {
        "seed": 0,
        "classes": ["cat", "dog"],
        "group": [0] * m,
        "train": [4] * m,
        "labels": [[3, 1], [1, 3]] * (m // 2) + [[4, 0]],
    }
    scores = np.full(m, 0.5).tolist()
    rows = [exchange(5, 0, [1, 2, 3], weight=[0.2, 0.6, 0.4]), exchange(5, 1, [2], weight=[0.1])]
    run = make(tmp_path / "run", experiment, [people], [metrics(w, 10, scores) for w in (0, 1)], rows)
    source = RunSource(run.path)
    seen = whole(source, "graph")
    assert (seen["by"], seen["names"]) == ("most frequent label", ["mostly cat", "mostly dog"])
    assert seen["sizes"] == [m // 2 + 1, m // 2]
    # cat to dog: (0.2 + 0.4) / 2, dog to cat: 0.1; within cat: 0.6, which ends the scale
    frame = whole(source, "frame", t="5")
    assert frame["edges"] == [[0, 1, 0.3], [1, 0, 0.1]]
    assert frame["top"] == 0.6


def test_a_report_has_the_sample(root: Path) -> None:
    assert b"a sample of 20 of 60 clients one by one" in report([root / "some"])


def test_the_page_calls_clients_by_their_numbers(window: Open, address: str, some: Run) -> None:
    sample = some.clients[0]["sample"]
    page = window(f"{address}/clients?sort=number")
    page.wait_for_selector(".viewport [data-client]")
    assert "A sample of 20 clients of all 60 is recorded." in page.locator(".lead").inner_text()
    assert page.locator(".viewport [data-client]").count() <= SAMPLE
    first = page.locator(".viewport .who a").first
    assert first.inner_text() == f"client {sample[0]}"
    first.click()
    page.wait_for_selector(".client h2")
    assert page.locator(".client h2").inner_text() == f"Client {sample[0]}"


def test_the_graph_is_shown_by_groups(window: Open, address: str, some: Run) -> None:
    sample = some.clients[0]["sample"]
    page = window(f"{address}/graph", complaints=("409",))
    page.wait_for_selector(".client h2")
    said = page.locator(".legend.groups").inner_text()
    assert "By true group: group 0 (20), group 1 (20), group 2 (20); recorded: a sample of 20" in said
    assert page.locator(".client h2").inner_text() == f"Client {sample[0]}"
    box = page.locator("canvas").first.bounding_box()
    assert box is not None
    page.locator("canvas").first.click(position={"x": box["width"] / 2, "y": box["height"] * 0.9})
    last = next(client for client in sample if client >= 40)
    page.wait_for_function(f"() => document.querySelector('.client h2')?.innerText === 'Client {last}'")
    assert page.get_by_label("client", exact=True).input_value() == str(last)
    other = next(k for k in range(60) if k not in sample)
    page.get_by_label("client", exact=True).fill(str(other))
    page.keyboard.press("Enter")
    page.wait_for_selector(".problem")
    assert f"client {other} is none of them" in page.locator(".problem").inner_text()
