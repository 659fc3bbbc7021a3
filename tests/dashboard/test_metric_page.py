"""The page over a run that is not measured by accuracy, and its wording beside that of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.dashboard.export import report
from coterie.dashboard.sources import RunSource
from coterie.runs import wording
from tests.dashboard import board_fixture
from tests.dashboard.conftest import Open, serving
from tests.runs.rmse_fixture import RMSE, regression
from tests.runs.run_fixture import make

METRICS = [
    ACCURACY,
    RMSE,
    Metric("perplexity", higher_is_better=False),
    Metric("f1", "F1", "%", scale=100.0, digits=1),
    Metric("r2", "R2", digits=3),
]
VALUES = [0.0, 0.005, 0.123456, 0.5, 0.833, 1.0, 2.345, 1234.5678, 1234567.0]
SAID = """async ([metrics, values]) => {
  const { wording } = await import("/static/metric.js");
  return metrics.map((metric) => {
    const m = wording(metric);
    return {
      text: values.map(m.text), full: values.map(m.full), gain: values.map((v) => m.gain(-v)),
      spread: values.map((v) => m.spread({ mean: v, std: 0.25 })), none: [m.text(null), m.full(undefined)],
      title: [m.title(), m.title("personal")], direction: m.direction, order: [3, 1, null, 2].sort(
        (a, b) => m.merit(b) - m.merit(a)),
    };
  });
}"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a regression and a leaderboard with a column of it; look, do not touch."""
    folder = tmp_path_factory.mktemp("metrics")
    regression(folder / "waves")
    values = board_fixture.board()
    values["columns"][2]["metric"] = asdict(RMSE)
    board_fixture.write(folder / "board", values)
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serving(root) as served:
        yield served.address


def test_the_page_writes_values_as_the_terminal_does(window: Open, address: str) -> None:
    page = window(address)
    found = page.evaluate(SAID, [[asdict(metric) for metric in METRICS], VALUES])
    for metric, said in zip(METRICS, found, strict=True):
        assert said["text"] == [wording.text(metric, v) for v in VALUES], metric.name
        assert said["full"] == [wording.with_unit(metric, v) for v in VALUES], metric.name
        assert said["spread"] == [wording.spread(metric, v, 0.25) for v in VALUES], metric.name
        signed = [wording.difference(metric, -v).replace("-", "−").replace("points", "pts") for v in VALUES]
        assert said["gain"][1:] == signed[1:], metric.name
        assert said["gain"][0].startswith("±")
        assert said["none"] == [wording.text(metric, None), wording.with_unit(metric, None)]
        assert said["title"] == [wording.title(metric), wording.title(metric, "personal")]
        assert said["direction"] == ("" if metric == ACCURACY else metric.direction)
        assert said["order"] == ([3, 2, 1, None] if metric.higher_is_better else [1, 2, 3, None])


