"""Metrics of each world of a run folder, as arrays.

Axes: E evaluations, M clients that are recorded one by one (`coterie.runs.roster`), L labels. A client in an
array is its place among those. NaN stands for a client that had diverged by then,
or that is an attacker: results speak of honest clients.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coterie.core.errors import RunError
from coterie.core.support.owner_names import owner_name
from coterie.core.tasks.metric import KINDS_OF_SAMPLES, Metric, TaskFacts
from coterie.runs.roster import Roster
from coterie.storage.files import DAMAGE, read_json, read_rows

__all__ = [
    "LOSS",
    "SCORES",
    "Bits",
    "Exact",
    "Floats",
    "Ints",
    "Spread",
    "WeightUpdate",
    "WorldMetrics",
    "build_world_metrics",
    "by_name",
    "closing_phase",
    "read_weight_updates",
    "read_world_metrics",
    "with_twins",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.uint8]
"""Ones and zeros, eight a byte."""

SCORES = (*KINDS_OF_SAMPLES, "loss")
"""Columns of every run: the task's first metric on each kind of samples, and the loss of local steps."""
LOSS = Metric("loss", title="training loss", higher_is_better=False)
"""The metric of the column `loss`."""


class Exact(NamedTuple):
    """One score over all honest clients, recorded or not, `[E]` (`coterie.engine.population`)."""

    clients: Floats
    """Clients that have a number."""
    mean: Floats
    std: Floats
    worst10: Floats
    quantiles: Floats
    """`[E, 7]`"""


class Spread(NamedTuple):
    """One score of the honest clients at one evaluation."""

    mean: float
    std: float
    worst10: float
    """Mean over the worst tenth, at least one."""


