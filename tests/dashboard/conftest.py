"""A small real run on digits, the page over it, and a browser to look at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie import Experiment, Run, run
from coterie.dashboard.app import Served, prepare
from coterie.dashboard.sources import SourceIndex

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

SMALL = Experiment.parse(
    {
        "name": "small",
        "seeds": 2,
        "model": {"name": "mlp", "hidden": [8]},
        "methods": {"Local": {}, "FedAvg": {}, "KD-PDFL": {"adoption": "mix"}},
        "data": {
            "set": "digits",
            "clients": 8,
            "shift": [{"name": "concept", "groups": 2}],
            "sizes": [15, 40],
            "test": 20,
        },
        "train": {"iterations": 60, "lr": 0.1},
        "exchange": {"every": 5, "stars": 3},
        "evaluate": {"every": 10, "uniform": 20},
    }
)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `small`; look, do not touch."""
    folder = tmp_path_factory.mktemp("runs")
    run(SMALL, folder / "small", plots=False)
    return folder


@pytest.fixture
def small(root: Path) -> Run:
    return Run(root / "small")


@contextmanager
def serving(root: Path | SourceIndex, port: int = 0) -> Iterator[Served]:
    served = prepare(root, port=port)
    with served.meanwhile():
        yield served


@pytest.fixture(scope="session")
def address(root: Path) -> Iterator[str]:
    with serving(root) as served:
        yield served.address


def chromium() -> str | None:
    names = (os.environ.get("COTERIE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@pytest.fixture(scope="module")  # an event loop is open for as long as it lives
def browser(outside: None) -> Iterator[Browser]:
    if (path := chromium()) is None:
        pytest.skip(
            "no Chromium on this machine: install it (such as apt install chromium), "
            "or name one in COTERIE_CHROMIUM"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., "Page"]


@pytest.fixture
def window(browser: Browser) -> Iterator[Open]:
    """Opens pages; each must end without an error in its console, but for `complaints` that are expected."""
    said: list[str] = []
    pages = []

    def open_(url: str, complaints: tuple[str, ...] = (), **options: object) -> Page:
        page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
        page.set_default_timeout(15_000)
        pages.append(page)

        def heard(text: str) -> None:
            if not any(known in text for known in complaints):
                said.append(text)

        def asked(dialog: Dialog) -> None:
            said.append("a dialog")
            dialog.dismiss()

        page.on(
            "console", lambda message: heard(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: heard(str(error)))
        page.on("dialog", asked)
        page.goto(url)
        return page

    yield open_
    for page in pages:
        page.close()
    assert said == []
