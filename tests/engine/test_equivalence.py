"""However it is computed, the same comes out: stacked, alone, in any order."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.tasks.task import Task
from coterie.engine.analytic import analytic_model
from coterie.engine.execution import AnalyticExecution, LocalStep, VmapExecution
from coterie.engine.layout import AlgorithmGroup
from coterie.engine.plan import choose_execution, prepare
from coterie.experiment import Experiment
from tests.engine.recording import Watcher
from tests.engine.small import (
    EVERY_METHOD,
    KINDS,
    LoopExecution,
    Outcome,
    by_hand,
    experiment,
    finished,
    hard,
    once,
)
from tests.trees import same

CLOSE = 1e-10


def check(got: Outcome, want: Outcome) -> None:
    same(got.tensors, want.tensors, CLOSE)
    for rows, wanted in ((got.metrics, want.metrics), (got.exchanges, want.exchanges)):
        assert len(rows) == len(wanted)
        for row, other in zip(rows, wanted, strict=True):
            assert row.keys() == other.keys()
            for name, value in other.items():
                exact = isinstance(value, str)
                assert row[name] == (value if exact else pytest.approx(value, abs=1e-9, nan_ok=True)), name


def run(e: Experiment, folder: Path, **options: Any) -> dict[tuple[str, int], Outcome]:
    return finished(prepare(e), folder, **options)


SOME = {name: EVERY_METHOD[name] for name in KINDS}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Outcome]:
    """Every method, stacked."""
    return once(tmp_path_factory, "every method", hard(methods=EVERY_METHOD))


@pytest.mark.parametrize(
    ("methods", "changes"),
    [
        (EVERY_METHOD, {}),
        (SOME, {"train__optimizer": {"name": "adam", "weight_decay": 0.01}}),
        (SOME, {"exchange__probe": 5, "train__init": "shared", "train__personalize_lr": 0.01}),
    ],
    ids=["sgd", "adam", "probe of five"],
)
def test_stacked_is_one_by_one(
    every: dict[tuple[str, int], Outcome], tmp_path: Path, methods: dict[str, Any], changes: dict[str, Any]
) -> None:
    plan = prepare(hard(methods=methods, **changes))
    assert isinstance(choose_execution(plan.stacks[0], None), VmapExecution)
    stacked = every if methods is EVERY_METHOD else finished(plan, tmp_path / "stacked")
    alone = finished(plan, tmp_path / "alone", execution=LoopExecution)
    assert {name for name, _ in stacked} == set(methods)
    for key, want in alone.items():
        check(stacked[key], want)


# A bias before a normalisation has no gradient but rounding errors, which a small eps would blow up.
@pytest.mark.parametrize(
    ("methods", "optimizer"),
    [
        (SOME, "sgd"),
        (SOME, {"name": "sgd", "momentum": 0.5}),
        (EVERY_METHOD, {"name": "adam", "eps": 0.1}),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_by_hand_is_one_by_one(tmp_path: Path, methods: dict[str, Any], optimizer: Any) -> None:
    """With known layers, with clients that stand still now and then, side by side in threads."""
    plan = prepare(hard(methods=methods, model__dropout=0.0, train__optimizer=optimizer))
    hand = finished(plan, tmp_path / "hand", execution=by_hand)
    alone = finished(plan, tmp_path / "alone", execution=LoopExecution)
    for key, want in alone.items():
        check(hand[key], want)


OWN_STEPS = {name: {"name": f"tests.engine.own_steps:{name}"} for name in ("Ditto", "FedRep")}


@pytest.mark.parametrize(
    "changes",
    [
        {"train__optimizer": "sgd"},
        {"train__optimizer": {"name": "adam", "eps": 1e-3}},
        {"model": {"name": "cnn", "channels": [3], "norm": "batch"}, "train__optimizer": "sgd"},
    ],
    ids=["sgd", "adam", "side by side in threads"],
)
def test_own_steps_by_hand_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Two models of which one pulls, parts that stand still in turn, beside methods with the default step."""
    data = {"data__set": "digits"} if "model" in changes else {"model__dropout": 0.0}
    plan = prepare(hard(methods={**OWN_STEPS, "FedAvg": {}}, **{**data, **changes}))
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    hand = finished(plan, tmp_path / "hand")
    alone = finished(plan, tmp_path / "alone", execution=LoopExecution)
    for key, want in alone.items():
        check(hand[key], want)


def test_methods_do_differ(every: dict[tuple[str, int], Outcome]) -> None:
    """What the other tests compare is not the same for want of an effect."""
    found = every
    for one, other in combinations(EVERY_METHOD, 2):
        a, b = found[one, 0], found[other, 0]
        models = {k: (v, b.tensors[k]) for k, v in a.tensors.items() if k.startswith("params")}
        learnt = any((v - w).abs().max() > 1e-3 for v, w in models.values())
        predicted = any(m["personal"] != n["personal"] for m, n in zip(a.metrics, b.metrics, strict=True))
        assert learnt or predicted, (one, other)  # some predict in another way what they learn alike


