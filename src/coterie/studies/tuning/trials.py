"""Try every candidate of every method on the same clients, and choose by their validation samples.

The clients are those of other seeds than the experiment's, and have no test samples at all.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import ConfigError
from coterie.core.own.home import data_folder
from coterie.core.tasks.metric import ACCURACY, Metric
from coterie.engine.mixed import simulator_of
from coterie.engine.plan import Plan, choose_execution, prepare, tf32
from coterie.engine.sinks import Progress
from coterie.experiment import MOST_WORLDS, Experiment, World
from coterie.studies.tuning.candidates import Candidate, candidates

__all__ = ["Trial", "TrialOutcome", "Tuning", "best", "is_share", "known_scores", "outcome", "tune"]

FIRST_SEED = 1000
"""Tuning seeds count from here, and leave out those of the experiment."""


class Trial(NamedTuple):
    """A candidate and how well it did."""

    values: dict[str, Any]
    """Everything that is searched, as it was in this trial."""
    scores: tuple[float, ...]
    """Mean over honest clients on validation samples, of each seed; NaN where none counts."""
    diverged: int
    """Honest clients without a finite model, of all seeds."""
    metric: Metric = ACCURACY
    """The measure of the scores."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def std(self) -> float | None:
        return statistics.stdev(self.scores) if len(self.scores) > 1 and self.mean == self.mean else None

    @property
    def merit(self) -> tuple[bool, float]:
        """The larger, the better: a client that diverged and does not count as 0 comes after all else."""
        mean = self.metric.gain(self.mean, 0.0)
        sound = not self.diverged or is_share(self.metric)
        return sound, -math.inf if math.isnan(mean) else round(mean, 6)  # scores are float32


class Tuning(NamedTuple):
    """The trials of all methods, and the experiment with the best of each."""

    experiment: Experiment
    """The experiment before."""
    tuned: Experiment
    """The experiment with the chosen values."""
    budget: int
    seeds: tuple[int, ...]
    """The seeds that the trials were run with."""
    trials: dict[str, tuple[Trial, ...]]
    """The trials of each method, its own setting first."""

    @property
    def metric(self) -> Metric:
        """The measure by which trials were judged."""
        return next(iter(self.trials.values()))[0].metric

    def chosen(self, label: str) -> int:
        """Find the number of a method's best trial."""
        return best(self.trials[label])


class TrialOutcome(NamedTuple):
    """One world at an evaluation."""

    world: World
    score: float
    """Mean over honest clients on validation samples."""
    diverged: int


