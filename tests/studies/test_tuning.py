"""Equal chances: as many settings for every method, its own first, the best on validation data chosen."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from coterie import Experiment, run
from coterie.core.errors import ConfigError, RunError
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.engine.plan import prepare
from coterie.studies.tuning import Trial, Tuning, tune
from coterie.studies.tuning.candidates import candidates, space
from coterie.studies.tuning.report import markdown, numbers, places, tables, write
from coterie.studies.tuning.trials import best, known_scores, outcome
from tests.engine.recording import Watcher
from tests.engine.small import experiment

METHODS = ["Local", "FedAvg", "FedAvg+", "KD-PDFL"]


# Which settings ---------------------------------------------------------------------------------


def test_without_a_search_learning_rates_and_what_each_method_proposes() -> None:
    e = experiment(methods=METHODS, train__lr=0.1, train__personalize_lr=0.02)
    rates = {"train.lr": (0.03, 0.1, 0.3), "train.personalize_lr": (0.006, 0.02, 0.06)}
    assert space(e, "Local") == rates
    assert space(e, "FedAvg") == {**rates, "adoption": ("replace", "average", "ignore")}
    assert list(space(e, "FedAvg+")) == [*rates, "adoption", "beta", "slow"]
    assert space(e, "KD-PDFL") == rates  # one setting for all
    paper = e.replace(**{"methods.KD-PDFL.reading": "paper"})
    assert list(space(paper, "KD-PDFL")) == [*rates, "adoption", "outputs", "mu2"]


def test_the_usual_space_fits_the_experiment() -> None:
    e = experiment(
        methods={
            "soft": {"name": "KD-PDFL", "reading": "paper", "step": "softmax", "train": {"lr": 1.0}},
            "Local": {},
        },
        train__personalize=0.0,
        grid={"methods.soft.outputs": ["probabilities", "centred"]},
    )
    assert space(e, "soft") == {
        "train.lr": (0.3, 1.0, 3.0),
        "adoption": ("replace", "average", "mix", "ignore"),
        "tau": (0.03, 0.1, 0.3, 1.0),
    }
    assert space(e, "Local") == {"train.lr": (0.015, 0.05, 0.15)}


def test_a_search_says_what_is_tried_and_a_methods_own_values_go_first() -> None:
    e = experiment(
        methods=["Local", "FedAvg", "KD-PDFL"],
        search={"train.lr": [1, 2], "methods.FedAvg.train.lr": [3], "methods.KD-PDFL.tau": [0.5]},
    )
    assert space(e, "Local") == {"train.lr": (1, 2)}
    assert space(e, "FedAvg") == {"train.lr": (3,)}
    assert space(e, "KD-PDFL") == {"train.lr": (1, 2), "tau": (0.5,)}


@pytest.mark.parametrize("budget", [1, 2, 5, 8, 30])
def test_as_many_different_settings_as_the_budget_allows_the_own_ones_first(budget: int) -> None:
    e = experiment(methods=METHODS, seeds=[3], search={})
    for label in METHODS:
        found = candidates(e, label, budget)
        assert len(found) == min(budget, {"Local": 9, "KD-PDFL": 9, "FedAvg": 27}.get(label, budget))
        assert found[0].setting == {}
        assert found[0].values["train.lr"] == 0.05
        assert found[0].values["train.personalize_lr"] is None
        assert len({repr(c.values) for c in found}) == len(found)
        assert found == candidates(e, label, budget)
        assert found == candidates(e, label, budget + 1)[: len(found)], "a larger budget only adds"


def test_a_small_space_is_tried_whole_and_nothing_twice() -> None:
    # The experiment's own: lr = 0.05, and 0.05 again in the closing phase, which is what [0.05, 0.05] says.
    e = experiment(methods=["Local"], search={"train.lr": [0.05, 1], "train.personalize_lr": [0.05, 2, 2.0]})
    values = [tuple(c.values.values()) for c in candidates(e, "Local", 100)]
    assert values[0] == (0.05, None)
    assert set(values[1:]) == {(0.05, 2.0), (1.0, 0.05), (1.0, 2.0)}
    assert len(values) == 4


def test_every_method_tries_the_same_learning_rates_each_equally_often() -> None:
    e = experiment(methods=METHODS)
    rates = {
        label: [c.values["train.lr"] for c in candidates(e, label, 7)[1:]]
        for label in ("FedAvg", "FedAvg+", "KD-PDFL")
    }
    assert sorted(rates["FedAvg"]) == [0.015, 0.015, 0.05, 0.05, 0.15, 0.15]
    assert rates["FedAvg"] == rates["FedAvg+"] == rates["KD-PDFL"]


def test_values_are_those_that_hold_whoever_set_them() -> None:
    e = experiment(
        methods={"FedAvg": {"train": {"optimizer": {"name": "sgd", "momentum": 0.5}}}},
        search={
            "train.optimizer": ["adam"],
            "methods.FedAvg.adoption": ["ignore"],
            "methods.FedAvg.share": [["*"]],
        },
    )
    own, other = candidates(e, "FedAvg", 2)
    assert own.values["train.optimizer"] == {"name": "sgd", "momentum": 0.5, "weight_decay": 0.0}
    assert own.values["adoption"] == "replace"
    assert other.values["train.optimizer"]["name"] == "adam"
    assert (other.values["adoption"], other.values["share"]) == ("ignore", ("*",))


# Which is best ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([(0.5, 0.5)], 0),
        ([(0.5, 0.5), (0.9, 0.2), (0.4, 0.8)], 2),
        ([(0.5, 0.5), (0.9, 0.2), (0.8, 0.4)], 2),
        ([(0.5, 0.7), (0.7, 0.5), (0.6, 0.6)], 0),
        ([(0.1, 0.2, 0.3), (0.3, 0.2, 0.1)], 0),
        ([(0.0,), (0.0,)], 0),
    ],
)
def test_the_highest_mean_wins_the_earlier_one_if_equal(scores: list[tuple[float, ...]], chosen: int) -> None:
    assert best([Trial({}, s, 0) for s in scores]) == chosen


RMSE = Metric("rmse", "RMSE", higher_is_better=False)


@pytest.mark.parametrize(
    ("scores", "lost", "chosen"),
    [
        ([(0.5,), (0.2,), (0.9,)], [0, 0, 0], 1),
        ([(0.5,), (0.2,), (0.9,)], [0, 3, 0], 0),  # the lowest one is of the clients that did not diverge
        ([(math.nan,), (0.9,), (0.8,)], [4, 1, 1], 2),
        ([(math.nan,), (math.nan,)], [4, 4], 0),
    ],
)
def test_of_errors_the_lowest_mean_wins_and_who_diverged_comes_last(
    scores: list[tuple[float, ...]], lost: list[int], chosen: int
) -> None:
    trials = [Trial({}, s, n, RMSE) for s, n in zip(scores, lost, strict=True)]
    assert best(trials) == chosen


def test_who_diverged_counts_as_the_worst_share_and_not_as_the_best_error() -> None:
    scores = [0.5, math.nan, 0.7, 0.1]
    assert known_scores(scores, {3}, ACCURACY) == [0.5, 0.7, 0.0]
    assert known_scores(scores, {3}, RMSE) == [0.5, 0.7]
    assert math.isnan(known_scores(scores, {0, 1, 2, 3}, RMSE)[0])


def test_mean_and_standard_deviation_over_seeds() -> None:
    trial = Trial({}, (0.5, 0.7, 0.9), 0)
    assert trial.mean == pytest.approx(0.7)
    assert trial.std == pytest.approx(0.2)
    assert Trial({}, (0.5,), 0).std is None


# Trials -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned() -> Tuning:
    e = experiment(
        seeds=[0, 1001],
        methods={"Local": {}, "mine": {"name": "KD-PDFL", "reading": "paper", "mu1": 2.0}},
        train__lr=1e-6,
        search={"train.lr": [0.5, 1e-5], "methods.mine.mu2": [0.1, 0.7]},
    )
    return tune(e, 3, seeds=2)


def test_every_method_has_the_same_budget_or_all_there_is(tuned: Tuning) -> None:
    assert {label: len(trials) for label, trials in tuned.trials.items()} == {"Local": 3, "mine": 3}
    assert tuned.seeds == (1000, 1002), "not those of the experiment"
    for trials in tuned.trials.values():
        assert trials[0].values["train.lr"] == 1e-6
        assert all(len(trial.scores) == 2 for trial in trials)


def test_the_chosen_values_are_in_the_new_experiment(tuned: Tuning) -> None:
    for label, trials in tuned.trials.items():
        chosen = trials[tuned.chosen(label)]
        assert chosen.mean == max(trial.mean for trial in trials)
        assert chosen.values["train.lr"] == 0.5, "a model that learns beats one that does not"
    worlds = {w.label: w for w in tuned.tuned.worlds()}
    assert [w.experiment.train.lr for w in worlds.values()] == [0.5, 0.5]
    assert worlds["mine"].algorithm.mu1 == 2.0  # type: ignore[attr-defined]
    mu2 = tuned.trials["mine"][tuned.chosen("mine")].values["mu2"]
    assert worlds["mine"].algorithm.mu2 == mu2  # type: ignore[attr-defined]
    rest = {k: v for k, v in tuned.tuned.plain().items() if k != "methods"}
    assert rest == {k: v for k, v in tuned.experiment.plain().items() if k != "methods"}


def test_a_score_is_the_validation_accuracy_of_the_same_run(tuned: Tuning, tmp_path: Path) -> None:
    again = run(tuned.tuned.replace(seeds=list(tuned.seeds)), tmp_path / "run", plots=False)
    for label, trials in tuned.trials.items():
        scores = [w.scores["validation"][-1].mean() for w in again.tracks if w.label == label]
        assert trials[tuned.chosen(label)].scores == pytest.approx(scores, abs=1e-12)


def test_the_same_again(tuned: Tuning) -> None:
    assert tune(tuned.experiment, 3, seeds=2) == tuned


def test_settings_of_a_grid_count_alike() -> None:
    both = experiment(methods=["FedAvg"], grid={"data.clients": [4, 6]})
    (trial,) = tune(both, 1, seeds=1).trials["FedAvg"]
    alone = [tune(both.replace(grid={}, data__clients=m), 1, seeds=1).trials["FedAvg"][0] for m in (4, 6)]
    assert trial.mean == pytest.approx((alone[0].mean + alone[1].mean) / 2)


def test_clients_that_diverge_count_as_zero() -> None:
    found = tune(experiment(methods=["Local"], search={"train.lr": [1e300]}), 2, seeds=2)
    own, wild = found.trials["Local"]
    assert (wild.scores, wild.diverged) == ((0.0, 0.0), 2 * 4)
    assert own.diverged == 0
    assert found.chosen("Local") == 0


def test_attackers_have_no_say() -> None:
    """Neither by their accuracy nor by diverging: as in results, only honest clients count."""
    e = experiment(methods=["Local"], attack={"name": "label_flip", "share": 0.5})
    (world,) = e.worlds()
    row = {"validation": [0.0 if lies else 0.75 for lies in world.attackers.tolist()]}
    liar, honest = int(world.attackers.int().argmax()), int(world.attackers.int().argmin())
    assert outcome(world, {**row, "diverged": []}) == (world, 0.75, 0)
    assert outcome(world, {**row, "diverged": [liar]}) == (world, 0.75, 0)
    assert outcome(world, {**row, "diverged": [liar, honest]}) == (world, 0.375, 1)


SEARCHES = """
from dataclasses import dataclass
from typing import Any
from coterie.plugins.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Searched(FedAvg):
    proposes: str = ""
    def search_space(self) -> Any:
        if self.proposes == "raises":
            return {}["space"]
        return {
            "unknown": {"nope": (1, 2)},
            "empty": {"adoption": ()},
            "wrong": {"adoption": ("ignore", "eat")},
            "number": {"adoption": 3},
        }.get(self.proposes)
