"""Final models out of a run folder: they score as the run says, on raw inputs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie import Run, run
from coterie.core.errors import CoterieError, ModelError, RunError
from coterie.core.streams import Stream
from coterie.engine import final_models
from coterie.experiment import Experiment
from coterie.federation import Dealer
from tests.engine.small import experiment

METHODS: dict[str, Any] = {"Local": {}, "KD-PDFL": {}, "APFL": {}, "kNN-Per": {}}


def table(folder: Path, transform: str) -> Experiment:
    """Three clients with a CSV file of raw numbers that are far from 0."""
    draw = Stream(0, "raw")
    y = draw.integers(120, high=3)
    x = torch.stack([y * 40.0 + 900, 5 - y * 0.01], dim=1) + draw.normal(240).view(120, 2) * torch.tensor(
        [30, 0.01]
    )
    lines = [
        "hum,rattle,state",
        *(f"{a},{b},{'abc'[k]}" for (a, b), k in zip(x.tolist(), y.tolist(), strict=True)),
    ]
    (folder / "raw.csv").write_text("\n".join(lines) + "\n")
    return experiment(
        methods=METHODS,
        data__set={"name": "csv", "path": str(folder / "raw.csv"), "label": "state", "transform": transform},
        dtype="float32",
        seeds=[0, 4],
    )  # fmt: skip


@pytest.mark.parametrize("transform", ["standard", "signed_log1p", "none"])
def test_a_model_scores_on_raw_rows_as_the_run_says(tmp_path: Path, transform: str) -> None:
    e = table(tmp_path, transform)
    found = run(e, tmp_path / "run", plots=False)
    rows = [line.split(",") for line in (tmp_path / "raw.csv").read_text().splitlines()[1:]]
    raw = torch.tensor([[float(a), float(b)] for a, b, _ in rows], dtype=torch.float64)
    federation = Dealer(None).federation(e, 4)
    for method in ("Local", "KD-PDFL", "APFL"):
        for client in range(e.data.clients):
            model = found.model(method, seed=4, client=client)
            own = slice(*(int(federation.personal.count[:k].sum()) for k in (client, client + 1)))
            scores = model(raw[federation.personal.index[own]])
            hits = scores.argmax(dim=-1) == federation.personal.label[own]
            assert model.card.score == pytest.approx(float(hits.double().mean()))
            assert model.card.tested == len(hits)
            assert model.columns == ("hum", "rattle")
            assert (model.card.method, model.card.seed, model.card.client) == (method, 4, str(client))
    probabilities = model.probabilities(raw)
    assert probabilities.shape == (len(raw), 3)
    assert torch.allclose(probabilities.sum(dim=-1), torch.ones(len(raw)))


def test_worlds_of_several_stacks_have_models_of_their_own(tmp_path: Path) -> None:
    e = experiment(grid={"model": [{"name": "mlp", "hidden": [3]}, "linear"]}, methods={"Local": {}})
    found = run(e, tmp_path / "run", plots=False)
    assert len(list(found.path.glob("models-*.safetensors"))) == 2
    first, second = (found.model(track.name, track.seed, 1) for track in found.tracks[:2])
    assert {first.card.architecture, second.card.architecture} == {"mlp", "linear"}


def test_clients_of_a_mixed_federation_have_models_of_their_own_architecture(tmp_path: Path) -> None:
    models = [{"name": "mlp", "hidden": [5]}, {"name": "mlp", "hidden": [4, 3]}, "linear"]
    e = experiment(model=models, methods={"KD-PDFL": {}, "FedAvg": {}}, data__clients=5)
    found = run(e, tmp_path / "run", plots=False)
    federation = Dealer(None).federation(e, 0)
    kinds = set()
    for method in ("KD-PDFL", "FedAvg"):
        for client in range(5):
            model = found.model(method, 0, client)
            own = slice(*(int(federation.personal.count[:k].sum()) for k in (client, client + 1)))
            hits = model(federation.pool[federation.personal.index[own]]).argmax(dim=-1)
            right = float((hits == federation.personal.label[own]).double().mean())
            assert model.card.score == pytest.approx(right)
            kinds.add((model.card.architecture, repr(model.card.options)))
    assert len(kinds) == 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    e = experiment(methods=METHODS)
    return run(e, tmp_path_factory.mktemp("models") / "run", plots=False).path


def unfinished(path: Path) -> None:
    status = json.loads((path / "status.json").read_text())
    (path / "status.json").write_text(json.dumps({**status, "state": "stopped"}))


def older(path: Path) -> None:
    (path / "models-0.safetensors").unlink()


def other_format(path: Path) -> None:
    file = path / "models-0.safetensors"
    file.write_bytes(file.read_bytes().replace(b"final-models-1", b"final-models-9"))


@pytest.mark.parametrize(
    ("spoil", "who", "told"),
    [
        (None, ("KD-PDFL", 0, 4), "has no client 4; there are 0 to 3"),
        (None, ("KD-PDFL", 0, -1), "has no client -1; there are 0 to 3"),
        (None, ("KD-PDFL", 9, 0), "has no seed 9 of KD-PDFL; there are: 0"),
        (None, ("KD-PDLF", 0, 0), "unknown method of .*Did you mean 'KD-PDFL'"),
        (None, ("kNN-Per", 0, 0), "kNN-Per predicts with more than a model"),
        (unfinished, ("Local", 0, 0), "is stopped, and the final models are kept at the end; continue with"),
        (older, ("Local", 0, 0), "keeps no final models: .* run the experiment again with --models"),
        (other_format, ("Local", 0, 0), "expected 'coterie-final-models-1', got 'coterie-final-models-9'"),
        (lambda p: (p / "models-0.safetensors").write_text("x"), ("Local", 0, 0), "is damaged"),
        (lambda p: (p / "peers").mkdir(), ("Local", 0, 0), "is a run of peers, each of which keeps its own"),
    ],
)
def test_models_that_cannot_be_had(
    tmp_path: Path, finished: Path, spoil: Any, who: tuple[str, int, int], told: str
) -> None:
    path = shutil.copytree(finished, tmp_path / "copy")
    if spoil:
        spoil(path)
    with pytest.raises(CoterieError, match=told) as raised:
        Run(path).model(*who)
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_client_that_diverged_has_no_model(tmp_path: Path) -> None:
    e = experiment(data__set="tests.engine.nets:three_clients", data__clients=3, methods={"Local": {}})
    found = run(e, tmp_path / "run", plots=False)
    with pytest.raises(ModelError, match="client 1 of Local, seed 0, diverged"):
        found.model("Local", 0, 1)
    assert found.model("Local", 0, 2).card.score is not None


def test_large_models_are_kept_only_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.api.MOST_BYTES", 10)
    e = experiment(methods={"Local": {}})
    for models, kept in ((None, False), (True, True), (False, False)):
        found = run(e, tmp_path / str(models), plots=False, models=models)
        assert (final_models.find(found.path, 0) is not None) is kept
        if not kept:
            with pytest.raises(RunError, match="keeps no final models"):
                found.model("Local", 0, 0)
