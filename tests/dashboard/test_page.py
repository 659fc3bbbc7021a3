"""What a reader can do with the page: find runs, look closer, take numbers along, pass on what is seen."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.image import imread

from coterie.dashboard.export import report
from coterie.runs import Run, RunFolder
from coterie.runs.plots.looks import NAMED
from tests.dashboard.conftest import Open, serving
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, exchange, metrics
from tests.runs.test_looks import made, many
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PHONE = {"width": 390, "height": 800}
LONG = "KD-PDFL (as the paper has it)"
DRAWN = """nodes => nodes.length > 0 && nodes.every((node) => {
  const own = node.getBoundingClientRect(), whole = node.closest("svg").getBoundingClientRect();
  return own.left >= whole.left - 1 && own.right <= whole.right + 1;
})"""
INSIDE = """names => names.every((name) => {
    const [a, b] = [name, name.closest('.card')].map((node) => node.getBoundingClientRect());
    return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
})"""


def killed(path: Path) -> Run:
    """A run that ended without a word at half of its iterations."""
    run = made(path, ["Local", "KD-PDFL", LONG])
    (path / "metrics.jsonl").write_text(
        "".join(
            line + "\n"
            for line in (path / "metrics.jsonl").read_text().splitlines()
            if json.loads(line)["t"] <= 5
        )
    )
    (path / "status.json").write_text(
        json.dumps({"state": "running", "t": 5, "iterations": 10, "seconds": 1.0})
    )
    return run


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page over a few runs that were made up."""
    folder = tmp_path_factory.mktemp("page")
    made(folder / "first", ["FedAvg", "Local", "KD-PDFL", LONG])
    made(folder / "second", ["KD-PDFL", "Median"])
    killed(folder / "killed")
    many(folder / "many", 30)
    with serving(folder) as served:
        yield served.address


def colour(node: Locator, what: str = "background-color") -> str:
    found: str = node.evaluate(f"node => getComputedStyle(node)['{what}']")
    return found


def overview(window: Open, place: str, run: str, **options: Any) -> Page:
    page = window(f"{place}#/run/{run}/overview", **options)
    page.wait_for_selector(".chart path.line")
    return page


def test_the_names_of_an_unfinished_run_stand_where_its_curves_end(window: Open, place: str) -> None:
    page = overview(window, place, "killed")
    leaders = page.locator(".leader")
    assert leaders.count() == 12
    curves = {colour(line, "stroke") for line in page.locator("path.line").all()}
    assert not curves & {colour(leader, "stroke") for leader in leaders.all()}
    for path in leaders.evaluate_all("nodes => nodes.map((node) => node.getAttribute('d'))"):
        start, end = (float(part.split()[0]) for part in path[1:].split("L"))
        assert 0 < end - start <= 16, "pixels: short, so that it is no forecast"


@pytest.mark.parametrize("run", ["killed", "first", "many"])
@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_names_are_whole_and_stay_in_their_card(window: Open, place: str, run: str, width: int) -> None:
    page = overview(window, place, run, viewport={"width": width, "height": 900})
    names = page.locator("figure :is(.name, .value, .key)")
    assert names.evaluate_all(INSIDE)
    assert page.locator("figure .tick").evaluate_all(DRAWN)
    said = " ".join(names.all_text_contents())
    assert "…" not in said
    assert (LONG in said) == (run != "many")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_method_has_its_colour_on_every_page(window: Open, place: str) -> None:
    seen = set()
    for run in ("first", "second", "killed"):
        page = overview(window, place, run)
        seen.add(colour(page.locator(".results tr:has(td:first-child:text-is('KD-PDFL')) .dot")))
        seen.add(colour(page.locator(".viewing button:text-is('KD-PDFL') .line"), "stroke"))
    page.goto(f"{place}#/compare/first,second")
    page.wait_for_selector(".compare .chart path.line")
    seen |= {colour(dot) for dot in page.locator(".results tr:has(td:text-is('KD-PDFL')) .dot").all()}
    seen.add(colour(page.locator(".viewing button:has-text('second · KD-PDFL') .line"), "stroke"))
    assert seen == {"rgb(0, 114, 178)"}


