"""Who is answered, with what, and that nothing but reading is possible."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import httpx
import pytest

from coterie.dashboard.app import STATIC, application
from coterie.dashboard.sources import RunIndex

TOKEN = "a-token-of-some-length"


class Visitor:
    """Asks one application, and keeps its cookies."""

    def __init__(self, root: Path, token: str | None = None, host: str = "127.0.0.1:8765") -> None:
        self.app, self.host = application(RunIndex(root), token), f"http://{host}"
        self.cookies = httpx.Cookies()

    def request(self, method: str, path: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url=self.host, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path)
                self.cookies = client.cookies
                return answer

        return asyncio.run(ask())

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)


@pytest.mark.parametrize(
    "path", ["/", "/static/main.js", "/api/runs", "/api/runs/small/overview", "/nothing"]
)
def test_every_answer_has_the_strict_policy(root: Path, path: str) -> None:
    answer = Visitor(root).get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text()
    assert "<script>" not in page
    assert "style=" not in page
    assert page.count("<script") == 1
    for script in STATIC.glob("*.js"):
        code = script.read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "document.write",
            "http://",
            "https://",
        ):
            assert word not in code.replace("http://www.w3.org/2000/svg", ""), (script.name, word)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs/small/overview"])
def test_it_only_reads(root: Path, method: str, path: str) -> None:
    answer = Visitor(root).request(method, path)
    assert answer.status_code == 405
    assert answer.json() == {"error": "this page only reads"}


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:1", "[::1]:8765"])
def test_loopback_names_are_answered(root: Path, host: str) -> None:
    assert Visitor(root, host=host).get("/api/runs").status_code == 200


def test_another_site_cannot_point_its_name_here(root: Path) -> None:
    answer = Visitor(root, host="evil.example:8765").get("/api/runs")
    assert answer.status_code == 403
    assert "'evil.example'" in answer.json()["error"]


def test_a_token_is_asked_for_once_and_then_a_cookie_stands_for_it(root: Path) -> None:
    browser = Visitor(root, TOKEN, host="10.0.0.7:8765")
    assert browser.get("/api/runs").status_code == 401
    assert browser.get("/?token=wrong").status_code == 401
    first = browser.get(f"/?token={TOKEN}")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert browser.get("/api/runs").status_code == 200
    assert Visitor(root, TOKEN).get("/static/main.js").status_code == 401, "nothing at all without it"


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/../secret/status",
        "/api/runs/%2e%2e%2fsecret/status",
        "/api/runs/..%2Fsecret/status",
        "/api/runs/small%2F..%2F..%2Fsecret/status",
        "/api/runs/link/status",
        "/api/runs/%2Fetc/status",
        "/static/..%2Fapp.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_no_path_leaves_the_runs_folder(root: Path, tmp_path: Path, path: str) -> None:
    shutil.copytree(root / "small", tmp_path / "secret")
    (tmp_path / "runs").mkdir()
    shutil.copytree(root / "small", tmp_path / "runs" / "small")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "secret")
    page = Visitor(tmp_path / "runs")
    assert page.get(path).status_code in (404, 409)
    assert [run["id"] for run in page.get("/api/runs").json()["runs"]] == ["small"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/api/runs/gone/status", "there is no run 'gone'"),
        ("/api/runs/small/nonsense", "unknown view 'nonsense'; known: client, clients, curves"),
        ("/api/runs/small/frame?method=X&seed=0", "no evaluation of 'X' with seed '0'"),
        ("/api/runs/small/frame?method=KD-PDFL&seed=0&t=x", "t must be a number of at least 0, got 'x'"),
        ("/api/runs/small/frame?method=KD-PDFL&seed=0&t=nan", "got 'nan'"),
        ("/api/runs/small/client?method=KD-PDFL&seed=0&client=1e999", "got '1e999'"),
        ("/api/runs/small/client?method=KD-PDFL&seed=0&client=-1", "no client -1; there are 0 to 7"),
        ("/api/runs/small/client?method=KD-PDFL&seed=0&client=99", "no client 99; there are 0 to 7"),
    ],
)
def test_a_mistake_is_one_sentence(root: Path, path: str, sentence: str) -> None:
    answer = Visitor(root).get(path)
    assert answer.status_code == 409
    assert sentence in answer.json()["error"]
