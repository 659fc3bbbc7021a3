"""The page of a leaderboard in a real browser: sorted, filtered, looked at closely, while it grows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.dashboard.export import report
from tests.dashboard.board_fixture import MEANS, WHY, board, cell, column, write
from tests.dashboard.conftest import Open, serving

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

EVIL = "<img src=x onerror=alert(1)>"
ORDER = ["Ditto", "FedAvg", "Local", "KD-PDFL", "Oracle"]
"""By mean rank; KD-PDFL has none, and Oracle is a reference."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page over one board; look, do not touch."""
    with serving(write(tmp_path_factory.mktemp("page") / "board", board())) as served:
        yield f"{served.address}#/run/board/board"


def opened(window: Open, place: str, **options: Any) -> Page:
    page = window(place, **options)
    page.wait_for_selector("main:not([aria-busy]) .board-table tbody tr")
    return page


def methods(page: Page) -> list[str]:
    cells = page.locator(".board-table tbody td:first-child").all_inner_texts()
    return [text.removesuffix(" reference").strip() for text in cells]


def heads(page: Page) -> list[str]:
    return page.locator(".board-table thead tr:last-child th").all_inner_texts()


def at(page: Page, method: str, name: str) -> Locator:
    """The cell of a method in a column."""
    row, k = methods(page).index(method), [re.sub(" [↑↓]", "", head) for head in heads(page)].index(name)
    return page.locator(".board-table tbody tr").nth(row).locator("td").nth(k)


@pytest.mark.parametrize(
    "look",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark", "viewport": {"width": 400, "height": 800}},
    ],
    ids=["light", "dark phone"],
)
def test_it_fits_and_shows_all_methods_by_mean_rank(window: Open, place: str, look: Any) -> None:
    page = opened(window, place, **look)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert methods(page) == ORDER
    over = ["method", "mean rank", "regret", "hurt", "surely hurt", "seconds"]
    assert heads(page) == [*over, "digits-label", "iot-label", "heart", "wisdm"]
    groups = page.locator(".board-table thead .group").all_inner_texts()
    assert groups == ["over all columns", "label skew", "real clients"]
    assert at(page, "Ditto", "mean rank").inner_text() == "1.5"
    assert at(page, "FedAvg", "regret").inner_text() == "16.0"
    assert at(page, "Local", "surely hurt").inner_text() == "5 %"
    assert at(page, "Local", "digits-label").inner_text() == "80.0 ± 1.0"
    assert page.locator("main .pill").inner_text() == "unfinished"
    assert "3 of 4 columns" in page.locator("main").inner_text()
    assert "coterie leaderboard --resume --out" in page.locator(".hint").inner_text()


def test_the_best_and_those_as_good_are_bold(window: Open, place: str) -> None:
    page = opened(window, place)
    bold = {name: [m for m in MEANS[name] if at(page, m, name).locator("b").count()] for name in MEANS}
    assert bold == {"digits-label": ["Ditto", "KD-PDFL"], "heart": ["FedAvg", "Ditto", "Oracle"]}


def test_any_column_sorts_and_what_is_not_known_comes_last(window: Open, place: str) -> None:
    page = opened(window, place)
    page.get_by_role("button", name="digits-label").last.click()
    assert methods(page) == ["Ditto", "KD-PDFL", "Oracle", "Local", "FedAvg"]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("digits-label")
    page.get_by_role("button", name="heart").last.click()
    assert methods(page) == ["Oracle", "FedAvg", "Ditto", "Local", "KD-PDFL"]
    page.get_by_role("button", name="heart").last.click()
    assert methods(page) == ["Local", "Ditto", "FedAvg", "Oracle", "KD-PDFL"]
    page.get_by_role("button", name="regret").click()
    assert methods(page)[-2:] == ["Local", "FedAvg"], "the least first"


def test_a_cell_shows_what_is_chosen(window: Open, place: str) -> None:
    page = opened(window, place)
    shown = {}
    for option in page.get_by_label("cells show").locator("option").all():
        value = option.get_attribute("value") or ""
        page.get_by_label("cells show").select_option(value)
        shown[value] = at(page, "FedAvg", "digits-label").inner_text()
    # from cell(): 0.70 and what is added to it
    assert shown == {
        "personal": "70.0 ± 1.0", "worst10": "40.0", "hurt": "25.0", "sure": "5.0", "global": "50.0 ± 2.0",
        "megabytes": "12.5", "gradients": "600", "auc": "–", "peak": "72.0", "p": "< 0.001",
    }  # fmt: skip
    assert page.locator(".board-table h3").inner_text() == "p against the best"