def test_of_many_methods_the_best_are_named_and_others_can_be(window: Open, place: str) -> None:
    page = overview(window, place, "many")
    first = page.locator("figure:has-text('Personal accuracy')")
    assert (first.locator(".name").count(), first.locator(".line.other").count()) == (NAMED, 30 - NAMED)
    page.get_by_text("Name more of the 22 others").click()
    page.get_by_role("button", name="variant 3)", exact=False).first.click()
    page.wait_for_selector("figure .name:text('variant 3)')")
    page.get_by_role("button", name="21 others").click()
    page.wait_for_selector(".line.other", state="detached")


def test_hiding_log_scale_smoothing_and_zoom_stay_in_the_address(window: Open, place: str) -> None:
    page = overview(window, place, "first")
    curve = "document.querySelector('figure path.line')?.getAttribute('d')"  # none while it is drawn anew
    plain = page.wait_for_function(f"() => {curve}").json_value()
    page.locator(".viewing").get_by_role("button", name="FedAvg").click()
    assert page.locator("figure .name:text-is('FedAvg')").count() == 0
    page.get_by_label("log scale").check()
    page.wait_for_function(f"plain => {curve} && {curve} !== plain", arg=plain)
    page.get_by_label("smoothing").select_option("5")
    page.wait_for_selector("figure :text('Smoothed: mean of 5 evaluations.') >> nth=0")
    box = page.locator(".chart:has(path.line)").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 90)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('to=')")
    page.wait_for_selector("button:text-is('whole run')")
    seen = page.wait_for_function(f"() => {curve}").json_value()
    until = page.get_by_label("to iteration").input_value()
    again = overview(window, place, "first")
    again.goto("about:blank")
    again.goto(page.url)
    again.wait_for_function(f"seen => {curve} === seen", arg=seen)
    assert again.get_by_label("to iteration").input_value() == until
    assert again.locator("figure .name:text-is('FedAvg')").count() == 0
    assert again.get_by_label("log scale").is_checked()
    again.get_by_role("button", name="whole run").click()
    again.get_by_label("log scale").uncheck()
    again.get_by_label("smoothing").select_option("1")
    again.locator(".viewing").get_by_role("button", name="FedAvg").click()
    again.wait_for_function(f"plain => {curve} === plain", arg=plain)
    assert again.url.endswith("#/run/first/overview")


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_numbers_and_pictures_can_be_taken_along(window: Open, place: str, tmp_path: Path) -> None:
    page = overview(window, place, "first")

    def taken(button: Locator, name: str) -> Path:
        with page.expect_download() as download:
            button.click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
        return tmp_path / name

    figure = page.locator("figure:has-text('Personal accuracy')")
    rows = table(taken(figure.get_by_role("button", name="CSV"), "Personal_accuracy.csv").read_text())
    assert rows[0] == ["name", "iteration", "value", "low", "high"]
    assert ["FedAvg", "10", "0.4", "", ""] in rows
    picture = imread(taken(figure.get_by_role("button", name="PNG"), "Personal_accuracy.png"))
    assert picture.shape[1] > 800
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 20
    rows = table(
        taken(page.locator(".results").get_by_role("button", name="CSV"), "results_made_up.csv").read_text()
    )
    assert rows[0][:2] == ["method", "personal %"]
    assert [row[0] for row in rows[1:]] == ["FedAvg", "Local", "KD-PDFL", LONG]
    page.goto(f"{place}#/run/first/graph")
    page.wait_for_selector(".client .card")
    heat = page.locator("figure:has-text('Who listens to whom')")
    assert imread(taken(heat.get_by_role("button", name="PNG"), "Who_listens_to_whom.png")).shape[0] > 300
    rows = table(taken(heat.get_by_role("button", name="CSV"), "Who_listens_to_whom.csv").read_text())
    weights = {
        (row[0], to[3:]): cell for row in rows[1:] for to, cell in zip(rows[0][1:], row[1:], strict=True)
    }
    links = page.locator("figure:has-text('The same as links')")
    edges = table(taken(links.get_by_role("button", name="CSV"), "The_same_as_links.csv").read_text())
    assert edges[0] == ["client", "listens to", "weight"]
    for i, j, weight in edges[1:]:
        assert float(weights[f"client {i}", f"client {j}"]) == pytest.approx(float(weight), abs=0.01)
    assert {weights[f"client {i}", f"client {i}"] for i in range(4)} == {""}
    own = page.locator("button[title^='Its data client']")
    assert table(taken(own, "Its_data_client_0.csv").read_text())[1:] == [["cat", "5"], ["dog", "0"]]
    heard = page.locator("figure:has-text('What it heard when')").get_by_role("button", name="CSV")
    head, *rows = table(taken(heard, "What_it_heard_when_client_0.csv").read_text())
    assert head == ["iteration", "kind", "client", "weight"]
    assert rows
    page.goto(f"{place}#/run/first/clients?method=KD-PDFL&seed=0")
    page.wait_for_selector(".viewport [data-client]")
    rows = table(taken(page.get_by_role("button", name="CSV"), "clients_KD-PDFL_seed_0.csv").read_text())
    assert rows[0][-2:] == ["cat", "dog"]
    assert len(rows) == 5


