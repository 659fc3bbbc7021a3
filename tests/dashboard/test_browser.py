"""The page in a real browser, over a real run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie import Run
from coterie.core.support.toml import dumps
from coterie.dashboard.export import MOST_BYTES, report
from coterie.runs import RunFolder
from tests.dashboard.conftest import SMALL, Open, serving
from tests.runs.hurt_fixture import gained, sampled
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, METRICS, WORLDS, metrics

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<img src=x onerror=alert(1)>"
PICTURE = "document.querySelectorAll('canvas')[{}].toDataURL()"


def text(page: Page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def settled(page: Page) -> None:
    page.wait_for_selector(".client .card")


PLACES = {
    "#/": "Runs",
    "#/run/small/overview": "Personal accuracy",
    "#/run/small/graph": "Its neighbours",
    "#/run/small/clients": "learning alone",
    "#/run/small/clients?as=tiles": "learning alone",
    "#/compare/small,small": "2 runs compared",
}


@pytest.mark.parametrize(
    "look",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark", "viewport": {"width": 390, "height": 800}},
    ],
    ids=["light", "dark phone"],
)
def test_every_view_loads_and_fits(window: Open, address: str, look: Any) -> None:
    page = window(address, **look)
    for place, shows in PLACES.items():
        page.goto(address + place)
        page.wait_for_selector(f"main:not([aria-busy]) :text('{shows}')")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} sticks out"
    assert page.evaluate("document.documentElement.dataset.theme") == look["color_scheme"]


def test_the_list_shows_state_and_accuracy_and_leads_to_the_run(
    window: Open, address: str, small: Run
) -> None:
    page = window(address)
    row = page.locator(".runs-table tbody tr")
    mean = small.summary()["methods"]["KD-PDFL"]["personal"]["mean"]
    assert f"KD-PDFL {100 * mean:.1f} %" in row.inner_text().replace("\n", " ")
    assert "done" in row.inner_text()
    page.get_by_role("link", name="small").click()
    page.wait_for_selector(".results")


def test_the_result_table_is_that_of_coterie_show_and_sorts(window: Open, address: str, small: Run) -> None:
    page = window(f"{address}#/run/small/overview")
    page.wait_for_selector(".results tbody tr")
    methods = small.summary()["methods"]
    first = "td:first-child"
    assert [t.strip() for t in page.locator(f".results {first}").all_inner_texts()] == list(methods)
    assert f"{100 * methods['KD-PDFL']['personal']['mean']:.1f} ±" in text(
        page, ".results tbody tr:nth-child(3)"
    )
    page.get_by_role("button", name="personal %").click()
    by_mean = sorted(methods, key=lambda m: -methods[m]["personal"]["mean"])
    assert [t.strip() for t in page.locator(f".results {first}").all_inner_texts()] == by_mean
    page.locator("#parameters summary").click()
    page.wait_for_selector("#parameters dt:text-is('train.iterations')")


def test_the_slider_changes_the_picture_and_replay_runs_to_the_end(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/graph")
    settled(page)
    slider = page.locator("input[type=range]")
    last = text(page, ".facts b")
    heat, links = (page.evaluate(PICTURE.format(k)) for k in (0, 1))
    slider.fill("0")
    page.wait_for_function("t => document.querySelector('.facts b').innerText !== t", arg=last)
    assert page.evaluate(PICTURE.format(0)) != heat
    assert page.evaluate(PICTURE.format(1)) != links
    page.wait_for_selector(".client :text('by iteration 5:')")
    page.get_by_role("button", name="Replay").click()
    page.wait_for_function("t => document.querySelector('.facts b').innerText === t", arg=last)
    assert page.evaluate(PICTURE.format(0)) == heat


def test_what_takes_long_to_read_is_drawn_in_part_and_read_on(
    window: Open, root: Path, small: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.dashboard.incremental._AT_ONCE", 5)
    for name in ("tracks", "history"):
        monkeypatch.setattr(f"coterie.dashboard.open_run.OpenRun.{name}.__defaults__", (0.0,))
    with serving(root) as served:
        page = window(f"{served.address}#/run/small/graph?method=KD-PDFL&seed=0")
        page.wait_for_selector(".reading:has-text('so far')", state="attached")  # it may be over by now
        world = next(w.world for w in small.tracks if (w.name, w.seed) == ("KD-PDFL", 0))
        last = f"iteration {small.weighed[world][-1].t}"
        page.wait_for_function("t => document.querySelector('.facts b').innerText === t", arg=last)
        page.wait_for_selector(".reading", state="hidden")
        page.close()


def test_a_click_explains_the_client_with_the_numbers_of_the_run_folder(
    window: Open, address: str, small: Run
) -> None:
    page = window(f"{address}#/run/small/graph?method=KD-PDFL&seed=1")
    settled(page)
    page.get_by_label("ordered by").select_option("number")
    box = page.locator("canvas").first.bounding_box()
    assert box is not None
    client = 5
    edge = float(page.locator("canvas").first.get_attribute("data-edge") or 0)
    page.mouse.click(box["x"] + 60, box["y"] + edge + (box["height"] - edge) * (client + 0.5) / 8)
    page.wait_for_selector(f"h2:text-is('Client {client}')")
    people = small.per_client().query("method == 'KD-PDFL' and seed == 1").set_index("client")
    tags = text(page, ".headline")
    assert f"personal accuracy {100 * people.personal[client]:.1f} %" in tags
    assert f"{people.train[client]} training samples" in tags
    assert f"group {people.group[client]}" in tags
    labels = small.clients[1]["labels"][client]
    counts = "rows => rows.map((row) => Number(row.firstChild.textContent))"
    assert page.locator(".bar .figure").evaluate_all(counts) == labels
    weights = small.graph("KD-PDFL", 1)[client]
    shown = {}
    for row in page.locator(".client tbody tr").all():
        cells = row.locator("td").all_inner_texts()
        shown[int(cells[0].split()[-1])] = float(cells[2])
    assert shown
    assert shown == {j: pytest.approx(weights[j], rel=0.006) for j in shown}
    assert f"client={client}" in page.url
    page.keyboard.press("j")
    page.wait_for_selector(f"h2:text-is('Client {client + 1}')")
    page.locator(".client tbody button").first.click()
    page.wait_for_function("n => document.querySelector('.headline h2').innerText !== `Client ${n}`", arg=6)


def test_the_clients_come_worst_first_and_say_who_is_hurt(window: Open, address: str, small: Run) -> None:
    page = window(f"{address}#/run/small/clients?method=FedAvg&seed=0")
    page.wait_for_selector(".viewport [data-client]")
    people = small.per_client().query("method == 'FedAvg' and seed == 0").set_index("client")
    order = sorted(people.index, key=lambda c: (people.personal[c], c))
    shown = [int(n.get_attribute("data-client") or -1) for n in page.locator(".viewport [data-client]").all()]
    assert shown == order
    hurt = int((people.vs_local < 0).sum())
    assert f"{hurt} of 8 clients" in text(page, ".lead")
    page.get_by_label("only those hurt").check()
    assert page.locator(".viewport [data-client]").count() == hurt
    page.get_by_label("only those hurt").uncheck()
    page.locator(".viewport a").first.click()
    page.wait_for_selector(".client :text('does not weigh its neighbours')")
    page.get_by_label("method").select_option("KD-PDFL")
    page.wait_for_selector(f".client :text('Client {order[0]}') >> visible=true")
    page.wait_for_selector("canvas")


def test_the_clients_that_are_surely_hurt_are_marked(window: Open, tmp_path: Path) -> None:
    sampled(tmp_path / "dealt", [(5, 0), (4, 0), (0, 5)])
    gained(tmp_path / "owned", [-0.1, 0.1], [-0.1, 0.2])
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/run/dealt/clients")
        page.wait_for_selector(".viewport [data-client]")
        alone = "than the same client learning alone"
        assert text(page, ".lead").endswith(f"{alone}, 1 surely (▼), with 95 % confidence.")
        page.get_by_label("only those hurt").check()
        assert page.locator(".viewport [data-client]").count() == 2
        page.get_by_label("only those surely hurt").check()
        (row,) = page.locator(".viewport [data-client]").all()
        assert row.locator(".who").inner_text() == "client 0 ▼"
        assert "surely=on" in page.url
        page = window(f"{served.address}#/run/owned/clients")
        page.wait_for_selector(".viewport [data-client]")
        assert text(page, ".lead").endswith("1 surely (▼), with 95 % confidence over all seeds.")


def test_the_keyboard_reaches_everything(window: Open, address: str) -> None:
    page = window(f"{address}#/run/small/overview")
    page.wait_for_selector(".results")
    page.keyboard.press("2")
    settled(page)
    page.locator("canvas").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("h2:text-matches('Client [1-7]')")
    page.keyboard.press("3")
    page.wait_for_selector(".viewport")
    assert page.evaluate("document.querySelector('.viewport').tabIndex") == 0


def test_a_run_shows_up_and_grows_before_your_eyes(window: Open, tmp_path: Path) -> None:
    with serving(tmp_path / "runs") as served:
        page = window(served.address)
        page.wait_for_selector(":text('coterie run quickstart')")
        with RunFolder.create(tmp_path / "runs" / "live", EXPERIMENT) as folder:
            folder.describe(WORLDS, CLIENTS)
            folder.status("running", 0, 10, 0.0)
            page.get_by_role("link", name="live").click()
            page.wait_for_selector(":text('They appear after the first evaluation.')")
            folder.metrics(metrics(1, 0, [0.25] * 4))
            folder.status("running", 4, 10, 2.0)
            page.wait_for_selector(".results td:text-is('25.0')")
            page.wait_for_selector(":text('4 of 10 iterations, about 3 s left')")
            for row in METRICS:
                folder.metrics(row)
            folder.status("done", 10, 10, 5.0)
            page.wait_for_selector(".pill:text-is('done')")
            page.wait_for_selector(".results td:has-text('Local')")


def test_a_stopped_server_is_told_and_the_page_goes_on_when_it_is_back(window: Open, root: Path) -> None:
    with serving(root) as served:
        port = served.listening.getsockname()[1]
        page = window(f"{served.address}#/run/small/overview", complaints=("ERR_", "Failed to load"))
        page.wait_for_selector(".results")
    page.wait_for_selector("#banner :text('does not answer')")
    page.evaluate("location.hash = '#/run/small/clients'")
    page.wait_for_selector("main :text('The dashboard does not answer')")
    with serving(root, port):
        page.wait_for_selector("#banner:empty", state="attached")
        page.wait_for_selector(".viewport [data-client]")
        page.close()


def test_a_truncated_run_gives_a_message_and_not_a_blank_page(
    window: Open, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "small", tmp_path / "cut")
    with serving(tmp_path) as served:
        page = window(f"{served.address}#/run/cut/graph", complaints=("Failed to load",))
        settled(page)
        rows = tmp_path / "cut" / "exchanges.jsonl"
        rows.write_bytes(b"\0" * 100 + b"\n" + rows.read_bytes()[:2000])
        page.wait_for_selector("main .problem:has-text('exchanges.jsonl is damaged in line 1')")
        (tmp_path / "cut" / "worlds.json").write_text("[")
        page.goto(f"{served.address}#/run/cut/overview")
        page.wait_for_selector("main .problem:has-text('worlds.json is damaged')")
        shutil.rmtree(tmp_path / "cut")
        page.wait_for_selector("main .problem:has-text('moved or deleted')")


def wicked(folder: Path) -> Path:
    """A run whose name, methods and classes are markup."""
    path = folder / EVIL
    worlds = [{**w, "name": f"{EVIL}{w['label']}"} for w in WORLDS]
    with RunFolder.create(path, EXPERIMENT) as made:
        made.describe(
            worlds, [{**c, "classes": [EVIL, "</script><script>alert(2)</script>"]} for c in CLIENTS]
        )
        for row in METRICS:
            made.metrics(row)
        made.exchange(
            {"world": 1, "t": 2, "kind": "wake", "client": 0, "neighbours": [1, 2], "weight": [1, 0.5]}
        )
        made.status("done", 10, 10, 1.0)
    values = json.loads((path / "environment.json").read_text())
    (path / "environment.json").write_text(json.dumps(values | {"device": EVIL}))
    (path / "experiment.toml").write_text(dumps(EXPERIMENT.plain() | {"name": EVIL}))
    return path


def test_names_are_never_markup(window: Open, tmp_path: Path) -> None:
    wicked(tmp_path)
    with serving(tmp_path) as served:
        page = window(served.address)
        page.get_by_role("link", name=EVIL).click()
        for view, shows in {"Overview": ".results", "Graph": ".client", "Clients": ".viewport"}.items():
            page.get_by_role("link", name=view).click()
            page.wait_for_selector(shows)
            assert EVIL in page.locator("main").inner_text()
            assert page.locator("img[src=x]").count() == 0
        page.close()


def test_a_report_is_one_file_that_works_offline(window: Open, root: Path, tmp_path: Path) -> None:
    wicked(tmp_path)
    file = tmp_path / "report.html"
    file.write_bytes(report([root / "small", tmp_path / EVIL]))
    assert file.stat().st_size < MOST_BYTES
    assert not re.search(r'(src|href)="(?!#)', file.read_text("utf-8")), "it needs nothing from elsewhere"
    page = window(file.as_uri(), offline=True)
    page.wait_for_selector("#clients-1 .viewport [data-client]")
    assert page.locator("h1").all_inner_texts() == [str(root / "small"), str(tmp_path / EVIL)]
    assert page.locator(".problem").count() == 0
    assert page.locator("img[src=x]").count() == 0
    heat = page.evaluate(PICTURE.format(0))
    page.locator("#graph-0 input[type=range]").fill("0")
    page.wait_for_selector("#graph-0 .facts b:text-is('iteration 5')")
    assert page.evaluate(PICTURE.format(0)) != heat
    page.locator("#graph-0").get_by_label("seed").select_option(str(SMALL.seeds[1]))
    page.wait_for_selector("#graph-0 .facts b:text-matches('iteration 5[0-9]')")
