"""The page over clients whose owners have names, which are anybody's text."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie import Run
from coterie.core.errors import UnknownNameError
from coterie.dashboard.export import report
from coterie.dashboard.sources import RunSource
from tests.dashboard.conftest import Open, serving
from tests.runs import run_fixture
from tests.runs.sampled_fixture import small_and_large

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

EVIL = "<img src=x onerror=alert(1)>"
OWNERS = ["Ann", EVIL, "=1+1", "Zoë of the long and winding name that goes on and on and on"]
WORLD = {"method": "KD-PDFL", "seed": "0"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    clients = [{**one, "owner": OWNERS} for one in run_fixture.CLIENTS]
    run_fixture.make(folder / "run", clients=clients)
    return folder


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serving(root) as served:
        yield f"{served.address}#/run/run"


def file(page: Page, button: Locator, folder: Path) -> list[list[str]]:
    with page.expect_download() as download:
        button.click()
    download.value.save_as(folder / "file.csv")
    return list(csv.reader((folder / "file.csv").read_text("utf-8").splitlines()))


def test_views_have_them(root: Path) -> None:
    source = RunSource(root / "run")
    assert source.answer("clients", WORLD)["owner"] == [*OWNERS[:3], OWNERS[3]]
    assert source.answer("graph", WORLD)["owners"] == OWNERS
    seen = source.answer("client", {**WORLD, "client": "ann"})
    assert (seen["client"], seen["owner"]) == (0, "Ann")
    assert seen["owners"] == {1: EVIL, 2: "=1+1", 3: OWNERS[3]}
    assert seen == source.answer("client", {**WORLD, "client": "0"})
    with pytest.raises(UnknownNameError, match=r"known: .*Did you mean 'Ann'"):
        source.answer("client", {**WORLD, "client": "anne"})


def test_without_owners_there_are_none(tmp_path: Path) -> None:
    source = RunSource(run_fixture.make(tmp_path / "run").path)
    assert source.answer("clients", WORLD)["owner"] is None
    assert source.answer("graph", WORLD)["owners"] is None
    seen = source.answer("client", {**WORLD, "client": "0"})
    assert (seen["owner"], seen["owners"]) == (None, {})


def test_lists_and_files_have_their_names_as_text(window: Open, address: str, tmp_path: Path) -> None:
    page = window(f"{address}/clients?method=KD-PDFL&seed=0&sort=owner")
    page.wait_for_selector(".viewport [data-client]")
    shown = page.locator(".viewport .client-row .who").all_inner_texts()
    assert [text.split(" ", 2)[2] for text in shown] == [EVIL, "=1+1", "Ann", OWNERS[3]]
    rows = file(page, page.get_by_role("button", name="CSV"), tmp_path)
    assert rows[0][:3] == ["client", "owner", "group"]
    assert [row[:2] for row in rows[1:]] == [["1", EVIL], ["2", "'=1+1"], ["0", "Ann"], ["3", OWNERS[3]]]
    page.get_by_label("shown as").select_option("tiles")
    page.wait_for_selector(".tile .kind-of:has-text('Ann')")
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_label("shown as").select_option("list")
    page.wait_for_selector(".client-row .kind-of:has-text('Ann')")
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_client_is_opened_by_its_owner(window: Open, address: str, tmp_path: Path) -> None:
    page = window(f"{address}/graph?method=KD-PDFL&seed=0&client=ann")
    page.wait_for_selector(".client h2:text-is('Client 0')")
    assert page.locator(".client .tag.owner").inner_text() == "Ann"
    assert f"It listens most to client 1 ({EVIL})" in page.locator(".client").inner_text()
    heard = page.get_by_role("button", name="neighbours of client 0")
    rows = file(page, page.locator("button[title^='neighbours of client 0']"), tmp_path)
    assert heard.count() <= 1
    assert rows[0][:2] == ["client", "owner"]
    assert ["1", EVIL] in [row[:2] for row in rows]
    rows = file(page, page.locator("button[title^='What it heard when']"), tmp_path)
    assert rows[0] == ["iteration", "kind", "client", "owner", "weight"]
    page.locator("canvas").first.hover(position={"x": 100, "y": 60})
    page.wait_for_selector("#tip:has-text('client ')")
    assert "(" in page.locator("#tip").inner_text()
    assert page.locator("img[src=x]").count() == 0
    other = window(f"{address}/graph?method=KD-PDFL&seed=0&client=anne", complaints=("Failed to load",))
    other.wait_for_selector(".problem:has-text(\"Did you mean 'Ann'?\")")


def test_who_gains_is_read_with_the_name(window: Open, address: str, tmp_path: Path) -> None:
    page = window(f"{address}/overview")
    page.locator(".gains svg.chart").focus()
    page.keyboard.press("End")
    page.wait_for_selector(".gains .read a")
    assert "(" in page.locator(".gains .read a").inner_text()
    rows = file(page, page.locator(".gains button[title^='Who gains by joining KD-PDFL']"), tmp_path)
    assert rows[0][:2] == ["client", "owner"]


def test_a_report_has_their_names_as_text(window: Open, root: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_bytes(report([root / "run"]))
    page = window((tmp_path / "report.html").as_uri())
    page.wait_for_selector(".client .tag.owner")
    assert EVIL in page.locator("main").inner_text()
    assert page.locator("img[src=x]").count() == 0


def test_of_a_large_population_a_client_is_found_by_its_owner(window: Open, tmp_path: Path) -> None:
    small_and_large(tmp_path / "runs")
    clients = tmp_path / "runs" / "some" / "clients.json"
    people = json.loads(clients.read_text())
    for one in people:
        one["owner"] = [f"owner of {k}" for k in one["sample"]]
    clients.write_text(json.dumps(people))
    number = int(Run(tmp_path / "runs" / "some").tracks[0].roster.numbers[3])
    with serving(tmp_path / "runs") as served:
        page = window(f"{served.address}#/run/some/graph?method=KD-PDFL&seed=0")
        page.wait_for_selector(".client h2")
        box = page.get_by_label("client", exact=True)
        box.fill(f"Owner of {number}")
        box.press("Enter")
        page.wait_for_selector(f".client h2:text-is('Client {number}')")
        assert page.locator(".client .tag.owner").inner_text() == f"owner of {number}"
        page.close()