def test_no_name_becomes_a_formula(window: Open, tmp_path: Path) -> None:
    made(tmp_path / "runs" / "run", ["Local", '=1+1,"x"'])
    with serving(tmp_path / "runs") as served:
        page = overview(window, served.address, "run")
        with page.expect_download() as download:
            page.locator(".results").get_by_role("button", name="CSV").click()
        download.value.save_as(tmp_path / "file.csv")
        assert table((tmp_path / "file.csv").read_text())[2][0] == '\'=1+1,"x"'
        page.close()


def runs_shown(page: Page) -> list[str]:
    return page.locator(".run-name a").all_inner_texts()


def test_runs_are_searched_sorted_and_filtered_and_their_columns_have_names(window: Open, place: str) -> None:
    page = window(place)
    page.wait_for_selector(".runs-table tbody tr")
    assert page.locator("thead th").all_inner_texts() == [
        "compare", "run", "state", "progress", "personal accuracy",
        "methods", "clients", "seeds", "started (UTC)",
    ]  # fmt: skip
    assert runs_shown(page) == ["first", "killed", "many", "second"]
    page.get_by_role("button", name="methods").click()
    assert runs_shown(page) == ["many", "first", "killed", "second"]
    page.get_by_label("search").fill("median")
    assert runs_shown(page) == ["second"]
    page.get_by_label("search").fill("")
    page.keyboard.press("1")
    assert page.get_by_label("search").input_value() == "1", "keys are for whoever writes"
    page.get_by_label("search").fill("kd")
    page.get_by_label("state").select_option("interrupted")
    page.get_by_label("search").fill("killed")
    assert runs_shown(page) == ["killed"]
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector(".runs-table tbody tr")
    assert runs_shown(page) == ["killed"]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("methods")
    page.get_by_label("search").fill("nothing like this")
    page.wait_for_selector(":text('No run is like that.')")


GROUP = ".runs-table .members"


def test_runs_are_grouped_by_experiment_or_by_folder_and_a_group_is_compared(
    window: Open, tmp_path: Path
) -> None:
    made(tmp_path / "alone", ["Local"])
    for name in ("b", "a"):
        made(tmp_path / "sizes" / "jobs" / name, ["Local", "KD-PDFL"])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "experiment.toml").write_text("[")
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/?group=folder&sort=run&down=on")
        page.wait_for_selector(GROUP)
        rows = page.locator(".runs-table tbody tr th b, .runs-table .run-name a").all_inner_texts()
        assert rows == ["sizes", "sizes/jobs/b", "sizes/jobs/a", "no folder of their own", "broken", "alone"]
        assert page.locator(GROUP).first.inner_text().split() == ["sizes", "2", "runs", "compare", "them"]
        assert page.locator(f"{GROUP} a").count() == 1, "one run alone is not compared"
        page.get_by_label("grouped by").select_option("experiment")
        assert page.locator(f"{GROUP} b").all_inner_texts() == ["made up", "unknown"]
        assert "group=experiment" in page.url
        page.get_by_label("grouped by").select_option("nothing")
        assert page.locator(GROUP).count() == 0
        assert "group" not in page.url
        page.get_by_label("grouped by").select_option("folder or sweep")
        page.get_by_role("link", name="compare sizes").click()
        page.wait_for_selector("h1:text-is('2 runs compared')")
        page.close()