def tune(
    experiment: Experiment | str | Path,
    budget: int,
    *,
    seeds: int = 3,
    data: str | Path | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Try `budget` settings of every method of an experiment, each with as many seeds of its own.

    `data` is where data sets lie, by default $COTERIE_DATA.
    """
    if not isinstance(experiment, Experiment):
        experiment = Experiment.load(experiment)
    for what, number in (("budget", budget), ("seeds", seeds)):
        if not 1 <= number <= MOST_WORLDS:
            raise ConfigError(f"{what} must be at least 1 and at most {MOST_WORLDS}, got {number}")
    fresh = (s for s in itertools.count(FIRST_SEED) if s not in experiment.seeds)
    base = experiment.replace(seeds=list(itertools.islice(fresh, seeds)), search={})
    tried = {label: candidates(experiment, label, budget) for label in experiment.methods}
    worlds = list(_worlds(base, tried))
    outcomes = _by_name(_outcomes(base, worlds, data_folder(data), progress))
    trials = {
        label: tuple(_trial(c, base.seeds, outcomes[_name(label, i)]) for i, c in enumerate(found))
        for label, found in tried.items()
    }
    settings = {label: tried[label][best(of)].setting for label, of in trials.items()}
    return Tuning(experiment, experiment.changed(settings), budget, base.seeds, trials)


def best(trials: Sequence[Trial]) -> int:
    """Find the trial with the best mean, the first if there are several."""
    merits = [trial.merit for trial in trials]
    return merits.index(max(merits))


def is_share(metric: Metric) -> bool:
    """Tell whether a metric is a share of which 0 is the worst: what a client that diverged counts as."""
    return metric.higher_is_better and metric.unit == "%"


def known_scores(scores: Sequence[float], lost: Container[int], metric: Metric) -> list[float]:
    """List the scores that count: those that are known, and 0 of a share for the lost; NaN if none does."""
    instead = 0.0 if is_share(metric) else math.nan
    known = [v for i, score in enumerate(scores) if (v := instead if i in lost else score) == v]
    return known or [math.nan]


def _name(label: str, number: int) -> str:
    return f"{label} #{number + 1}"


def _worlds(base: Experiment, tried: Mapping[str, Sequence[Candidate]]) -> Iterator[World]:
    """Make a world for every candidate of every method, with every seed and setting of the grid."""
    count = math.prod([sum(map(len, tried.values())), len(base.seeds), *map(len, base.grid.values())])
    if count > MOST_WORLDS:
        raise ConfigError(
            f"methods x budget x seeds x grid are {count} worlds, at most {MOST_WORLDS} can be run; "
            "use a smaller budget or fewer seeds"
        )
    for number in range(max(map(len, tried.values()))):
        now = {label: found[number].setting for label, found in tried.items() if number < len(found)}
        for world in base.changed(now).worlds():
            if world.label in now:
                yield world._replace(name=_name(world.label, number))


def _outcomes(
    base: Experiment, worlds: Sequence[World], root: Path | None, progress: Progress | None
) -> list[TrialOutcome]:
    """Evaluate each world at its end, in one batched run or in as few as memory allows."""
    with tf32(base.tf32):
        return _evaluated(prepare(base, root, progress, worlds=worlds, tested=False), progress)


def _evaluated(plan: Plan, progress: Progress | None) -> list[TrialOutcome]:
    """Run a plan, and judge every world by its last evaluation."""
    for world, federation in zip(plan.worlds, plan.federations, strict=True):
        if not bool(federation.validation.count[~world.attackers].any()):
            raise ConfigError(
                "tuning is judged on validation samples, but no client has any; use a larger data.validation"
            )
    found: dict[int, TrialOutcome] = {}
    done, total = 0, sum(stack.iterations for stack in plan.stacks)
    for stack in plan.stacks:
        # Without progress, so without a note for each client that diverges: the report counts them.
        simulator = simulator_of(stack, partial(choose_execution, progress=progress))
        while simulator.t < stack.iterations:
            before = simulator.stepped
            simulator.step_to_next_event()
            if simulator.evaluation_due():
                rows = simulator.evaluate()
                found |= {row["world"]: outcome(plan.worlds[row["world"]], row) for row in rows}
                if progress:
                    progress.evaluated(_leaders(found.values()))
            if progress:
                progress.advance(done + simulator.t, total, simulator.stepped - before)
        stack.free_data()
        done += stack.iterations
    return list(found.values())


def outcome(world: World, row: Mapping[str, Any]) -> TrialOutcome:
    """Judge one world by a row of `Simulator.evaluate`: attackers have no say."""
    attackers = set(world.attackers.nonzero().flatten().tolist())
    lost = set(row["diverged"]) - attackers
    scores = [math.nan if i in attackers else score for i, score in enumerate(row["validation"])]
    return TrialOutcome(world, statistics.fmean(known_scores(scores, lost, _metric(world))), len(lost))


def _metric(world: World) -> Metric:
    return world.experiment.task_kind.metrics[0]


def _by_name(outcomes: Iterable[TrialOutcome]) -> dict[str, list[TrialOutcome]]:
    """Group outcomes by candidate."""
    found: dict[str, list[TrialOutcome]] = {}
    for one in outcomes:
        found.setdefault(one.world.name, []).append(one)
    return found


def _leaders(outcomes: Iterable[TrialOutcome]) -> dict[str, float]:
    """Compute the score of each method's best candidate as of now."""
    leaders: dict[str, float] = {}
    for those in _by_name(outcomes).values():
        label, mean = those[0].world.label, statistics.fmean(o.score for o in those)
        leaders[label] = _metric(those[0].world).best([leaders.get(label, math.nan), mean])
    return leaders


def _trial(candidate: Candidate, seeds: Sequence[int], outcomes: Sequence[TrialOutcome]) -> Trial:
    """Judge one candidate; the settings of a grid count alike."""
    scores = (statistics.fmean(o.score for o in outcomes if o.world.seed == seed) for seed in seeds)
    lost = sum(o.diverged for o in outcomes)
    return Trial(candidate.values, tuple(scores), lost, _metric(outcomes[0].world))
