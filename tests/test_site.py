"""The site builds without a warning, loads nothing from elsewhere, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import coterie
from coterie.core.support.error_texts import error_texts
from coterie.experiment import Experiment
from coterie.peer.config import PeerConfig
from tests.sharing import made_once

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
LOADING = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
"""Elements that make a browser fetch something, and where they say what."""


class Page(HTMLParser):
    """One page: what it loads, what it links to, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag in LOADING and LOADING[tag] in given:
            self.loads.append(given[LOADING[tag]])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning of the build is an error."""
    return made_once(tmp_path_factory, "site", built) / "site"


def built(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, SITE / "make_site.py", folder / "site"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def elsewhere(links: list[str]) -> list[str]:
    return [link for link in links if re.match(r"(https?:)?//", link)]


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert {str(file): elsewhere(page.loads) for file, page in pages.items() if elsewhere(page.loads)} == {}
    styles = {file: file.read_text("utf-8") for file in site.rglob("*.css")}
    assert styles
    fetched = {
        str(f): re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]*", s) for f, s in styles.items()
    }
    assert {file: found for file, found in fetched.items() if found} == {}


def lost_links(pages: dict[Path, Page]) -> Iterator[str]:
    for file, page in pages.items():
        for link in page.links:
            path, anchor = urldefrag(link)
            if re.match(r"\w+:|//", path):
                continue
            there = (file.parent / unquote(path)).resolve() if path else file
            known = pages[there].anchors if there in pages else set()
            if not there.exists() or (anchor and there in pages and unquote(anchor) not in known):
                yield f"{file.name}: {link}"


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert list(lost_links({file.resolve(): page for file, page in pages.items()})) == []


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    first = pages[site / "index.html"]
    there = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert {f"docs/{name}.html" for name in there} <= {urldefrag(link)[0] for link in first.links}
    for group in tomllib.loads((SITE / "navigation.toml").read_text("utf-8"))["group"]:
        assert group["title"] in (site / "index.html").read_text("utf-8")


@pytest.mark.parametrize(("page", "settings"), [("experiment", Experiment), ("peer", PeerConfig)])
def test_the_reference_has_every_key(
    site: Path, page: str, settings: type[Experiment] | type[PeerConfig]
) -> None:
    text = (site / "reference" / f"{page}.html").read_text("utf-8")
    for key, field in settings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {})
        assert f">{key}<" in text or f">[{key}]<" in text, key
        for name in inner if key in ("data", "train", "exchange", "evaluate") else ():
            assert f">{key}.{name}<" in text, f"{key}.{name}"


def test_the_reference_has_every_public_name(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text("utf-8")
    for name in coterie.__all__:
        assert re.search(rf'id="coterie\.[\w.]*\b{name}"', text), name


def test_the_page_of_errors_has_classes_and_sentences(site: Path) -> None:
    text = (site / "reference" / "errors.html").read_text("utf-8")
    parts = {part.partition('"')[0]: part for part in text.split('<section id="')}
    assert [name for name in error_texts() if "Remedy." not in parts.get(name.lower(), "")] == []
    assert "is not valid TOML" in text
    assert "must be in order, got" in text
    assert "duplicate-id" in text
