"""What CONTRIBUTING.md and the pages for users show is run here as it stands."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from coterie import Algorithm, Experiment, run
from coterie.core.registry import KINDS, package_of, resolve
from coterie.storage.model_file import save
from tests.conformance import CHECKS
from tests.conftest import Install

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SKELETONS = {
    module: (code, use)
    for module, code, use in re.findall(
        r"<!-- a test runs this example as it stands: save it as (\w+)\.py -->\s*"
        r"```python\n(.*?)```\s*```toml\n(.*?)```",
        GUIDE,
        re.DOTALL,
    )
}
"""Each plugin of the guide by its module: the code, and the settings that use it."""
BASE = """
name = "guide"
seeds = [0]
model = { name = "mlp", hidden = [6] }
methods = { Local = {}, FedAvg = {}, KD-PDFL = { adoption = "mix" } }
data.clients = 8
data.sizes = [5, 15]
data.test = 10
data.set = { name = "synthetic", groups = 1, classes = 3, features = 4 }
train = { iterations = 24, batch = 4, lr = 0.2 }
exchange = { every = 4, channel = "ideal" }
evaluate = { every = 24, uniform = 9 }
"""
"""Settings into which those of the guide are put."""


def example(file: str, comment: str, language: str = "python") -> str:
    """The block of that language after the comment."""
    text = (ROOT / file).read_text("utf-8")
    found = re.search(rf"<!-- {re.escape(comment)} -->\s*```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"{file} has no {language} block after the comment {comment!r}"
    return found.group(1)


def together(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Put one table into another; what names a plugin is put in place of one."""
    found = dict(base)
    for key, value in more.items():
        table = isinstance(value, dict) and "name" not in value and isinstance(base.get(key), dict)
        found[key] = together(base[key], value) if table else value
    return found


def registered(code: str) -> tuple[str, str]:
    """The kind and the name under which a skeleton's plugin is registered."""
    ((kind, name),) = re.findall(r'^@register\("(\w+)", "([\w-]+)"\)', code, re.MULTILINE)
    return kind, name


@pytest.fixture
def guide(plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with all plugins of the guide, in which commands are given."""
    for module, (code, _) in SKELETONS.items():
        (tmp_path / f"{module}.py").write_text(code)
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in SKELETONS:
        sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a run comes to without a plugin of the guide."""
    folder = tmp_path_factory.mktemp("plain")
    return (
        run(Experiment.parse(tomllib.loads(BASE)), folder / "run", plots=False).path / "metrics.jsonl"
    ).read_bytes()


def test_the_guide_has_a_skeleton_for_every_kind_of_plugin() -> None:
    assert sorted(registered(code)[0] for code, _ in SKELETONS.values()) == sorted(KINDS)


@pytest.mark.parametrize("module", SKELETONS)
def test_a_skeleton_of_the_guide_is_registered_and_used(guide: Path, plain: bytes, module: str) -> None:
    code, use = SKELETONS[module]
    e = Experiment.parse(together(tomllib.loads(BASE), tomllib.loads(use)))
    found = run(e, "run", plots=False)
    assert (found.path / "metrics.jsonl").read_bytes() != plain
    kind, name = registered(code)
    assert resolve(kind, name).__module__ == module
    assert f'"{module}:' in use


def test_a_package_of_ones_own(guide: Path, install: Install) -> None:
    (named,) = re.findall(r'coterie\.plugins"\]\nrings = "(.*)"', GUIDE)
    assert named == "my_package.rings"
    install("rings_package", SKELETONS["rings"][0])
    e = Experiment.parse(together(tomllib.loads(BASE), {"data": {"set": "rings"}}))
    assert run(e, "run", plots=False).status["state"] == "done"
    assert package_of(resolve("dataset", "rings")) == "rings_package 1.2"


@pytest.fixture
def best_friend(guide: Path) -> type[Algorithm]:
    found: type[Algorithm] = resolve("algorithm", "best_friend:BestFriend")
    return found


def test_the_contributors_algorithm_sends_and_mixes(guide: Path) -> None:
    e = together(tomllib.loads(BASE), tomllib.loads(SKELETONS["best_friend"][1]))
    methods = run(Experiment.parse(e), "run", plots=False).summary()["methods"]
    assert list(methods) == ["Local", "FedAvg", "KD-PDFL", "BestFriend"]
    assert methods["BestFriend"]["bytes_sent"] > 0
    assert methods["BestFriend"]["personal"] != methods["Local"]["personal"]


@pytest.mark.parametrize("check", CHECKS)
def test_the_contributors_example_conforms(best_friend: type[Algorithm], check: str) -> None:
    CHECKS[check](best_friend())


def test_the_example_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example("docs/tour.md", "a test runs this example as it stands"), "tour.md", "exec"), {})
    assert "KD-PDFL" in capsys.readouterr().out
    assert list(tmp_path.glob("runs/*/summary.json"))


