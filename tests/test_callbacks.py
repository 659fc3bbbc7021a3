"""Callbacks: what they are told, early stopping, mistakes in them, and the trackers."""

from __future__ import annotations

import importlib
import json
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coterie import Callback, EarlyStopping, Experiment, Run, run
from coterie.callbacks import TRACKERS, CallbackError, Evaluation, ExchangeRows, WorldScores, tracker
from coterie.core.errors import ConfigError, UnknownNameError

SHORT = Experiment(
    name="told",
    seeds=2,
    methods=["Local", "KD-PDFL"],
    model="linear",
    data={"set": {"name": "synthetic", "groups": 1, "classes": 3}, "clients": 4, "sizes": (5, 9), "test": 6},
    train={"iterations": 24, "batch": 4},
    exchange={"every": 5, "channel": "ideal"},
    evaluate={"every": 5, "uniform": 9},
)


class Notes(Callback):
    """Writes down all it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[Path, int]] = []
        self.exchanges: list[ExchangeRows] = []
        self.evaluations: list[Evaluation] = []
        self.ended: list[str] = []

    def on_begin(self, run: Run, earlier: Sequence[Evaluation]) -> None:
        self.begun.append((run.path, len(earlier)))

    def after_exchange(self, exchanges: ExchangeRows) -> None:
        self.exchanges.append(exchanges)

    def after_evaluation(self, evaluation: Evaluation) -> None:
        self.evaluations.append(evaluation)

    def on_end(self, run: Run) -> None:
        self.ended.append(run.status["state"])


class Fails(Callback):
    """Raises something at an iteration."""

    def __init__(self, hook: str, t: int) -> None:
        self.hook, self.t = hook, t

    def after_exchange(self, exchanges: ExchangeRows) -> None:
        if self.hook == "after_exchange" and exchanges.t >= self.t:
            raise ValueError("boom")

    def after_evaluation(self, evaluation: Evaluation) -> None:
        if self.hook == "after_evaluation" and evaluation.t >= self.t:
            raise ValueError("boom")

    def on_end(self, run: Run) -> None:
        if self.hook == "on_end":
            raise ValueError("boom")


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(SHORT, tmp_path_factory.mktemp("whole") / "run", plots=False)


def test_a_callback_is_told_all(tmp_path: Path, whole: Run) -> None:
    notes = Notes()
    found = run(SHORT, tmp_path / "run", plots=False, callbacks=[notes])
    assert (found.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()
    assert notes.begun == [(tmp_path / "run", 0)]
    assert [e.t for e in notes.evaluations] == [0, 5, 10, 15, 20, 24]
    last = notes.evaluations[-1]
    assert [(w.name, w.seed) for w in last.worlds] == [(m, s) for m in ("Local", "KD-PDFL") for s in (0, 1)]
    methods = found.summary()["methods"]
    assert last.means("personal") == {m: pytest.approx(methods[m]["personal"]["mean"]) for m in methods}
    assert last.worlds[-1].bytes > 0
    assert {row["kind"] for told in notes.exchanges for row in told.rows} == {"mix", "adopt"}
    assert {told.t for told in notes.exchanges} == {5, 6, 10, 11, 15, 16, 20, 21}
    assert notes.exchanges[0].rows[0]["name"] in ("Local", "KD-PDFL")
    assert notes.ended == ["done"]


def test_what_a_callback_is_given_cannot_be_changed(tmp_path: Path) -> None:
    notes = Notes()
    run(SHORT, tmp_path / "run", plots=False, callbacks=[notes])
    world: Any = notes.evaluations[0].worlds[0]
    row: Any = notes.exchanges[0].rows[0]
    with pytest.raises(AttributeError):
        world.seed = 3
    with pytest.raises(TypeError):
        world.clients["personal"] = ()
    with pytest.raises(TypeError):
        row["client"] = 3
    assert isinstance(row["neighbours"], tuple)


class Enough(Callback):
    """Ends the run at an iteration."""

    def __init__(self, t: int) -> None:
        self.t = t

    def after_evaluation(self, evaluation: Evaluation) -> str | None:
        return "seen enough" if evaluation.t >= self.t else None


@pytest.mark.parametrize(("t", "ends"), [(0, 0), (10, 11), (24, 24)])
def test_a_run_that_ends_early_is_complete_and_says_so(tmp_path: Path, whole: Run, t: int, ends: int) -> None:
    found = run(SHORT, tmp_path / "run", callbacks=[Enough(t)])
    rows = lines(found.path)
    assert found.status["state"] == "done"
    assert rows[-1]["t"] == ends  # after the broadcast that belongs to the exchange at 10
    assert [row["t"] for row in rows if "correct" in row] == [ends] * 4
    same = [row for row in rows if row["t"] < min(ends, 11)]
    assert same == lines(whole.path)[: len(same)]
    early = found.status.get("stopped_early")
    assert early == (None if ends == 24 else f"seen enough (iteration {t} of 24)")
    assert found.summary().get("stopped_early") == early
    assert ("Stopped early: seen enough" in found._repr_html_()) == (ends < 24)
    assert found.summary()["methods"]["KD-PDFL"]["surely_hurt"] is not None or ends == 0


def test_an_early_end_can_be_continued(tmp_path: Path, whole: Run) -> None:
    run(SHORT, tmp_path / "run", plots=False, callbacks=[Enough(10)])
    notes = Notes()
    found = run(SHORT, tmp_path / "run", resume=True, plots=False, callbacks=[notes])
    assert notes.begun[0][1] == 4
    assert "stopped_early" not in found.status
    assert found.summary()["methods"] == whole.summary()["methods"]


def evaluation(t: int, *values: float) -> Evaluation:
    return Evaluation(
        t,
        100,
        tuple(
            WorldScores(f"m{i}", f"m{i}", 0, {}, {"validation": (v,), "loss": (1 - v,)}, (True,), 0, 0, ())
            for i, v in enumerate(values)
        ),
    )


@pytest.mark.parametrize("score", ["validation", "loss"])
def test_early_stopping_waits_for_the_last_that_still_gets_better(score: Any, whole: Run) -> None:
    stop = EarlyStopping(patience=2, score=score)
    stop.on_begin(whole, [evaluation(0, 0.5, 0.1)])
    told = [(0.5, 0.2), (0.4, 0.3), (0.5, 0.3), (0.5, 0.3)]
    reasons = [stop.after_evaluation(evaluation(t, *values)) for t, values in enumerate(told)]
    assert reasons == [None, None, None, f"no {score} score has got better for 2 evaluations"]


def test_early_stopping_says_what_it_lacks() -> None:
    with pytest.raises(ConfigError, match="patience must be at least 1, got 0"):
        EarlyStopping(patience=0)
    with pytest.raises(ConfigError, match="m0 has no validation score"):
        EarlyStopping().after_evaluation(evaluation(0, math.nan))


def test_early_stopping_in_a_run(tmp_path: Path) -> None:
    e = SHORT.replace(train__iterations=200, train__lr=1e-9)
    found = run(e, tmp_path / "run", plots=False, callbacks=[EarlyStopping(patience=3, score="personal")])
    assert found.status["stopped_early"].startswith("no personal score has got better for")
    assert found.status["t"] < 200


@pytest.mark.parametrize(
    ("hook", "t"), [("after_evaluation", 5), ("after_evaluation", 0), ("after_exchange", 11)]
)
def test_a_mistake_in_a_callback_is_told_and_the_run_goes_on(
    tmp_path: Path, whole: Run, hook: str, t: int
) -> None:
    notes, out = Notes(), tmp_path / "run"
    with pytest.raises(
        CallbackError, match=rf"Fails\.{hook} failed at iteration {t}: ValueError: boom \(.*test_callb"
    ):
        run(SHORT, out, plots=False, callbacks=[notes, Fails(hook, t)])
    assert notes.ended == ["failed"]
    found = run(SHORT, out, resume=True, plots=False)
    assert (found.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()


def test_a_mistake_at_the_end_leaves_a_finished_run(tmp_path: Path) -> None:
    with pytest.raises(CallbackError, match=r"Fails\.on_end failed at the end: ValueError: boom"):
        run(SHORT, tmp_path / "run", plots=False, callbacks=[Fails("on_end", 0)])
    assert Run(tmp_path / "run").status["state"] == "done"


def test_what_is_no_callback_is_refused(tmp_path: Path) -> None:
    for wrong, message in ((print, "coterie.Callback, got <built-in"), (EarlyStopping, r"with \(\)")):
        with pytest.raises(ConfigError, match=message):
            run(SHORT, tmp_path / "run", callbacks=[wrong])  # type: ignore[list-item]
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown tracker 'tensorbord'.*Did you mean 'tensorboard'"):
        tracker("tensorbord")
    assert list(TRACKERS) == ["mlflow", "tensorboard", "wandb"]


def means(found: Run) -> dict[int, float]:
    """The mean personal accuracy of KD-PDFL with seed 1, by iteration."""
    curves = found.curves()
    own = curves[(curves.method == "KD-PDFL") & (curves.seed == 1)]
    return dict(zip(own.t.tolist(), own.personal.tolist(), strict=True))


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = run(SHORT, tmp_path / "run", plots=False, callbacks=[tracker("tensorboard")])
    events = EventAccumulator(str(found.path / "tensorboard" / "KD-PDFL" / "seed 1")).Reload()
    read = {event.step: event.value for event in events.Scalars("personal")}
    assert read == {t: pytest.approx(mean) for t, mean in means(found).items()}
    assert {event.step for event in events.Scalars("bytes")} == set(read)


def logged(data: bytes) -> Iterator[bytes]:
    """Read a log in LevelDB's format, behind seven bytes that name it; wandb 0.31 has no reader any more."""
    at, whole, block, header = 7, b"", 1 << 15, 7
    while at + header <= len(data):
        if (left := block - at % block) < header:
            at += left
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + header : at + header + size]
        at += header + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def test_wandb_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    found = run(SHORT, tmp_path / "run", plots=False, callbacks=[tracker("wandb")])
    (file,) = (found.path / "wandb").glob("offline-run-*/*.wandb")
    read = {}
    for data in logged(file.read_bytes()):
        record = records.Record()
        record.ParseFromString(data)
        row = {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
        if row:
            read[int(row["t"])] = float(row["KD-PDFL/seed 1/personal"])
    assert read == {t: pytest.approx(mean) for t, mean in means(found).items()}


# What MLflow calls of sqlalchemy is deprecated there, and an old pydantic warns of the names of its fields.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Field .model_name. has:UserWarning")
def test_mlflow_reads_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = run(SHORT, tmp_path / "runs" / "run", plots=False, callbacks=[tracker("mlflow")])
    client = importlib.import_module("mlflow").MlflowClient(f"sqlite:///{tmp_path}/runs/mlflow.db")
    experiment = client.get_experiment_by_name("coterie").experiment_id
    runs = {one.info.run_name: one for one in client.search_runs([experiment])}
    assert set(runs) == {"told", *(f"{m}, seed {s}" for m in ("Local", "KD-PDFL") for s in (0, 1))}
    assert {one.info.status for one in runs.values()} == {"FINISHED"}
    whole, own = runs["told"], runs["KD-PDFL, seed 1"]
    assert whole.data.params["train.iterations"] == "24"
    assert own.data.tags["mlflow.parentRunId"] == whole.info.run_id
    assert own.data.params == {"method": "KD-PDFL", "seed": "1"}
    read = {one.step: one.value for one in client.get_metric_history(own.info.run_id, "personal")}
    assert read == {t: pytest.approx(mean) for t, mean in means(found).items()}
    assert own.data.metrics["bytes"] > 0
    assert not (tmp_path / "runs" / "mlruns").exists()
