"""The pages of the site, laid out as in the repository, with a first page and a navigation."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDERS = ("docs", "examples", "benchmarks", "deploy", "src")
"""Folders of pages, and of files that pages link to."""
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
"""The path of a link to something in the repository."""


class Group(NamedTuple):
    """One heading of the navigation and its pages, by path without suffix."""

    title: str
    pages: tuple[str, ...]


def groups(there: set[str]) -> list[Group]:
    """Read the navigation: pages that are there, and under Guides those of docs/ that no group names."""
    named = tomllib.loads((HERE / "navigation.toml").read_text("utf-8"))["group"]
    taken = {page for group in named for page in group["pages"]}
    lost = sorted(page for page in there - taken if re.fullmatch(r"docs/[\w-]+", page))
    return [
        Group(g["title"], (*(p for p in g["pages"] if p in there), *(lost if g["title"] == "Guides" else ())))
        for g in named
    ]


def first_page(readme: str, navigation: list[Group]) -> str:
    """Make the first page of README.md, and put the navigation below, which is shown beside every page."""
    return readme + "\n" + "\n".join(map(_toctree, navigation))


def _toctree(group: Group) -> str:
    pages = "\n".join(group.pages)
    return f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {group.title}\n\n{pages}\n```\n"


def linked(page: Path, text: str) -> str:
    """Put links to the site's pages in place of those to README.md and to folders that have a README.md."""

    def there(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[1]))
        if target == ROOT / "README.md":
            return os.path.relpath(ROOT / "index.md", page.parent)
        if target.is_dir():
            nearest = next(folder for folder in (target, *target.parents) if (folder / "README.md").exists())
            return os.path.relpath(nearest / "README.md", page.parent)
        return match[1]

    return LINK.sub(there, text)


def lay_out(folder: Path, made: dict[str, str]) -> None:
    """Write all pages, and those that are `made` from the code, by path without suffix, into a folder."""
    written = {folder / file: text.encode() for file, text in _pages(made)}
    written |= {folder / file: (ROOT / file).read_bytes() for file in _files()}
    for old in [file for file in folder.rglob("*") if file.is_file() and file not in written]:
        old.unlink()
    for file, content in written.items():
        if not file.exists() or file.read_bytes() != content:  # so that only what changed is built again
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def _pages(made: dict[str, str]) -> Iterator[tuple[str, str]]:
    found = [*ROOT.glob("*.md"), *(page for f in FOLDERS[:3] for page in (ROOT / f).rglob("*.md"))]
    pages = [page for page in found if page.parent.name != "images"]
    texts = {str(p.relative_to(ROOT)): linked(p, p.read_text("utf-8")) for p in pages}
    readme = texts.pop("README.md")
    decisions = sorted(Path(name).stem for name in texts if re.match(r"docs/decisions/\d", name))
    texts["docs/decisions/README.md"] += "\n" + _toctree(Group("Decisions", tuple(decisions)))
    texts |= {f"{name}.md": text for name, text in made.items()}
    yield "index.md", first_page(readme, groups({name.removesuffix(".md") for name in texts}))
    yield from texts.items()


def _files() -> Iterator[str]:
    """Name the files that pages show or link to."""
    ignored = shutil.ignore_patterns("*.md", "__pycache__", "*.pyc", "*.egg-info", "site")
    for name in (*FOLDERS, "LICENSE", "CITATION.cff", "constraints.txt", "pyproject.toml"):
        for parent, folders, files in os.walk(ROOT / name):
            folders[:] = sorted(set(folders) - ignored(parent, folders))
            for file in sorted(set(files) - ignored(parent, files)):
                yield str((Path(parent) / file).relative_to(ROOT))
        if (ROOT / name).is_file():
            yield name
