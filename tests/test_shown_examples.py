"""The files in examples/ run as they stand, pages show them as they are, notebooks run, too."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LONGER = {"adapters.py", "adapters.toml"}
"""Examples of a minute, of which no page shows all: tests/test_examples.py runs them with less."""
PARTS = {"mine.py"}
"""Parts that another example names; tests/test_examples.py runs them."""
ELSEWHERE = EXAMPLES / "elsewhere.py"
SCRIPTS = sorted(file for file in EXAMPLES.glob("*.py") if file.name not in LONGER | PARTS)
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWN = re.compile(r"<!-- (examples/[\w.]+), as it stands -->\s*```\w+\n(.*?)```", re.DOTALL)
"""A file and the block of code that shows it."""


@pytest.fixture
def folder(plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all examples, in which they are run."""
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for script in SCRIPTS:
        monkeypatch.delitem(sys.modules, script.stem, raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


@pytest.mark.parametrize("script", sorted({*SCRIPTS} - {ELSEWHERE}), ids=lambda file: file.stem)
def test_an_example_runs_as_it_stands(folder: Path, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(folder / script.name), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert list(folder.glob("runs/*/summary.json"))


def test_who_began_elsewhere_learns_from_the_others_by_distilling(folder: Path) -> None:
    mean = runpy.run_path(str(folder / ELSEWHERE.name), run_name="__main__")["table"]["personal_mean"]
    distilling = mean["300 iterations", "distilling"]
    assert distilling > mean.xs("Local", level="method").max() + 0.05  # with as many steps, too
    assert distilling > mean["300 iterations", "averaging"] + 0.05


def test_the_sweep_runs_as_it_stands(folder: Path) -> None:
    from coterie.cli import app

    few = ["--set", "train.iterations=20", "--set", "seeds=1"]
    result = CliRunner().invoke(app, ["sweep", "sweep.toml", *few])
    assert result.exit_code == 0, result.output
    assert (folder / "sweeps" / "sizes" / "table.csv").exists()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom(folder: Path, notebook: Path) -> None:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)
    (folder / "notebook.py").write_text("\n\n".join(code), "utf-8")
    runpy.run_path(str(folder / "notebook.py"), run_name="__main__")
    assert list(folder.glob("runs/*/summary.json"))


def shown() -> dict[str, str]:
    """What pages show, by file."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    return dict(found for page in pages for found in SHOWN.findall(page.read_text("utf-8")))


def test_pages_show_the_examples_as_they_are() -> None:
    for file, code in shown().items():
        assert (ROOT / file).read_text("utf-8") == code, f"a page shows another {file}"
    files = {f"examples/{file.name}" for suffix in ("py", "toml") for file in EXAMPLES.glob(f"*.{suffix}")}
    assert shown().keys() == files - {f"examples/{name}" for name in LONGER}


def test_the_list_of_examples_is_complete() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text("utf-8")))
    assert listed == {file.name for file in EXAMPLES.iterdir() if file.is_file()} - {"README.md"}