@pytest.mark.parametrize("where", ["#/", "#/run/killed/overview"])
def test_a_run_that_was_stopped_says_how_it_goes_on_to_be_copied(
    window: Open, place: str, where: str
) -> None:
    page = window(place + where)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    told = page.locator(".command code").inner_text()
    assert told.startswith("coterie run --resume --out ")
    assert page.locator(".command").count() == 1, "the others have nothing to go on with"
    page.locator(".command button").click()
    page.wait_for_selector(".command button:text-is('copied')")
    assert page.evaluate("navigator.clipboard.readText()") == told


def test_a_command_is_selected_where_a_page_may_not_copy(window: Open, place: str) -> None:
    page = window(f"{place}#/run/killed/overview")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.locator(".command button").click()
    assert page.evaluate("String(getSelection())") == page.locator(".command code").inner_text()


def test_a_link_shows_the_method_seed_client_and_iteration(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/graph?method=KD-PDFL&seed=1")
    page.wait_for_selector(".client .card")
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    page.locator("input[type=range]").fill("2")
    page.locator("input[type=range]").dispatch_event("change")
    page.get_by_label("ordered by").select_option("number")
    page.wait_for_function("() => /t=\\d/.test(location.hash) && location.hash.includes('order=number')")
    page.wait_for_selector(".client .card")
    other = window(page.url)
    other.wait_for_selector(".client .card")

    def facts(seen: Page) -> list[str]:
        return [seen.locator(part).first.inner_text() for part in (".facts b", ".client h2")]

    until(lambda: facts(other) == facts(page))  # each shows what the server has told it by now
    assert other.get_by_label("seed").input_value() == "1"
    assert other.get_by_label("ordered by").input_value() == "number"
    other.get_by_role("link", name="Clients").click()
    other.wait_for_selector(".viewport [data-client]")
    assert other.get_by_label("seed").input_value() == "1", "the next view begins with it"
    other.get_by_label("sorted by").select_option("train")
    other.get_by_label("only those hurt").check()
    shown = other.locator(".viewport [data-client]").evaluate_all("rows => rows.map((r) => r.dataset.client)")
    url = other.url
    other.goto("about:blank")
    other.goto(url)
    other.wait_for_selector(".viewport [data-client], .viewport .rows:empty", state="attached")
    again = other.locator(".viewport [data-client]").evaluate_all("rows => rows.map((r) => r.dataset.client)")
    assert again == shown


def test_every_page_of_a_run_has_one_main_heading(window: Open, address: str) -> None:
    page = window(address)
    for view, shows in {"overview": ".results", "graph": ".client", "clients": ".viewport"}.items():
        page.goto(f"{address}#/run/small/{view}")
        page.wait_for_selector(f"main:not([aria-busy]) {shows}")
        assert page.locator("h1").all_inner_texts() == ["small"]


def test_the_keys_are_explained(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/overview")
    page.wait_for_selector(".results")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] :text('overview, graph, clients')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.get_by_role("button", name="keyboard help").click()
    page.get_by_role("button", name="Close").click()
    page.wait_for_selector("dialog[open]", state="detached")


def test_parameters_are_those_that_are_not_default_or_all(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/overview")
    page.wait_for_selector(".results")
    page.locator("#parameters summary").click()
    page.wait_for_selector("#parameters dt")
    shown = dict(
        zip(*(page.locator(f"#parameters {part}").all_inner_texts() for part in ("dt", "dd")), strict=True)
    )
    assert shown["train.iterations"] == "60"
    assert shown["methods.KD-PDFL.adoption"] == "mix"
    assert "train.batch" not in shown
    assert "data.set.name" not in shown, "digits is the default"
    page.get_by_label("only what is not default").uncheck()
    page.wait_for_selector("#parameters dt:text-is('train.batch')")
    page.wait_for_selector("#parameters dt:text-is('train.iterations')")


def test_a_comparison_says_what_differs_and_has_its_legend_in_the_card(window: Open, tmp_path: Path) -> None:
    for name, lr, tau in (("slow", 0.1, 0.1), ("fast", 0.2, 0.3)):
        methods = {"Local": {}, "KD-PDFL": {"tau": tau}}
        experiment = EXPERIMENT.replace(name=name, seeds=[0], train__lr=lr, methods=methods)
        worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
        with RunFolder.create(tmp_path / name, experiment) as folder:
            folder.describe(worlds, CLIENTS[:1])
            for world in range(len(worlds)):
                folder.metrics(metrics(world, 10, [0.5] * 4))
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/compare/slow,fast")
        page.wait_for_selector(".chart circle")
        assert page.locator(".differences thead th").all_inner_texts() == ["parameter", "slow", "fast"]
        assert page.locator(".differences tbody td").all_inner_texts() == [
            "train.lr", "0.1", "0.2", "methods.KD-PDFL", "KD-PDFL, tau 0.1", "KD-PDFL, tau 0.3",
        ]  # fmt: skip
        keys = page.locator("button.key")
        assert keys.count() == 4
        assert page.locator("main .card:has(.chart) button.key").count() == 4
        looks = keys.locator(".line").evaluate_all(
            "lines => lines.map((l) => getComputedStyle(l)).map((l) => `${l.stroke} ${l.strokeDasharray}`)"
        )
        assert len(set(looks)) == 4
        page.goto(f"{served.address}#/compare/slow,slow")
        page.wait_for_selector(".differences :text('the same parameters')")
        page.close()


def weighed(path: Path, rows: list[dict[str, Any]]) -> Path:
    experiment = EXPERIMENT.replace(seeds=[0])
    worlds = [{**w._asdict(), "experiment": None, "federation": 0} for w in experiment.worlds()]
    with RunFolder.create(path / "run", experiment) as folder:
        folder.describe(worlds, CLIENTS[:1])
        for world in range(len(worlds)):
            folder.metrics(metrics(world, 10, [0.5] * 4))
        for row in rows:
            folder.exchange(row)
        folder.status("done", 10, 10, 1.0)
    return path


def test_not_met_looks_unlike_weight_0_and_clients_and_groups_are_named(window: Open, tmp_path: Path) -> None:
    rows = [exchange(1, 0, [1, 2], weight=[0.0, 0.5], distance=[0.9, 0.1])]
    with serving(weighed(tmp_path, rows)) as served:
        page = window(f"{served.address}#/run/run/graph?order=number", complaints=("willReadFrequently",))
        page.wait_for_selector(".client .card")
        colours = page.evaluate("""() => {
            const canvas = document.querySelector('canvas'), pen = canvas.getContext('2d');
            const ratio = canvas.width / canvas.clientWidth, edge = Number(canvas.dataset.edge) * ratio;
            const step = (canvas.width - edge) / 4, strip = edge - 12 * ratio, small = step - 18;
            const seen = (...box) => new Set(new Uint32Array(pen.getImageData(...box).data.buffer)).size;
            const cell = (row, column) => seen(edge + column * step + 9, edge + row * step + 9, small, small);
            return { zero: cell(0, 1), unmet: cell(2, 3), left: seen(8 * ratio, edge, strip, step * 4),
                above: seen(edge, 8 * ratio, step * 4, strip) };
        }""")
        assert colours["zero"] == 1, "plain"
        assert colours["unmet"] >= 2, "hatched"
        assert min(colours["left"], colours["above"]) > 2, "numbers"
        assert "not met" in page.locator(".scale").inner_text()
        assert page.locator(".scale .hatched").count() == 1
        assert page.locator(".groups .key").all_inner_texts() == ["group 0", "group 1"]
        page.close()


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [([0.5, 0.2], "The nearer, the more it listens."), ([0.2, 0.5], "not from the last distance alone")],
)
def test_what_is_said_of_the_neighbours_is_what_their_table_shows(
    window: Open, tmp_path: Path, weights: list[float], sentence: str
) -> None:
    rows = [exchange(1, 0, [1, 2], weight=weights, distance=[0.202, 0.401])]
    with serving(weighed(tmp_path, rows)) as served:
        page = window(f"{served.address}#/run/run/graph?client=0")
        page.wait_for_selector(".client .card")
        note = page.locator("figure:has-text('Its neighbours') .note").first.inner_text()
        assert sentence in note
        assert ("The nearer" in note) == (weights[0] > weights[1])
        page.close()


def test_on_a_phone_tables_say_that_they_go_on_and_the_replay_bar_is_low(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/overview", viewport=PHONE)
    hint = page.locator(".results .cut")
    hint.wait_for()
    page.locator(".results .scroll").evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    hint.wait_for(state="hidden")
    page.goto(f"{address}#/run/small/graph")
    page.wait_for_selector(".client .card")
    bar = page.locator(".time").bounding_box()
    assert bar is not None
    assert bar["height"] < 60, "pixels of 800"
    page.wait_for_selector(":text('of all pairs have met')")
    page.goto(f"{address}#/run/small/clients")
    page.wait_for_selector(".viewport [data-client]")
    row = page.locator(".viewport [data-client]").first
    heights = row.locator("> span").evaluate_all("cells => cells.map((cell) => cell.offsetHeight)")
    assert len(heights) == 6
    assert min(heights) > 0, "no column is left out"


def test_a_report_of_two_runs_has_a_table_of_contents(window: Open, root: Path, tmp_path: Path) -> None:
    made(tmp_path / "first", ["Local", "KD-PDFL"])
    file = tmp_path / "report.html"
    file.write_bytes(report([root / "small", tmp_path / "first"]))
    page = window(file.as_uri(), offline=True)
    page.wait_for_selector("#clients-1 .viewport [data-client]")
    contents = page.get_by_role("navigation", name="contents")
    assert contents.get_by_role("link").all_inner_texts() == [
        str(root / "small"), "Overview", "Who listens to whom", "Clients",
        str(tmp_path / "first"), "Overview", "Who listens to whom", "Clients",
    ]  # fmt: skip
    contents.get_by_role("link", name="Clients").nth(1).click()
    top = "document.querySelector('#clients-1').getBoundingClientRect().top"
    page.wait_for_function(f"() => {top} < innerHeight")
    page.locator("#overview-0 #parameters summary").click()
    page.wait_for_selector("#overview-0 dt:text-is('train.iterations')")
    dots = [colour(page.locator(f"#overview-{k} .results tr:has-text('KD-PDFL') .dot")) for k in (0, 1)]
    assert dots == 2 * ["rgb(0, 114, 178)"]
    with page.expect_download() as download:
        page.locator("#overview-0 figure").first.get_by_role("button", name="PNG").click()
    download.value.save_as(tmp_path / "chart.png")
    assert imread(tmp_path / "chart.png").shape[1] > 500


def test_whose_numbers_they_are_stays_in_sight_on_a_phone(window: Open, place: str) -> None:
    page = overview(window, place, "first", viewport=PHONE)
    names = page.locator(".results tbody td:first-child")
    before = names.evaluate_all("all => all.map((cell) => cell.getBoundingClientRect().left)")
    page.evaluate("document.querySelector('.results .scroll').scrollLeft = 200")
    assert page.evaluate("document.querySelector('.results .scroll').scrollLeft") == 200
    assert names.evaluate_all("all => all.map((cell) => cell.getBoundingClientRect().left)") == before
