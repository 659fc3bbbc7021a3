"""The page over a run of many clients: it draws what is in sight, and no more than a screen can show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from coterie.experiment import Experiment
from tests.dashboard.conftest import Open, serving
from tests.runs.run_fixture import make, metrics

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLIENTS, EVALUATIONS = 2000, 200
ROWS = ".viewport [data-client]"
MOST_ROWS, MOST_TILES, MOST_BARS, MOST_ELEMENTS = 40, 200, 600, 1500
"""Most that is drawn at once; the last: of all of an overview."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page over a large run; look, do not touch."""
    folder, rng = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    experiment = Experiment.parse(
        {
            "name": "large",
            "seeds": 1,
            "methods": {"Local": {}, "KD-PDFL": {"tau": 0.1}},
            "data": {"clients": CLIENTS},
            "train": {"iterations": 10 * EVALUATIONS},
        }
    )
    people = {
        "seed": 0,
        "classes": [str(label) for label in range(10)],
        "group": (np.arange(CLIENTS) % 4).tolist(),
        "train": rng.integers(15, 100, CLIENTS).tolist(),
        "labels": rng.integers(0, 20, (CLIENTS, 10)).tolist(),
        "architecture": ["mlp", "cnn"] * (CLIENTS // 2),
    }
    rows = [
        metrics(world, 10 * t, np.round(rng.uniform(0.2, 0.9, CLIENTS), 3).tolist())
        for t in range(1, EVALUATIONS + 1)
        for world in (0, 1)
    ]
    make(folder / "large", experiment, [people], rows, [])
    with serving(folder) as served:
        yield f"{served.address}#/run/large"


def scrolled(page: Page, top: int) -> None:
    """Scroll the list and wait until it has been drawn."""
    page.evaluate(
        """async (top) => {
          document.querySelector(".viewport").scrollTop = top;
          for (let k = 0; k < 3; k += 1) await new Promise(requestAnimationFrame);
        }""",
        top,
    )


def test_of_many_clients_those_in_sight_are_drawn(window: Open, place: str) -> None:
    page = window(f"{place}/clients?sort=number")
    page.wait_for_selector(ROWS)
    assert page.locator(ROWS).count() <= MOST_ROWS
    scrolled(page, 10**9)
    assert page.locator(ROWS).last.get_attribute("data-client") == str(CLIENTS - 1)
    assert page.locator(ROWS).count() <= MOST_ROWS
    page.get_by_label("shown as").select_option("tiles")
    page.wait_for_selector(".tile")
    assert page.locator(ROWS).count() <= MOST_TILES


def test_rows_that_stay_in_sight_are_not_drawn_again(window: Open, place: str) -> None:
    page = window(f"{place}/clients?sort=number")
    page.wait_for_selector(ROWS)
    page.get_by_role("link", name="client 9", exact=True).focus()
    page.locator(ROWS).evaluate_all("rows => rows.forEach((row) => { row.old = true; })")
    scrolled(page, 5 * 46)
    shown = page.locator(ROWS).evaluate_all("rows => rows.map((row) => [+row.dataset.client, !!row.old])")
    assert [client for client, _ in shown] == list(range(shown[0][0], shown[0][0] + len(shown)))
    assert [old for _, old in shown] == [True] * (len(shown) - 5) + [False] * 5, "5 rows came, no more"
    assert page.evaluate("document.activeElement.innerText") == "client 9", "the focus stays"


def test_a_list_that_is_drawn_anew_stays_where_it_was(window: Open, place: str) -> None:
    page = window(f"{place}/clients?sort=number")
    page.wait_for_selector(ROWS)
    scrolled(page, 500 * 46)
    page.get_by_label("only those hurt").check()
    assert page.evaluate("document.querySelector('.viewport').scrollTop") == 500 * 46


def test_an_overview_has_no_more_bars_than_can_be_told_apart(window: Open, place: str) -> None:
    page = window(f"{place}/overview")
    page.wait_for_selector(".gains rect[data-client]")
    page.wait_for_selector(".chart path.line")
    bars = page.locator(".gains rect[data-client]").count()
    assert 200 < bars <= MOST_BARS
    assert "one bar in 4 is drawn" in page.locator(".gains .legend").inner_text()
    page.locator(".gains .chart").focus()
    page.keyboard.press("End")
    assert page.locator(".gains .read a").inner_text().startswith("client "), "all can be read"
    assert page.evaluate("document.querySelectorAll('*').length") <= MOST_ELEMENTS