@dataclass(frozen=True, eq=False)
class WorldMetrics:
    """One world: a method, a seed, a setting, and how it went."""

    world: int
    name: str
    """The row of the result table."""
    label: str
    """The world's method, whatever the setting."""
    seed: int
    setting: dict[str, Any]
    alone: bool
    """True if the world's method is Local."""
    classes: tuple[str, ...]
    group: Ints
    """`[M]`"""
    train: Ints
    """`[M]` training samples."""
    labels: Ints
    """`[M, L]` training samples of each label."""
    t: Ints
    """`[E]` iterations of the evaluations."""
    scores: dict[str, Floats]
    """`[E, M]` for each of SCORES, and for the columns of further metrics."""
    bytes: Ints
    """`[E]` sent so far by all clients together."""
    diverged: tuple[tuple[int, ...], ...]
    """The clients that had diverged at each evaluation."""
    gradients: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """`[E]` taken so far by all clients together."""
    attackers: tuple[int, ...] = ()
    models_carried: float | None = None
    """Memory of one client beside its model and optimiser, in models; None: not told."""
    owned: bool = False
    """True if the clients are the same in every seed: the data came dealt to their owners."""
    architecture: tuple[str, ...] = ()
    """The name of each client's architecture; none if all have one model."""
    owner: tuple[str, ...] = ()
    """The name of the owner of each client's samples; none where nobody has a name."""
    test: Ints | None = None
    """`[M]` personal test samples, where known."""
    correct: Bits | None = None
    """The personal test samples, client after client, that were got right at the end; None before it."""
    sample_losses: Floats | None = None
    """The losses of the personal test samples, where there is no right and wrong; None before the end."""
    task: TaskFacts = field(default_factory=TaskFacts)
    """The metrics of what is learned."""
    twin: WorldMetrics | None = None
    """The world of Local with the same seed and setting."""
    roster: Roster = None  # type: ignore[assignment]
    """The clients' numbers; not given: all are recorded."""
    exact: Mapping[str, Exact] = field(default_factory=dict)
    """Each score over all clients, where only a sample of them is recorded one by one."""
    lost: Ints | None = None
    """`[E]` honest clients that had diverged, where only a sample is recorded."""

    def __post_init__(self) -> None:
        if self.roster is None:
            object.__setattr__(self, "roster", Roster.all(self.group))

    @property
    def diverged_clients(self) -> list[int]:
        """Count the honest clients that had diverged at each evaluation, recorded or not."""
        return [*map(len, self.diverged)] if self.lost is None else self.lost.tolist()

    @property
    def attacking(self) -> int:
        """Count the attackers among all clients, recorded or not."""
        if "loss" not in self.exact or self.lost is None:
            return len(self.attackers)
        return int(self.roster.total - self.exact["personal"].clients[-1] - self.lost[-1])

    def metric(self, score: str = "personal") -> Metric:
        """Look up what a column of `scores` measures."""
        return self.task.columns().get(score, LOSS)

    def means(self, score: str) -> Floats:
        """Average over the clients, all of them, `[E]`; NaN where all had diverged."""
        if score in self.exact:
            return self.exact[score].mean
        values = self.scores[score]
        there = ~np.isnan(values)
        count = there.sum(axis=1)
        total = np.where(there, values, 0.0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def last(self, score: str) -> Spread | None:
        """Summarize the last evaluation over all clients; None where nobody has a number."""
        if (exact := self.exact.get(score)) is not None:
            return Spread(exact.mean[-1], exact.std[-1], exact.worst10[-1]) if exact.clients[-1] else None
        values = np.sort(self.scores[score][-1])
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        worst_first = values if self.metric(score).higher_is_better else values[::-1]
        return Spread(
            float(values.mean()), float(values.std()), float(worst_first[: -(-len(values) // 10)].mean())
        )

    def gain(self, score: str, e: int = -1) -> Floats | None:
        """Compute how much better each client is than alone at the same iteration, `[M]`, where known."""
        if self.twin is None or not len(same := np.flatnonzero(self.twin.t == self.t[e])):
            return None
        own, alone = self.scores[score][e], self.twin.scores[score][same[-1]]
        difference: Floats = self.metric(score).gain(own, alone)
        return difference

    def gain_or_nan(self, score: str) -> Floats:
        """Compute `gain` at the last evaluation, `[M]`, NaN where it is not known."""
        gain = self.gain(score)
        return np.full(len(self.group), np.nan) if gain is None else gain


class WeightUpdate(NamedTuple):
    """One client's new weights after it heard from others."""

    t: int
    client: int
    neighbours: Ints
    """`[K]` those heard."""
    weight: Floats
    """`[K]`"""


def by_name(tracks: Sequence[WorldMetrics]) -> dict[str, list[WorldMetrics]]:
    """Collect the worlds of each row of the result table: one for each seed."""
    methods: dict[str, list[WorldMetrics]] = defaultdict(list)
    for track in tracks:
        methods[track.name].append(track)
    return dict(methods)


def closing_phase(tracks: Sequence[WorldMetrics], experiment: Mapping[str, Any]) -> tuple[int, int]:
    """Find where the closing phase of the worlds begins, if it is the same for all, and the longest ends.

    Without one that all share, it begins at the end.
    """
    from coterie.experiment.schema import last_before_closing

    train, spans = experiment["train"], set()
    for setting in [track.setting for track in tracks] or [{}]:
        iterations = setting.get("train.iterations", train["iterations"])
        closing = setting.get("train.personalize", train["personalize"])
        spans.add((last_before_closing(iterations, closing), iterations))
    end = max(end for _, end in spans)
    return (spans.pop()[0] if len(spans) == 1 else end), end


def read_world_metrics(path: Path, experiment: Mapping[str, Any], task: TaskFacts) -> list[WorldMetrics]:
    """Read the worlds that have been evaluated at least once."""
    rows: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    worlds, clients = read_json(path / "worlds.json"), read_json(path / "clients.json")
    try:
        for row in read_rows(path / "metrics.jsonl"):
            rows[row["world"]][row["t"]] = row
    except DAMAGE as error:
        raise _misfit(path, error) from None
    return build_world_metrics(path, experiment, worlds, clients, rows, task)


def build_world_metrics(
    path: Path,
    experiment: Mapping[str, Any],
    worlds: Sequence[Mapping[str, Any]],
    clients: Sequence[Mapping[str, Any]],
    rows: Mapping[int, Mapping[int, Mapping[str, Any]]],
    task: TaskFacts,
) -> list[WorldMetrics]:
    """Build the worlds that have `rows`, by world and iteration, each with its twin."""
    try:
        tracks = [
            _track(
                w,
                worlds[w],
                clients[worlds[w]["federation"]],
                experiment,
                [rows[w][t] for t in sorted(rows[w])],
                task,
            )
            for w in sorted(rows)
        ]
    except DAMAGE as error:
        raise _misfit(path, error) from None
    return with_twins(tracks)


def with_twins(tracks: Sequence[WorldMetrics]) -> list[WorldMetrics]:
    """Give each world, of one run or several, its twin: the first of Local with the same seed and setting."""
    alone = {_twin_key(track): track for track in reversed(tracks) if track.alone}
    return [replace(track, twin=alone.get(_twin_key(track))) for track in tracks]


def read_weight_updates(path: Path) -> dict[int, list[WeightUpdate]]:
    """Read the weights that the clients of each world gave to those they heard, in time's order."""
    worlds: dict[int, list[WeightUpdate]] = defaultdict(list)
    try:
        for row in read_rows(path / "exchanges.jsonl"):
            if "weight" not in row:
                continue
            heard = row.get("heard", [True] * len(row["neighbours"]))
            known = [
                (j, w)
                for j, h, w in zip(row["neighbours"], heard, row["weight"], strict=True)
                if h and w is not None
            ]
            neighbours = np.array([j for j, _ in known], dtype=np.int64)
            weight = np.array([w for _, w in known], dtype=np.float64)
            worlds[row["world"]].append(WeightUpdate(row["t"], row["client"], neighbours, weight))
    except DAMAGE as error:
        raise RunError(f"{path / 'exchanges.jsonl'} is damaged: {error!r}") from None
    return dict(worlds)


def _misfit(path: Path, error: Exception) -> RunError:
    return RunError(
        f"{path} is damaged: metrics.jsonl, worlds.json and clients.json do not fit together ({error!r})"
    )


def _track(
    number: int,
    world: Mapping[str, Any],
    clients: Mapping[str, Any],
    experiment: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    task: TaskFacts,
) -> WorldMetrics:
    roster = Roster.parse(clients)
    m = len(roster)
    test = clients.get("test")
    attackers = _places(roster, clients.get("attackers", ()))
    diverged = tuple(
        tuple(c for c in _places(roster, row.get("diverged", ())) if c not in attackers) for row in rows
    )
    scores = {}
    for score in dict.fromkeys((*SCORES, *task.columns())):
        # float64 turns null into NaN
        given = [row.get(score) for row in rows]
        values = np.array(
            [[None] * m if v is None or not len(v) else v for v in given], dtype=np.float64
        ).reshape(-1, m)
        for e, lost in enumerate(diverged):
            values[e, [*lost, *attackers]] = np.nan
        scores[score] = values
    return WorldMetrics(
        world=number,
        name=world["name"],
        label=world["label"],
        seed=world["seed"],
        setting=world["setting"],
        alone=_alone(world, experiment),
        classes=tuple(clients["classes"]),
        group=np.array(clients["group"], dtype=np.int64),
        train=np.array(clients["train"], dtype=np.int64),
        labels=np.array(clients["labels"], dtype=np.int64).reshape(m, len(clients["classes"])),
        t=np.array([row["t"] for row in rows], dtype=np.int64),
        scores=scores,
        bytes=np.array([row.get("bytes", 0) for row in rows], dtype=np.int64),
        gradients=np.array([row.get("gradients", 0) for row in rows], dtype=np.int64),
        diverged=diverged,
        attackers=attackers,
        models_carried=rows[-1].get("models_carried"),
        owned=clients.get("owned", False),
        architecture=tuple(clients.get("architecture", ())),
        owner=_owners(clients.get("owner", ()), m),
        test=None if test is None else np.array(test, dtype=np.int64),
        correct=None if test is None else _correct(rows[-1], sum(test)),
        sample_losses=None if test is None else _sample_losses(rows[-1], sum(test)),
        task=task,
        roster=roster,
        exact=_exact(rows, scores) if roster.sampled else {},
        lost=np.array([row["all_diverged"] for row in rows], dtype=np.int64) if roster.sampled else None,
    )


def _owners(names: Sequence[Any], clients: int) -> tuple[str, ...]:
    """Read the owners' names, which may be anybody's text."""
    if names and len(names) != clients:
        raise ValueError(f"owner has {len(names)} names for {clients} clients")
    return tuple(map(owner_name, names))


def _places(roster: Roster, numbers: Sequence[int]) -> tuple[int, ...]:
    """Find clients, all of whom must be recorded."""
    found: list[int] = roster.places(numbers).tolist()
    if -1 in found:
        raise ValueError(f"client {numbers[found.index(-1)]} is not described")
    return tuple(found)


def _exact(rows: Sequence[Mapping[str, Any]], scores: Mapping[str, Floats]) -> dict[str, Exact]:
    """Read the numbers over all clients of each score."""
    nothing = {"clients": 0, "mean": None, "std": None, "worst10": None, "quantiles": [None] * 7}
    found = {}
    for score in scores:
        given = [{**nothing, **row["all"][score]} for row in rows]
        columns = (np.array([one[k] for one in given], dtype=np.float64) for k in Exact._fields)
        found[score] = Exact(*columns)
    return found


def _correct(row: Mapping[str, Any], samples: int) -> Bits | None:
    """Decode the samples that a row says were got right; None if the row does not say."""
    if "correct" not in row:
        return None
    bits = np.frombuffer(base64.b64decode(row["correct"], validate=True), dtype=np.uint8)
    if len(bits) != -(-samples // 8):
        raise ValueError(f"correct has {len(bits)} bytes for {samples} test samples")
    return bits


def _sample_losses(row: Mapping[str, Any], samples: int) -> Floats | None:
    """Decode the losses that a row has; None if it has none."""
    if "sample_losses" not in row:
        return None
    losses = np.frombuffer(base64.b64decode(row["sample_losses"], validate=True), dtype="<f4")
    if len(losses) != samples:
        raise ValueError(f"sample_losses has {len(losses)} losses for {samples} test samples")
    return losses.astype(np.float64)


def _alone(world: Mapping[str, Any], experiment: Mapping[str, Any]) -> bool:
    label = world["label"]
    method: str = world["setting"].get(f"methods.{label}.name", experiment["methods"][label]["name"])
    return method.rpartition(":")[2].lower() == "local"


def _twin_key(track: WorldMetrics) -> tuple[int, str]:
    return track.seed, json.dumps(track.setting, sort_keys=True)