"""


@pytest.mark.parametrize("budget", [1, 3])
@pytest.mark.parametrize(
    ("proposes", "message"),
    [
        ("unknown", "search cannot be tried: search: unknown option 'methods.mine.nope' .* known: adoption"),
        ("empty", "search cannot be tried: .* 'methods.mine.adoption' has no values; name at least one"),
        ("wrong", "search cannot be tried: search: methods.mine.adoption: .*got 'eat'"),
        ("number", "search cannot be tried: search.methods.mine.adoption: .* got 3"),
        ("nothing", "search must give options and the values to try, got NoneType"),
        ("raises", r"search failed: KeyError: 'space' \(.*tuning_searches.py, line"),
    ],
)
def test_a_method_that_proposes_what_cannot_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proposes: str, message: str, budget: int
) -> None:
    (tmp_path / "tuning_searches.py").write_text(SEARCHES)
    monkeypatch.syspath_prepend(tmp_path)
    e = experiment(methods={"mine": {"name": "tuning_searches:Searched", "proposes": proposes}})
    with pytest.raises(ConfigError, match=f"methods.mine: {message}"):
        tune(e, budget)


DATA = """
import torch
from coterie.core.data import Dataset, Samples

def made(poison=False):
    y = torch.arange(90) % 3
    x = torch.nn.functional.one_hot(y, 5).float() + 0.3 * torch.sin(torch.arange(450.0)).view(90, 5)
    test = Samples(1e6 * x.flip(0), (y + 1) % 3) if poison else Samples(x, y)
    return Dataset(Samples(x, y), test, ("a", "b", "c"))
