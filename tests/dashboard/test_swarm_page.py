"""The live page in a real browser, over real peers that are stopped and killed meanwhile."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.image import imread

from coterie.dashboard.live import SwarmSource
from coterie.dashboard.sources import SWARM_PAGE, RunIndex
from coterie.peer.observability import status_client
from coterie.peer.persistence import journal
from tests.dashboard.conftest import Open, serving
from tests.dashboard.impostor import EVIL, impostor, page, said
from tests.swarm.running_swarm import running_swarm

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from coterie.swarm.process import PeerProcess


def test_a_swarm_before_your_eyes(window: Open, tmp_path: Path) -> None:
    states = [tmp_path / f"p{i}" / "state" for i in range(4)]
    quiet = ("Failed to load",)  # the browser's word on each answer that is a sentence
    with (
        closing(SwarmSource(states)) as swarm,
        serving(RunIndex(tmp_path, swarm)) as served,
    ):
        live = window(served.address + SWARM_PAGE, complaints=quiet)
        live.set_default_timeout(40_000)  # these processes may share a core with others
        live.wait_for_selector(
            "main .problem:has-text('none of the 4 peers answers: it has not been started')"
        )
        with running_swarm(tmp_path, "KD-PDFL", rate=6) as peers:
            _all_are_alive(live, peers)
            _a_mix_is_that_of_the_journal(live, tmp_path)
            _a_peer_is_chosen_and_the_focus_stays(live)
            address = status_client.status_address(str(states[0]))
            with closing(SwarmSource([address])) as one, serving(RunIndex(tmp_path, one)) as other:
                through = window(other.address + SWARM_PAGE)
                through.wait_for_selector(".headline :text('seen through 1 peer')")
                through.wait_for_selector(".swarm-event:has-text('p0')")
                _one_stands_still_and_is_killed(live, peers[3])
                through.wait_for_selector("tr:has(button:text-is('p3')) .pill.suspect")
                through.close()
            _all_others_leave(live, peers)
        live.close()


def _all_are_alive(live: Page, peers: Sequence[PeerProcess]) -> None:
    live.wait_for_selector(".headline .pill:text-is('4 alive')")
    row = live.locator(".swarm tbody tr:has(button:text-is('p2'))")
    told = peers[2].status()
    assert told is not None
    assert told["address"] in row.inner_text()


def _a_mix_is_that_of_the_journal(live: Page, folder: Path) -> None:
    live.wait_for_selector(".swarm-event:not(:has-text('before')):has-text('mixed')")
    shown = live.locator(".swarm-event:has-text('mixed')").first.inner_text().splitlines()
    who, whom, t = shown[1], re.findall(r"(p\d) \((\S+)\)", shown[-1]), shown[-1].split()[-1]
    (mixed,) = [
        row
        for row in journal.read(folder / who / "state" / "journal.jsonl")
        if row["kind"] in ("mix", "wake") and str(row["t"]) == t
    ]
    assert [peer for peer, _ in whom] == [peer for peer, *_ in mixed["heard"]]
    assert [float(w) for _, w in whom] == pytest.approx(mixed["info"]["weight"], rel=0.006)


def _a_peer_is_chosen_and_the_focus_stays(live: Page) -> None:
    live.get_by_role("button", name="p1").first.click()
    live.wait_for_function("() => document.querySelector('.swarm select').value === 'p1'")
    live.locator(".swarm canvas").wait_for()
    live.get_by_role("button", name="accuracy").focus()
    seen = live.locator(".swarm-event").first.inner_text()
    live.wait_for_function("t => document.querySelector('.swarm-event').innerText !== t", arg=seen)
    assert live.evaluate("document.activeElement.innerText") == "accuracy", "the keyboard keeps its place"


def _one_stands_still_and_is_killed(live: Page, peer: PeerProcess) -> None:
    peer.signal(signal.SIGSTOP)
    live.wait_for_selector(".problem:has-text('p3: no answer for')")
    peer.signal(signal.SIGKILL)
    live.wait_for_selector(".problem:has-text('1 peer of 4 without an answer')")
    live.wait_for_selector(".headline .pill:text-is('1 suspect')")


def _all_others_leave(live: Page, peers: Sequence[PeerProcess]) -> None:
    peers[2].signal(signal.SIGTERM)
    live.wait_for_selector("tr:has(button:text-is('p2')) .pill.left")
    live.wait_for_selector(".swarm-event:has-text('said goodbye')")
    for peer in peers[:2]:
        peer.signal(signal.SIGTERM)
    live.wait_for_selector(".problem:has-text('No peer answers')")
    assert "p3" in live.locator(".problem").inner_text()
    assert live.locator(".swarm tbody tr:has(button)").count() == 4, "what was known stays"
    assert live.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_names_and_texts_of_peers_are_never_markup(window: Open, tmp_path: Path) -> None:
    row = {"kind": "refused", "peer": EVIL, "reason": EVIL, "text": f"said {EVIL}", "times": 1}
    (tmp_path / "journal.jsonl").write_text(json.dumps(row) + "\n")
    with impostor(lambda n: page(said(n))) as address:
        (tmp_path / "status.address").write_text(address)
        for where in (tmp_path, address):
            with (
                closing(SwarmSource([where])) as swarm,
                serving(RunIndex(tmp_path / "runs", swarm)) as served,
            ):
                live = window(served.address)
                live.get_by_role("link", name="live swarm").click()
                live.wait_for_selector(f".problem:has-text('A peer reports a fault'):has-text('{EVIL}')")
                live.wait_for_selector(f".swarm-event:has-text('{EVIL}')")
                assert f"{EVIL} 50.0 % personal accuracy" in live.locator(".headline").inner_text()
                shown = live.locator(".swarm").inner_text()
                assert shown.count(EVIL) > 5
                assert (f"said {EVIL}" in shown) == (where is tmp_path)
                assert live.locator("img[src=x]").count() == 0
                live.close()


def test_figures_and_tables_can_be_taken_along(window: Open, tmp_path: Path) -> None:
    rows = [
        {
            "kind": "mix",
            "t": 7,
            "heard": [["p1", 1, 3, "", {}], ["=p2", 1, 4, "", {}]],
            "info": {"weight": [0.25, 0.5]},
        },
        {"kind": "refused", "peer": EVIL, "reason": "stale", "text": f"said, {EVIL}", "times": 1},
    ]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with impostor(lambda n: page(said(min(n, 3), peer="=p0"))) as address:
        (tmp_path / "status.address").write_text(address)
        with closing(SwarmSource([tmp_path])) as swarm, serving(RunIndex(tmp_path / "runs", swarm)) as served:
            live = window(served.address + SWARM_PAGE)

            def taken(title: str, kind: str = "CSV") -> Path:
                card = live.locator(f".swarm figure:has(h3:text-is('{title}'))")
                with live.expect_download() as download:
                    card.get_by_role("button", name=kind).click()
                download.value.save_as(tmp_path / download.value.suggested_filename)
                return tmp_path / download.value.suggested_filename

            def table(title: str) -> list[list[str]]:
                return list(csv.reader(taken(title).read_text("utf-8").splitlines()))

            live.wait_for_selector(".swarm-event:has-text('mixed')")
            live.wait_for_selector(".swarm canvas")
            head, *members = table("Members")
            assert head == ["peer", "state", "iteration", "accuracy", "exchanges", "last heard", "address"]
            assert [row[:2] for row in members] == [["'=p0", "alive"], ["p1", "suspect"]]
            assert members[0][3] == "0.5"
            assert table("Who listens to whom") == [
                ["listens", "to =p0", "to p1"],
                ["'=p0", "", "0.25"],
                ["p1", "", ""],
            ]
            picture = taken("Who listens to whom", "PNG")
            assert picture.name == "Who_listens_to_whom.png"
            assert imread(picture).shape[0] > 300
            head, *exchanges = table("Exchanges as they happen")
            assert head == [
                "seconds ago",
                "peer",
                "kind",
                "iteration",
                "other peer",
                "weight",
                "reason",
                "text",
            ]
            mixed = [row[1:6] for row in exchanges if row[2] == "mix"]
            assert mixed == [["'=p0", "mix", "7", "p1", "0.25"], ["'=p0", "mix", "7", "'=p2", "0.5"]]
            assert [row[6:] for row in exchanges if row[2] == "refused"] == [["stale", f"said, {EVIL}"]]
            head, *seen = table("One peer and the others")
            assert head == ["member", "state", "weight", "heard", "pulled", "pushed", "missed", "refused"]
            assert [row[:3] for row in seen] == [["p1", "suspect", "0.25"]]
            head, refusal = table("Refused, by reason")
            assert head == ["reason", "times", "last", "with", "what was said"]
            assert (refusal[0], refusal[1]) == (EVIL, "3")
            live.close()


@pytest.mark.usefixtures("outside")
def test_views_are_as_many_as_the_page_asks_for() -> None:
    with impostor(lambda n: page(said(n))) as address, closing(SwarmSource([address])) as source:
        views = ("status", "members", "weights", "exchanges", "refusals", "peer")
        found = {view: source.answer(view, {}) for view in views}
        assert found["status"]["state"] == "running"
        assert found["weights"]["names"] == [EVIL, "p1"]
        assert found["refusals"][0]["count"] == 3