def test_families_columns_methods_and_references_are_filtered_and_stay_in_the_address(
    window: Open, place: str
) -> None:
    page = opened(window, place)
    filters = page.locator(".filters")
    filters.get_by_role("button", name="label skew").click()
    filters.get_by_role("button", name="wisdm").click()
    assert heads(page)[6:] == ["heart"]
    page.get_by_label("references").uncheck()
    page.get_by_label("cells show").select_option("worst10")
    page.get_by_role("button", name="heart").last.click()
    page.get_by_label("search").fill("fed")
    assert methods(page) == ["FedAvg"]
    page.get_by_label("search").fill("d")
    at(page, "Ditto", "heart").click()
    other = opened(window, page.evaluate("location.href"))
    assert methods(other) == ["FedAvg", "Ditto", "KD-PDFL"]
    assert heads(other)[6:] == ["heart"]
    assert at(other, "Ditto", "heart").inner_text() == "47.0"
    assert other.locator(".details h3").inner_text() == "Ditto in heart"
    filters = other.locator(".filters")
    filters.get_by_role("button", name="label skew").click()
    filters.get_by_role("button", name="wisdm").click()
    other.get_by_label("references").check()
    other.get_by_label("cells show").select_option("personal")
    other.get_by_role("button", name="mean rank").click()
    other.get_by_label("search").fill("nothing like this")
    other.wait_for_selector(":text('No method is like that.')")
    other.get_by_label("search").fill("")
    other.get_by_role("button", name="close the details").click()
    assert methods(other) == ORDER
    assert other.evaluate("location.href") == place, "what is as it was leaves no trace"


def test_a_dash_says_why_on_hover_and_on_focus(window: Open, place: str) -> None:
    page = opened(window, place)
    dash = at(page, "KD-PDFL", "heart").get_by_role("button")
    assert dash.inner_text() == "–"
    dash.hover()
    assert page.locator("#tip").inner_text() == WHY
    page.mouse.move(2, 2)
    page.wait_for_selector("#tip", state="hidden")
    dash.focus()
    assert page.locator("#tip").inner_text() == WHY
    for name, why in {
        "iot-label": "The column is waiting.",
        "wisdm": "The column is left out: wisdm.npz is not there",
    }.items():
        at(page, "Ditto", name).get_by_role("button").hover()
        assert page.locator("#tip").inner_text() == why


def test_a_click_shows_the_details_of_a_cell_a_column_and_a_method(window: Open, place: str) -> None:
    page = opened(window, place)
    panel = page.locator(".details")
    assert panel.is_hidden()
    at(page, "FedAvg", "digits-label").get_by_role("button").click()
    facts = dict(zip(*(panel.locator(part).all_inner_texts() for part in ("dt", "dd")), strict=True))
    assert facts["with each seed, %"] == "69.0, 71.0"
    assert facts["against the best"] == "−16.0 pts"
    assert facts["p (Holm)"] == "< 0.001"
    assert facts["on validation samples"] == "71.0 ± 2.0 %"
    assert (facts["train.lr"], facts["lambda"]) == ("0.1", "0.7")
    assert facts["time of the column"].startswith("1 min 30 s tuning, 35 s figures")
    at(page, "KD-PDFL", "heart").get_by_role("button").click()
    assert WHY in panel.inner_text()
    page.get_by_role("button", name="heart").last.click()
    assert panel.locator("h3").inner_text() == "heart"
    assert "four hospitals" in panel.inner_text()
    assert WHY in panel.inner_text()
    at(page, "Ditto", "method").get_by_role("button").click()
    assert "Ditto in one line." in panel.inner_text()
    assert "−1.0 pts in heart" in panel.inner_text()
    page.get_by_role("button", name="close the details").click()
    assert panel.is_hidden()