def test_adapters_alone_learn_and_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    example = importlib.import_module("adapters")
    found = example.main(tmp_path, steps=20, iterations=30)
    methods = found.summary()["methods"]
    sent = {name: method["bytes_sent"] for name, method in methods.items()}
    assert sent["Local"] == 0
    # In two blocks three adapters of 24 + 24, one of 24 + 48, one of 48 + 24, times rank 2; the head: 4 x 25.
    adapters, head = 2 * (3 * 2 * 48 + 2 * 2 * 72), 100
    assert sent["FedAvg, adapters"] * (adapters + head) == sent["FedAvg, all that learns"] * adapters
    model = found.model("KD-PDFL, adapters", seed=0, client=1)
    pretrained = load_file(tmp_path / "pretrained.safetensors")
    kept = model.net.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in pretrained.items())
    assert bool(kept["blocks.0.query.adapter_up.weight"].any())


def test_the_example_of_own_data_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = "docs/own-data-and-models.md"
    for file in ("mine.py", "mine.toml"):
        shutil.copy(ROOT / "examples" / file, tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    found = run(tmp_path / "mine.toml", tmp_path / "run", plots=False)
    model = found.model("KD-PDFL", seed=0, client=3)
    save(tmp_path / "client-3.safetensors", model.card, model.net.state_dict())
    sys.modules.pop("mine", None)
    alone = example(guide, "and this one, where there is no coterie")
    words = torch.arange(8).view(1, 8)
    printed = "print(model(torch.arange(8).view(1, 8)).tolist())"
    code = f"import sys, torch; sys.modules['coterie'] = None\n{alone}\n{printed}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert torch.allclose(torch.tensor(ast.literal_eval(done.stdout)), model(words).detach())
    personal = {name: method["personal"]["mean"] for name, method in found.summary()["methods"].items()}
    assert personal.keys() == {"Local", "KD-PDFL"}
    assert min(personal.values()) > 0.5  # where chance is a third


def test_the_snippets_of_the_page_on_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text("utf-8"), re.DOTALL)
    assert len(snippets) > 5
    names: dict[str, Any] = {"__name__": "__main__"}
    for snippet in snippets:
        exec(compile(snippet, "docs/python.md", "exec"), names)
    assert "done\n" in capsys.readouterr().out
    assert names["hospitals"].data.clients == 3
    assert names["gentle"].algorithm("tenth").tau == 0.1
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == {"mine", "mine-2", "tracked"}
    assert list(tmp_path.glob("runs/tracked/tensorboard/*/*/events*"))
    assert list(tmp_path.glob("pictures/curves.png"))


TASKS = re.findall(
    r"<!-- (?:a test runs this example as it stands: save it as |examples/)(\w+\.toml)",
    (ROOT / "docs/tasks.md").read_text("utf-8"),
)


@pytest.mark.parametrize("name", TASKS)
def test_the_examples_of_tasks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide, mark = "docs/tasks.md", "a test runs this example as it stands: save it as"
    (tmp_path / "films.py").write_text(example(guide, f"{mark} films.py"))
    file = ROOT / "examples" / name
    text = file.read_text("utf-8") if file.exists() else example(guide, f"{mark} {name}", "toml")
    (tmp_path / name).write_text(text)
    (tmp_path / "texts").mkdir()
    for person, text in {"anna": "when the sea is calm, ", "ben": "no boat, no wind; "}.items():
        (tmp_path / "texts" / f"{person}.txt").write_text(text * 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "films", raising=False)
    found = run(tmp_path / name, tmp_path / "run", data=tmp_path)
    sys.modules.pop("films", None)
    assert found.status["state"] == "done"
    metric = found.task.metric
    for track in found.tracks:
        first, last = track.means("personal")[[0, -1]]
        assert metric.gain(last, first) > 0, track.name
