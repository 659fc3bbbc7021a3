"""The pages as axe-core judges them in light and dark: names and roles, contrast, order of headings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.dashboard.export import report
from coterie.dashboard.live import SwarmSource
from coterie.dashboard.sources import SWARM_PAGE, RunIndex
from tests.dashboard import board_fixture
from tests.dashboard.conftest import Open, serving
from tests.dashboard.impostor import impostor, said
from tests.dashboard.impostor import page as answer
from tests.dashboard.test_page import killed
from tests.runs.hurt_fixture import sampled
from tests.runs.rmse_fixture import regression
from tests.runs.run_fixture import CLIENTS, make

if TYPE_CHECKING:
    from playwright.sync_api import Page

PLACES = {
    "#/": ".runs-table tbody tr",
    "#/run/digits/overview": ".chart path.line",
    "#/run/digits/graph": ".client .card",
    "#/run/digits/graph?method=KD-PDFL&seed=0&client=2": "h2:text-is('Client 2')",
    "#/run/digits/clients": ".client-row[data-client]",
    "#/run/digits/clients?as=tiles": ".tile",
    "#/run/killed/overview": ".chart path.line",
    "#/run/dealt/overview": ".cards .chart text",
    "#/run/waves/overview": ".chart path.line",
    "#/run/waves/graph?method=KD-PDFL&seed=0&client=2": "h2:text-is('Client 2')",
    "#/run/waves/clients": ".client-row[data-client]",
    "#/run/board/board": ".board-table tbody tr",
    "#/run/board/board?row=Ditto&column=heart": ".details h4",
    "#/compare/digits,killed": ".chart path.line",
    "#/run/nowhere/overview": ".problem",
}
"""Places of the page, and what has to be there before it is judged."""
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page over runs of every kind; look, do not touch."""
    folder = tmp_path_factory.mktemp("accessible")
    people = [{**one, "architecture": ["mlp (hidden 64, 64)", "linear", "cnn", "mlp"]} for one in CLIENTS]
    make(folder / "digits", clients=people)
    killed(folder / "killed")
    sampled(folder / "dealt", [(0, 5), (0, 0), (5, 0), (2, 0), (0, 1)])
    regression(folder / "waves")
    board_fixture.write(folder / "board", board_fixture.board())
    with serving(folder) as served:
        yield served.address


CUT = """all => all.filter((node) => {
  const own = node.getBoundingClientRect(), cell = node.closest("[data-client]").getBoundingClientRect();
  return node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0
    || own.left < cell.left || own.right > cell.right || own.bottom > cell.bottom;
}).map((node) => node.outerHTML)"""


def judged(page: Page) -> list[str]:
    """What axe-core finds wrong, in a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{page.url.partition('#')[2]}: {one['id']}: {node['html'][:150]} {node.get('failureSummary', '')}"
        for one in found
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(
    "look",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"color_scheme": "light", "viewport": PHONE},
    ],
    ids=["light", "dark", "phone"],
)
def test_no_page_breaks_a_rule_of_accessibility(window: Open, place: str, look: Any) -> None:
    page = window(place, complaints=("Failed to load",), reduced_motion="reduce", **look)
    found = []
    for where, shows in PLACES.items():
        page.goto(place + where)
        page.wait_for_selector(f"main:not([aria-busy]) {shows}")
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        found += judged(page)
    assert not found, "\n".join(found)


def test_help_breaks_none_either(window: Open, place: str) -> None:
    page = window(place)
    page.wait_for_selector("main:not([aria-busy]) .runs-table")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    found = judged(page)
    assert not found, "\n".join(found)


def test_a_live_swarm_breaks_none_either(window: Open, tmp_path: Path) -> None:
    with (
        impostor(lambda n: answer(said(n))) as address,
        closing(SwarmSource([address])) as swarm,
        serving(RunIndex(tmp_path / "none", swarm)) as served,
    ):
        page = window(served.address + SWARM_PAGE)
        page.wait_for_selector(".swarm-event")
        found = judged(page)
        page.close()
    assert not found, "\n".join(found)


def test_a_report_breaks_none_either(window: Open, place: str, tmp_path: Path) -> None:
    runs = [regression(tmp_path / "waves").path, make(tmp_path / "digits").path]
    (tmp_path / "report.html").write_bytes(report(runs))
    page = window((tmp_path / "report.html").as_uri(), offline=True)
    page.wait_for_selector(".chart path.line")
    found = judged(page)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_no_text_of_a_client_is_cut_or_runs_into_the_next(window: Open, place: str, width: int) -> None:
    page = window(place, viewport={"width": width, "height": 900})
    for run in ("digits", "waves"):
        for shape in ("list", "tiles"):
            page.goto(f"{place}#/run/{run}/clients?method=KD-PDFL&seed=0&as={shape}")
            page.wait_for_selector(f"h1:text-is('{run}') ~ .clients .viewport .{shape} [data-client]")
            texts = page.locator("[data-client] :is(.who, .kind-of, b, small, .right)")
            assert texts.evaluate_all(CUT) == [], f"{run} as {shape}"
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