def test_arrow_keys_go_from_cell_to_cell_and_the_table_is_one_stop(window: Open, place: str) -> None:
    page = opened(window, place)
    assert page.locator(".cell[tabindex='0']").count() == 1
    page.locator(".cell[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator(".cell[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.locator(".details h3").inner_text() == "Ditto in digits-label", "numbers over all are skipped"
    page.keyboard.press("/")
    page.keyboard.type("kd")
    assert methods(page) == ["KD-PDFL"]


INSIDE = """texts => texts.every((text) => {
    const [a, b] = [text, text.closest('svg')].map((node) => node.getBoundingClientRect());
    return a.left >= b.left - 1 && a.right <= b.right + 1 && a.bottom <= b.bottom + 1;
})"""


@pytest.mark.parametrize("width", [400, 1280])
def test_the_diagram_has_every_rank_the_bars_and_the_critical_difference(
    window: Open, place: str, width: int
) -> None:
    page = opened(window, place, viewport={"width": width, "height": 900})
    drawing = page.locator("svg.ranks")
    assert drawing.locator(".name").all_text_contents() == ["Ditto 1.5", "FedAvg 2.0", "Local 2.5"]
    assert "critical difference 2.34" in drawing.locator("text").all_text_contents()
    assert "p of Friedman's test: 0.600" in page.locator("figure .note").inner_text()
    assert drawing.locator("text").evaluate_all(INSIDE)
    label = drawing.get_attribute("aria-label") or ""
    assert label.endswith("Not told apart: Ditto, FedAvg, Local.")
    (bar,) = drawing.locator(".clique").all()
    marks = [float(mark.get_attribute("cx") or 0) for mark in drawing.locator("circle").all()]
    assert float(bar.get_attribute("x1") or 0) < marks[0] < marks[1] < marks[2]
    assert marks[2] < float(bar.get_attribute("x2") or 0)
    # Ranks 1 to 3 take the whole axis: the three marks lie at a quarter, a half and three quarters of it.
    assert marks[1] - marks[0] == pytest.approx(marks[2] - marks[1])


def test_it_grows_before_your_eyes_and_keeps_what_is_chosen(window: Open, tmp_path: Path) -> None:
    values = board(columns=[column("heart", "real clients", "four hospitals", MEANS["heart"])], ranking=None)
    write(tmp_path / "board", values)
    with serving(tmp_path) as served:
        page = window(served.address)
        page.get_by_role("link", name="board").click()
        page.wait_for_selector(".board-table tbody tr")
        page.wait_for_selector(":text('once there are two columns')")
        page.get_by_label("search").fill("ditto")
        write(tmp_path / "board", board(state="done"))
        page.wait_for_selector("svg.ranks")
        page.wait_for_selector("main .pill:text-is('done')")
        assert methods(page) == ["Ditto"]
        assert heads(page)[6:] == ["digits-label", "iot-label", "heart", "wisdm"]
        page.close()


def test_the_list_names_who_leads(window: Open, place: str) -> None:
    page = window(place.partition("#")[0])
    row = page.locator(".runs-table tbody tr")
    row.wait_for()
    assert "Ditto 1.5" in row.inner_text().replace("\n", " ")
    assert "3 of 4 columns" in row.inner_text()
    assert page.get_by_label("compare board").is_disabled()


def test_the_numbers_can_be_taken_along(window: Open, place: str, tmp_path: Path) -> None:
    page = opened(window, place)
    with page.expect_download() as download:
        page.locator(".board-table").get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == "leaderboard_personal.csv"
    download.value.save_as(tmp_path / "file.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "file.csv").read_text())))
    assert rows[1] == ["Ditto", "1.5", "0.01", "0.25", "0.05", "2.5", "0.86", "", "0.77", ""]
    with page.expect_download() as download:
        page.locator("figure").get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "Mean_ranks.png"


def wicked() -> dict[str, Any]:
    """A board whose names and reasons are markup."""
    own = column(EVIL, EVIL, EVIL, {EVIL: 0.5, "Local": 0.4})
    own["cells"]["Local"] = {"why": EVIL}
    own["cells"][EVIL] = cell(0.5, 0.5, 1.0, setting={EVIL: EVIL})
    method = {"name": EVIL, "about": EVIL, "mean_rank": 1.0, "columns": 1, "regret": None, "seconds": None}
    ranking = {**board()["ranking"], "mean_rank": {EVIL: 1.0, "Local": 2.0}, "cliques": [[EVIL, "Local"]]}
    return board(columns=[own], methods={EVIL: method, "Local": method}, ranking=ranking, device=EVIL)


def test_names_are_never_markup(window: Open, tmp_path: Path) -> None:
    write(tmp_path / "board", wicked())
    with serving(tmp_path) as served:
        page = opened(window, f"{served.address}#/run/board/board")
        for k in range(4):
            page.locator(".board-table .cell").nth(k).click()
            assert EVIL in page.locator(".details").inner_text()
        page.locator(".board-table thead button").last.click()
        assert EVIL in page.locator(".details").inner_text()
        assert page.locator("img[src=x]").count() == 0
        page.close()


def test_a_report_has_the_same_page_offline(window: Open, tmp_path: Path) -> None:
    write(tmp_path / "evil", wicked())
    file = tmp_path / "report.html"
    file.write_bytes(report([write(tmp_path / "board", board()), tmp_path / "evil"]))
    page = window(file.as_uri(), offline=True)
    page.wait_for_selector("#board-1 .board-table tbody tr")
    first = page.locator("#board-0")
    assert first.locator("svg.ranks .name").count() == 3
    first.get_by_label("cells show").select_option("p")
    first.get_by_role("button", name="heart").last.click()
    assert first.locator(".details h3").inner_text() == "heart"
    assert page.locator("nav.contents").get_by_role("link", name="Leaderboard").count() == 2
    assert page.locator("img[src=x]").count() == 0
    assert page.locator(".problem").count() == 0
