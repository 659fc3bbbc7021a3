"""What the documentation says of the code is so: links, paths, names, the tree, the layers, the figures."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coterie.core.registry import listed
from coterie.peer.errors import Reason

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "coterie"
DOCS = ROOT / "docs"
FOLDERS = ("benchmarks", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / f / "README.md" for f in FOLDERS)])
PLANS = [DOCS / "architecture.md", DOCS / "glossary.md", *sorted((DOCS / "decisions").glob("*.md"))]
ARCHITECTURE = (DOCS / "architecture.md").read_text("utf-8")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page are linked to, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PLANS, ids=page_id)
def test_every_path_that_a_plan_names_is_there(page: Path) -> None:
    named = re.findall(r"`([\w./-]+)`", prose(page))
    paths = [name for name in named if name.endswith((".py", ".proto", "/")) and not name.startswith("/")]
    assert [p for p in paths if not any((root / p).exists() for root in (SOURCE, ROOT, DOCS))] == []


@pytest.mark.parametrize("page", PLANS, ids=page_id)
def test_every_class_that_a_plan_names_is_there(page: Path) -> None:
    words = {word for file in SOURCE.rglob("*.py") for word in re.findall(r"\w+", file.read_text("utf-8"))}
    named = re.findall(r"`([A-Z][a-z]\w+(?:\.\w+)*)[`(:]", prose(page))
    assert [name for name in named if not set(name.split(".")) <= words] == []


def block(title: str) -> list[str]:
    """The lines of the first block of code after a heading or sentence."""
    found = re.search(r"```\n(.*?)```", ARCHITECTURE.partition(title)[2], re.DOTALL)
    assert found
    return found.group(1).splitlines()


def entries(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.is_file() or any(entry.rglob("*.py"))}


def test_the_tree_of_the_plan_is_the_tree() -> None:
    first, *rows = block("## Rooms")
    assert first == "src/coterie/"
    drawn = [name for row in rows for name in re.findall(r"(?:^  |\s{3,})([\w.]+)/?(?=\s{2,})", row)]
    assert sorted(drawn) == sorted(entries(SOURCE))
    (kinds,) = [row.split(":")[0].split()[1:] for row in rows if row.startswith("  plugins/")]
    assert kinds == sorted(entries(SOURCE / "plugins") - {"__init__.py"})


def test_the_layers_of_the_plan_are_those_that_are_enforced() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    assert block("Imports go one way") == [layer.replace("coterie.", "") for layer in contract["layers"]]


def test_the_reasons_on_the_way_of_a_model_are_reasons() -> None:
    way = ARCHITECTURE.partition("## The life of a model")[2].partition("## ")[0]
    rows = re.findall(r"^\| \d+ \|.*\| ([a-z, ]*)\|$", way, re.MULTILINE)
    assert len(rows) == 12
    assert {word for row in rows for word in row.replace(",", " ").split()} <= set(Reason)


def test_the_plan_answers_what_a_stranger_asks() -> None:
    table = ARCHITECTURE.partition("## To change X")[2]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE))
    for what, file in {
        "an adoption rule, for all algorithms": "core/algorithm.py",
        "another random channel": "plugins/channels/",
        "a refusal reason": "peer/errors.py",
        "a column of the result table": "runs/summary.py",
    }.items():
        assert f"`{file}`" in rows[what]


GLOSSARY = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| (`[^|]+`) \|$", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE
)
NAMES = [(word, name) for word, names in GLOSSARY for name in re.findall(r"`([\w.]+)`", names)]


def looked_up(name: str) -> Any:
    """The thing of that dotted name below `coterie`, or None for a field that has no default."""
    parts = f"coterie.{name}".split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = None if part in getattr(found, "__annotations__", ()) else getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize(("word", "name"), NAMES, ids=str)
def test_every_code_name_of_the_glossary_exists(word: str, name: str) -> None:
    looked_up(name)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=page_id)
def test_every_full_name_exists(page: Path) -> None:
    for name in re.findall(r"`coterie\.([a-z_]+(?:\.\w+)+)`", prose(page)):
        looked_up(name)


def test_the_glossary_explains_the_words_of_the_trade() -> None:
    words = [word for word, _ in GLOSSARY]
    assert len(words) >= 30
    assert {"star", "world", "stack", "slot", "row", "probe", "closing phase", "twin"} <= set(words)


def test_the_tour_names_every_method() -> None:
    methods = set(listed("algorithm"))
    row = next(line for line in (DOCS / "tour.md").read_text("utf-8").splitlines() if "| methods |" in line)
    assert row.startswith(f"| methods | {len(methods)}: ")
    assert set(re.findall(r"`([^`]+)`", row)) == methods
    assert f"| methods in the box | {len(methods)}, " in (DOCS / "comparison.md").read_text("utf-8")


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "README.md").read_text("utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= listed
    assert {page.name for page in ROOT.glob("*.md")} <= {Path(link).name for link in listed}


def test_the_index_of_decisions_has_every_decision_by_its_title() -> None:
    folder = DOCS / "decisions"
    rows = [
        f"| [{title[:3]}]({page.name}) | {title[4:]} |"
        for page in sorted({*folder.glob("*.md")} - {folder / "README.md"})
        for title in [page.read_text("utf-8").partition("\n")[0].removeprefix("# ")]
    ]
    assert [row for row in (folder / "README.md").read_text("utf-8").splitlines() if row[:3] == "| ["] == rows


@pytest.mark.parametrize("name", ["draw", "kd_pdfl"])
def test_the_figures_are_as_they_are_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS / "figures")
    for file, draw in importlib.import_module(name).FIGURES.items():
        assert (DOCS / "figures" / file).read_text("utf-8") == draw(), f"run python docs/figures/{name}.py"
