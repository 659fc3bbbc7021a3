"""What README.md, CONTRIBUTING.md and docs/own-data-and-models.md show is run here as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from coterie import Algorithm, Run, run
from coterie.core.registry import find
from tests.conformance import CHECKS
from tests.engine.small import experiment

ROOT = Path(__file__).parent.parent


def example(file: str, comment: str, language: str = "python") -> str:
    """The block of that language after the comment."""
    text = (ROOT / file).read_text("utf-8")
    found = re.search(rf"<!-- {re.escape(comment)} -->\s*```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"{file} has no {language} block after the comment {comment!r}"
    return found.group(1)


@pytest.fixture
def best_friend(plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Algorithm]:
    text = example("CONTRIBUTING.md", "a test runs this example as it stands: save it as best_friend.py")
    (tmp_path / "best_friend.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "best_friend", raising=False)
    found: type[Algorithm] = find("algorithm", "best_friend:BestFriend")
    return found


def test_the_contributors_example_runs_from_the_users_folder(best_friend: type[Algorithm]) -> None:
    e = experiment(methods={"Local": {}, "BestFriend": {"name": "best_friend:BestFriend", "trust": 0.7}})
    found = run(e, "run", plots=False)
    assert isinstance(found, Run)
    methods = found.summary()["methods"]
    assert list(methods) == ["Local", "BestFriend"]
    assert methods["BestFriend"]["bytes_sent"] > 0
    assert methods["BestFriend"]["personal"] != methods["Local"]["personal"]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contributors_example_conforms(best_friend: type[Algorithm], check: str) -> None:
    CHECKS[check](best_friend())


def test_the_readme_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example("README.md", "a test runs this example as it stands"), "README.md", "exec"), {})
    assert "KD-PDFL" in capsys.readouterr().out
    assert list(tmp_path.glob("runs/*/summary.json"))


def test_the_example_of_own_data_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = "docs/own-data-and-models.md"
    module = example(guide, "a test runs this example as it stands: save it as mine.py")
    (tmp_path / "mine.py").write_text(module)
    (tmp_path / "mine.toml").write_text(example(guide, "and this one: save it as mine.toml", "toml"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    found = run(tmp_path / "mine.toml", tmp_path / "run", plots=False)
    sys.modules.pop("mine", None)
    personal = {name: method["personal"]["mean"] for name, method in found.summary()["methods"].items()}
    assert personal.keys() == {"Local", "KD-PDFL"}
    assert min(personal.values()) > 0.5  # where chance is a third
