"""The report holds what the page will ask for, stays small, and its figures are what a paper takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coterie import Run
from coterie.core.errors import RunError
from coterie.dashboard import export
from coterie.dashboard.app import STATIC
from coterie.dashboard.export import bundle, report
from coterie.runs.plots.paper import FORMATS, images
from tests.runs.run_fixture import CLIENTS, EXPERIMENT, WORLDS


def answers(page: bytes) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.decode(), re.DOTALL)
    assert found
    data: list[dict[str, Any]] = json.loads(found[1])
    return data


def test_it_holds_every_method_seed_and_client(small: Run) -> None:
    (data,) = answers(report([small.path]))
    for seed in (0, 1):
        for client in range(8):
            answer = data["answers"][f'client[["client","{client}"],["method","KD-PDFL"],["seed","{seed}"]]']
            assert answer["client"] == client
    graph = data["answers"]["graph[]"]
    for t in graph["times"]:
        assert f'frame[["method","KD-PDFL"],["seed","0"],["t","{t}"]]' in data["answers"]


def test_with_little_room_the_worst_clients_stay(small: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(report([small.path]))
    monkeypatch.setattr(export, "_ROOM", 48_000)
    page = report([small.path])
    assert len(page) < whole
    (data,) = answers(page)
    kept = [json.loads(k.removeprefix("client")) for k in data["answers"] if k.startswith("client[")]
    assert 0 < len(kept) < 16
    assert '"overview[]"' in page.decode()


def test_a_run_that_has_just_begun_has_a_report(tmp_path: Path) -> None:
    from coterie.runs import RunFolder

    with RunFolder.create(tmp_path / "new", EXPERIMENT) as folder:
        folder.describe(WORLDS, CLIENTS)
        assert b"made up" in report([folder.path])
        with pytest.raises(RunError, match="nothing to draw yet"):
            images(Run(folder.path))


def test_too_much_for_one_file(small: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 1000)
    with pytest.raises(RunError, match="make one for fewer"):
        report([small.path])
    with pytest.raises(RunError, match="at least one run"):
        report([])


def test_a_bundle_keeps_names_apart_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(
        'import { two } from "./b.js";\nconst x = 1;\nexport const one = x + two();\n'
    )
    (tmp_path / "b.js").write_text("const x = 2;\nexport function two() { return x; }\n")
    text = bundle(tmp_path, "a")
    assert text.index("const $b") < text.index("const { two } = $b;") < text.index("return { one };")
    assert "import" not in text
    assert "export" not in text


@pytest.mark.parametrize(
    "line",
    [
        'import * as b from "./b.js";',
        'import b from "./b.js";',
        'import { two as deux } from "./b.js";',
        'import "./b.js";',
        'const b = await import("./b.js");',
        "export default 1;",
        "export { x };",
        "export const { x } = y;",
        'export { two } from "./b.js";',
        "export let x = 1;",
    ],
)
def test_a_form_that_a_bundle_does_not_know_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.js").write_text(f"const y = {{ x: 1 }};\n{line}\n")
    (tmp_path / "b.js").write_text("export const two = 2;\n")
    with pytest.raises(ValueError, match=r"a\.js has .*, which cannot be bundled; expected `import"):
        bundle(tmp_path, "a")


@pytest.mark.parametrize("entry", ["main", "report"])
def test_all_of_the_page_can_be_bundled(entry: str) -> None:
    text = bundle(STATIC, entry)
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)


def test_every_figure_in_every_format(small: Run) -> None:
    drawn = images(small)
    names = [
        "bytes",
        "cost",
        "curve-global",
        "curve-loss",
        "curve-personal",
        "gain",
        "graph-KD-PDFL",
        "labels",
    ]
    assert sorted(drawn) == sorted(f"{n}.{k}" for n in names for k in FORMATS)
    starts = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    for name, content in drawn.items():
        assert content.startswith(starts[name.rpartition(".")[2]])
    assert drawn == images(small)
