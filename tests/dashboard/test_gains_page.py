"""Who gains by joining, as the page shows it: the counted sentence, the bars, and the way to a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from coterie import Run
from coterie.dashboard.export import report
from coterie.runs.gains import accounts
from tests.dashboard.conftest import Open, serving
from tests.runs.hurt_fixture import sampled
from tests.runs.test_looks import made

if TYPE_CHECKING:
    from playwright.sync_api import Page

BARS = ".gains rect[data-client]"


def order(page: Page) -> list[int]:
    """The clients of the bars, from the left."""
    page.wait_for_selector(BARS)
    return [int(bar.get_attribute("data-client") or -1) for bar in page.locator(BARS).all()]


def test_bars_are_sorted_and_marked_in_more_than_colour(window: Open, tmp_path: Path) -> None:
    sampled(tmp_path / "dealt", [(0, 5), (0, 0), (5, 0), (2, 0), (0, 1)])
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/run/dealt/overview")
        assert order(page) == [2, 3, 1, 4, 0]
        assert page.locator(".gains .lead").inner_text() == (
            "2 of 5 clients gained by joining (1 surely), 1 is level, 2 lost (1 surely)."
        )
        kinds = page.locator(BARS).evaluate_all("bars => bars.map((bar) => bar.getAttribute('class'))")
        assert kinds == ["lost", "lost noise", "level", "gained noise", "gained"]
        assert page.locator(".gains .chart path.sure").count() == 2
        page.locator(".gains .chart").focus()
        page.keyboard.press("End")
        assert page.locator(".gains .read").inner_text() == (
            "client 0: 100.0 %, +62.5 pts over Local, surely gained"
        )
        page.close()


def test_a_bar_leads_to_its_client_who_is_told_why(window: Open, address: str, small: Run) -> None:
    page = window(f"{address}#/run/small/overview?method=KD-PDFL&seed=1")
    clients = order(page)
    people = small.per_client().query("method == 'KD-PDFL' and seed == 1").set_index("client")
    assert clients == sorted(people.index, key=lambda client: (round(people.vs_local[client], 5), client))
    page.locator(BARS).first.click(force=True)
    page.wait_for_selector(f"h2:text-is('Client {clients[0]}')")
    told = {account.method: account.text for account in accounts(small, clients[0], seed=1)}
    assert page.locator(".headline .why").first.inner_text() == told["KD-PDFL"]
    page.get_by_role("link", name="Overview").click()
    page.wait_for_selector(BARS)
    page.locator(".gains").get_by_label("method").select_option("FedAvg")
    page.wait_for_function("() => location.hash.includes('method=FedAvg')")
    page.wait_for_function("() => document.querySelector('.gains select').value === 'FedAvg'")
    clients = order(page)
    page.locator(".gains .chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    link = page.locator(".gains .read a")
    assert link.inner_text() == f"client {clients[1]}"
    assert f"client={clients[1]}" in (link.get_attribute("href") or "")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h2:text-is('Client {clients[1]}')")


def test_without_local_the_page_says_what_to_add(window: Open, tmp_path: Path) -> None:
    made(tmp_path / "run", ["KD-PDFL", "Median"])
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/run/run/overview")
        page.wait_for_selector(".gains .lead:has-text('no Local to compare with; add Local to its methods.')")
        assert page.locator(BARS).count() == 0
        page.close()


def test_a_report_has_the_bars_too(window: Open, small: Run, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_bytes(report([small.path]))
    page = window((tmp_path / "report.html").as_uri(), offline=True)
    assert len(order(page)) == 8
    page.locator(".gains .chart").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".gains .read").inner_text().startswith("client ")
    assert page.locator(".gains .read a").count() == 0, "there is no page of the client to open"