PLACES = {
    "#/run/waves/overview": "Personal RMSE",
    "#/run/waves/graph?method=KD-PDFL&seed=0&client=2": "RMSE against its Local twin",
    "#/run/waves/clients?method=KD-PDFL&seed=0": "learning alone",
    "#/run/waves/clients?method=KD-PDFL&seed=0&as=tiles": "learning alone",
    "#/compare/waves,waves": "2 runs compared",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_speaks_of_accuracy_where_there_is_none(window: Open, address: str, scheme: str) -> None:
    page = window(address, color_scheme=scheme)
    for place, shows in PLACES.items():
        page.goto(address + place)
        page.wait_for_selector(f"main:not([aria-busy]) :text('{shows}')")
        text = page.inner_text("main")
        assert "accura" not in text.lower(), place
        assert " pts" not in text, place


def test_clients_come_worst_first_and_red_is_worse(window: Open, address: str) -> None:
    page = window(f"{address}#/run/waves/clients?method=KD-PDFL&seed=0")
    page.wait_for_selector(".client-row[data-client]")
    order = page.locator(".client-row[data-client]").evaluate_all("rows => rows.map(r => r.dataset.client)")
    assert order == ["2", "3", "1", "0"]  # RMSE 4, 3.5, 2, 0.5
    worst, best = (page.locator(f".client-row[data-client='{k}']") for k in (2, 0))
    assert "4.00 kg" in worst.inner_text()
    assert worst.locator(".lean.bad").inner_text() == "−1.00 kg"
    assert best.locator(".lean.good").inner_text() == "+0.50 kg"
    widths = [row.locator(".meter i").evaluate("bar => bar.style.width") for row in (worst, best)]
    assert widths == ["100%", "12.5%"]
    page.goto(f"{address}#/run/waves/overview?method=KD-PDFL&seed=0")
    page.wait_for_selector(".gains rect.lost[data-client]")
    assert page.locator(".gains rect.lost[data-client]").get_attribute("data-client") == "2"
    assert "kg gained over the same client learning alone, on its own samples; up is better" in (
        page.locator(".gains").inner_text()
    )
    page.get_by_role("button", name="personal R2").click()
    first = page.locator(".results tbody tr").first
    assert "KD-PDFL" in first.inner_text()


def test_a_click_on_errors_shows_the_lowest_first(window: Open, address: str) -> None:
    page = window(f"{address}#/run/waves/overview")
    page.get_by_role("button", name="worst 10 %").click()
    assert "Local" in page.locator(".results tbody tr").first.inner_text()  # 3 and 3.5


def test_runs_of_several_metrics_are_listed_with_each_named(window: Open, tmp_path: Path) -> None:
    regression(tmp_path / "waves")
    make(tmp_path / "digits")
    with serving(tmp_path) as served:
        page = window(served.address)
        page.wait_for_selector(".runs-table tbody tr")
        waves, digits = (page.locator(".runs-table tbody tr", has_text=name) for name in ("waves", "digits"))
        assert {"KD-PDFL 2.25 kg", "RMSE"} <= set(waves.locator("span").all_inner_texts())
        assert {"KD-PDFL 61.7 %", "Accuracy"} <= set(digits.locator("span").all_inner_texts())
        assert page.get_by_role("button", name="personal result").is_visible()
        page.goto(f"{served.address}#/compare/waves,digits")
        page.wait_for_selector("h3:text-is('Personal RMSE')")
        assert "without the runs that are measured otherwise" in page.inner_text("main")
        page.close()


def test_runs_of_one_metric_are_listed_under_its_name(window: Open, address: str) -> None:
    page = window(address)
    assert "2.25 kg" in page.locator(".runs-table tbody tr", has_text="waves").inner_text()
    assert page.get_by_role("button", name="personal RMSE").is_visible()


def test_a_column_of_a_leaderboard_has_its_own_metric(window: Open, address: str) -> None:
    page = window(f"{address}#/run/board/board")
    page.wait_for_selector(".board-table tbody tr")
    cells = page.locator(".board-table tbody tr", has_text="FedAvg").first.inner_text()
    assert "70.0 ± 1.0" in cells
    assert "0.78 ± 0.01" in cells
    page.locator(".board-table tbody tr", has_text="FedAvg").first.get_by_text("0.78 ± 0.01").click()
    panel = page.locator(".details").inner_text()
    assert "RMSE" in panel
    assert "0.78 ± 0.01 kg" in panel
    assert "accura" not in panel.lower()


def test_a_report_has_the_metric_in_its_plain_table(root: Path) -> None:
    page = report([root / "waves", root / "board"]).decode()
    assert "personal RMSE kg" in page
    assert "heart RMSE kg" in page
    assert "digits-label %" in page


def test_views_carry_the_metric(root: Path) -> None:
    source = RunSource(root / "waves")
    wanted: dict[str, Any] = asdict(RMSE)
    assert source.answer("status", {})["metric"] == wanted
    overview = source.answer("overview", {})
    assert overview["tested"]["global"] == "tested on samples of all clients"
    assert overview["ascending"] == ["personal RMSE kg", "global RMSE kg", "worst 10 %"]
    people = source.answer("clients", {"method": "KD-PDFL", "seed": "0"})
    assert (people["metric"], people["gain"]) == (wanted, [0.5, 0.0, -1.0, 0.5])
    assert people["tally"].startswith(
        "2 of 4 clients gained by joining (1 surely), 1 is level, 1 lost (1 surely)"
    )
    one = source.answer("client", {"method": "KD-PDFL", "seed": "0", "client": "2"})
    assert one["curves"]["own"] == [8.0, 4.0]