def test_worlds_together_are_each_alone(tmp_path: Path) -> None:
    """Different M, learning rates and options of a method stand in one stack as vectors."""
    e = hard(
        seeds=[0, 3],
        methods={
            "Local": {},
            "KD-PDFL": {"reading": "paper"},
            "soft": {"name": "KD-PDFL", "reading": "paper", "step": "softmax", "share": "base"},
            "far": {"name": "KD-PDFL", "reading": "paper", "mu1": 3.0, "c_base": 9.0},
        },
        grid={"data.clients": [4, 7], "train.lr": [0.02, 0.2]},
    )
    plan = prepare(e)
    assert len(plan.worlds) == 4 * 2 * 4
    assert len(plan.stacks) == 1
    plain, soft, other = sorted(plan.stacks[0].groups, key=lambda g: -len(g.members))
    assert sorted(plain.hyper) == ["c_base", "mu1"]  # KD-PDFL and "far" differ in numbers only
    assert not soft.hyper
    assert not other.hyper
    together = finished(plan, tmp_path / "together")
    for number, world in enumerate(plan.worlds[::5]):
        alone = run(world.experiment, tmp_path / str(number))
        check(together[world.name, world.seed], alone[world.label, world.seed])


def test_options_of_a_method_are_vectors(tmp_path: Path) -> None:
    grid = {"methods.KD-PDFL.mu1": [0.1, 5.0], "methods.KD-PDFL.tau": [0.05, 1.0]}
    for step, count in (("unit", 4), ("softmax", 4)):
        e = hard(methods={"KD-PDFL": {"reading": "paper", "step": step, "adoption": "mix"}}, grid=grid)
        plan = prepare(e)
        ((group,),) = (stack.groups for stack in plan.stacks)
        assert {k: len(set(v.tolist())) for k, v in group.hyper.items()} == {"mu1": 2, "tau": 2}
        together = finished(plan, tmp_path / step)
        assert len(together) == count
        for number, world in enumerate(plan.worlds[1:3]):
            alone = run(world.experiment, tmp_path / f"{step} {number}")
            check(together[world.name, world.seed], alone[world.label, world.seed])


def test_worlds_of_all_precisions_in_one_stack(tmp_path: Path) -> None:
    methods = {name: EVERY_METHOD[name] for name in ("KD-PDFL", "CoBo", "DisPFL")}
    plan = prepare(hard(methods=methods, grid={"exchange.precision": ["full", "half", "int8"]}))
    assert len(plan.stacks) == 1
    together = finished(plan, tmp_path / "together")
    for number, world in enumerate(plan.worlds):
        alone = run(world.experiment, tmp_path / str(number))
        check(together[world.name, world.seed], alone[world.label, world.seed])
    for method in methods:
        sent = {
            w.experiment.exchange.precision: together[w.name, 0].metrics[-1]["bytes"]
            for w in plan.worlds
            if w.label == method
        }
        assert sent["half"] < sent["full"] / 2 + 1000
        assert sent["int8"] < sent["half"]


@pytest.mark.parametrize(
    ("grid", "stacks"),
    [
        ({"train.lr": [0.01, 0.1], "exchange.loss": [0.0, 0.5]}, 1),
        ({"train.init": ["shared", "zeros"], "train.personalize_lr": [0.01, 0.1]}, 1),
        ({"train.batch": [2, 4]}, 2),
        ({"model.hidden": [[5], [6]], "exchange.every": [5, 6]}, 4),
        ({"train.personalize": [0.0, 0.5]}, 2),
    ],
)
def test_as_few_stacks_as_phases_and_shapes_allow(grid: dict[str, Any], stacks: int) -> None:
    assert len(prepare(experiment(grid=grid)).stacks) == stacks


def test_the_order_of_methods_and_seeds_is_of_no_concern(tmp_path: Path) -> None:
    forth = run(hard(methods=SOME, seeds=[0, 1]), tmp_path / "forth")
    back = run(hard(methods=dict(reversed(SOME.items())), seeds=[1, 0]), tmp_path / "back")
    assert forth.keys() == back.keys()
    for key, want in forth.items():
        check(back[key], want)


def test_blocks_and_strides_change_nothing(
    every: dict[tuple[str, int], Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few clients at a time, one iteration at a time: how the work is cut is of no concern."""
    monkeypatch.setattr("coterie.engine.simulator.BLOCK_BYTES", 1500)
    monkeypatch.setattr("coterie.engine.simulator.LONGEST", 1)
    cut = run(hard(methods=SOME), tmp_path)
    assert {name for name, _ in cut} == set(SOME)
    for key, got in cut.items():
        check(got, every[key])


class Cramped(AnalyticExecution):
    """Runs out of memory where more than two clients step at once, now and then in the middle."""

    taken = 0

    def step(self, group: AlgorithmGroup, given: LocalStep) -> Any:
        self.taken += 1
        if len(given.batch.lr) > 2 and self.taken > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().step(group, given)


def test_out_of_memory_it_goes_on_with_fewer_clients_at_a_time(tmp_path: Path) -> None:
    plan = prepare(hard(methods=SOME, model__dropout=0.0))
    whole = finished(plan, tmp_path / "whole", execution=by_hand)
    watcher = Watcher()

    def cramped(task: Task) -> Cramped:
        known = analytic_model(task, [1])
        assert known
        return Cramped(task, known)

    cut = finished(plan, tmp_path / "cut", execution=cramped, progress=watcher)
    assert any("memory ran out at iteration" in n and "clients at a time" in n for n in watcher.notices)
    for key, want in whole.items():
        check(cut[key], want)