"""


def test_test_data_have_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tuning_data.py").write_text(DATA)
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for poison in (False, True):
        data = {"name": "tuning_data:made", "poison": poison}
        found.append(tune(experiment(methods=METHODS, data__set=data), 3, seeds=1))
    assert found[0].trials == found[1].trials
    assert found[0].tuned.methods == found[1].tuned.methods


def test_a_plan_without_test_samples() -> None:
    e = experiment(methods=["Local", "FedAvg"])
    plan, whole = prepare(e, tested=False), prepare(e)
    for blind, seeing in zip(plan.federations, whole.federations, strict=True):
        for split in (blind.personal, blind.uniform):
            assert (len(split.index), split.count.tolist()) == (0, [0] * 4)
        assert blind.validation.index.tolist() == seeing.validation.index.tolist()
        assert blind.train.index.tolist() == seeing.train.index.tolist()
    assert plan.federations[0] is plan.federations[1], "one seed, one federation"


def test_progress_shows_validation_accuracy_and_no_note_for_each_client() -> None:
    shown = Watcher()
    e = experiment(methods=["Local", "FedAvg"], search={"train.lr": [1e300]})
    found = tune(e, 2, seeds=1, progress=shown)
    assert shown.accuracy[-1] == {label: trials[0].mean for label, trials in found.trials.items()}
    assert shown.steps[-1][:2] == (24, 24)
    assert shown.notices == []


def test_too_little_memory_for_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"name": "mlp", "hidden": [40]}
    e = experiment(methods=["Local"], model=model, dtype="float32", search={"train.lr": [0.1, 0.2, 0.3]})
    whole, shown, sysconf = tune(e, 4, seeds=1), Watcher(), os.sysconf
    # A world: 4 clients x (2 x 403 parameters + 4 weights + 4 samples x 6) x 4 bytes = 13,344, of four fifths
    # of the memory. Room for two:
    memory = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 2 * 13_344 * 5 // 4}
    monkeypatch.setattr(os, "sysconf", lambda name: memory.get(name) or sysconf(name))
    parts = tune(e, 4, seeds=1, progress=shown)
    assert shown.notices == ["too little memory for all 4 worlds at once, so in 2 parts"]
    assert [t.mean for t in parts.trials["Local"]] == pytest.approx([t.mean for t in whole.trials["Local"]])
    # Alone, a world is not laid out from others: 4 clients x (403 parameters + 4 weights + 4 samples x 6) x 4
    # bytes = 6,896. Of 8,000 bytes 6,400 are for models, which is enough for 3.7 clients:
    memory["SC_PHYS_PAGES"] = 8_000
    with pytest.raises(ConfigError, match="about 3 such clients fit"):
        tune(e, 4, seeds=1)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"budget": 0}, "budget must be at least 1 .* got 0"),
        ({}, {"budget": -3}, "budget must be at least 1 .* got -3"),
        ({}, {"budget": 10**9}, "budget must be .* at most 10000"),
        ({}, {"budget": 1, "seeds": 0}, "seeds must be at least 1 .* got 0"),
        ({}, {"budget": 27, "seeds": 371}, "10017 worlds, at most 10000 .* smaller budget or fewer seeds"),
        ({"data__validation": 0.0}, {"budget": 2}, r"no client has any; use a larger data\.validation"),
        (
            {
                "methods": {"KD-PDFL": {"reading": "paper"}},
                "search": {
                    "methods.KD-PDFL.outputs": ["logits"],
                    "methods.KD-PDFL.distance": ["symmetric_kl"],
                },
            },
            {"budget": 2},
            "methods.KD-PDFL: distance 'symmetric_kl' compares probabilities",
        ),
    ],
)
def test_what_cannot_be_tuned(changes: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tune(experiment(**changes), **arguments)


# The report -------------------------------------------------------------------------------------


def test_what_is_written_is_complete_and_loads(tuned: Tuning, tmp_path: Path) -> None:
    to, facts = places("x", tmp_path / "new" / "folder"), numbers(tuned)
    write(tuned, facts, to)
    assert sorted(p.name for p in (tmp_path / "new/folder").iterdir()) == [
        "tuned.toml", "tuning.json", "tuning.md",
    ]  # fmt: skip
    assert Experiment.load(to.experiment) == tuned.tuned
    assert json.loads(to.numbers.read_text()) == facts
    assert facts["tuning_seeds"] == [1000, 1002]
    assert facts["evaluation_seeds"] == [0, 1001]
    assert facts["environment"]["torch"]
    mine = facts["methods"]["mine"]
    assert (facts["budget"], len(mine["candidates"]), mine["whole_space"]) == (3, 3, False)
    chosen = mine["candidates"][mine["chosen"]]
    assert chosen["values"] == mine["values"] == tuned.trials["mine"][mine["chosen"]].values
    assert chosen["mean"] == pytest.approx(sum(chosen["scores"]) / 2)
    text = to.report.read_text()
    assert text == markdown(tuned, facts)
    for part in (
        "3 settings of every method",
        "1000, 1002",
        "No test sample",
        "(0, 1001)",
        "## mine: 3 of 3",
    ):
        assert part in text


def test_the_tables_mark_the_chosen_one() -> None:
    e = experiment(methods=["Local"], train__lr=0.25)
    trials = (
        Trial({"train.lr": 0.25, "train.personalize_lr": None, "share": "a|b"}, (0.5, 0.7), 0),
        Trial({"train.lr": 0.5, "train.personalize_lr": 0.1, "share": "all"}, (0.75, 0.75), 2),
    )
    tuning = Tuning(e, e, 4, (1000, 1001), {"Local": trials})
    text = markdown(tuning, numbers(tuning))
    assert "## Local: 2 of 4 settings, all there are" in text
    assert "|  | lr | personalize_lr | share | validation % | diverged |" in text
    assert "| 1 | 0.25 | as lr | a\\|b | 60.0 ± 14.1 | 0 |" in text
    assert "| **→ 2** | **0.5** | **0.1** | **all** | **75.0 ± 0.0** | **2** |" in text
    (table,) = tables(tuning)
    assert (len(table.columns), len(table.rows)) == (6, 2)
    assert [{cell.best for cell in row} for row in table.cells] == [{False}, {True}]


@pytest.mark.parametrize("name", ["tuned.toml", "tuning.md", "tuning.json"])
def test_nothing_is_overwritten(tuned: Tuning, tmp_path: Path, name: str) -> None:
    to = places("x", tmp_path)
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match=f"{name} is already there; choose another place"):
        places("x", tmp_path)
    with pytest.raises(RunError, match=f"cannot write .*{name}: File exists"):
        write(tuned, numbers(tuned), to)
    assert (tmp_path / name).read_text() == "mine"


def test_a_place_that_cannot_be_written_to_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is not a folder that can be written to"):
        places("x", tmp_path / "file" / "out")
    with pytest.raises(RunError, match="is not a folder that can be written to"):
        places("x", tmp_path, tmp_path / "file" / "mine.toml")
