"""Deal a data set to clients: which samples each of them has, sees and calls what.

Clients stand in groups, one after the other: client i of M is in group i G // M, where G is the
product of the groups of every shift and of the groups of tasks that the data come in.

* With a range of `data.sizes`, a client draws its training samples by its label proportions; where a label
  runs out, the others fill up in proportion, and the labels it got are its proportions from then on. With
  "all", all samples are dealt out in proportion, no sample twice.
* Validation samples are drawn like the test samples: by the client's label proportions, rounded
  independently of its training samples, from a part of the data that nobody trains on.
* Data that come already dealt (`Samples.owner`) stay so: every client has all of its own samples, the same
  share of each of its labels for validation, and `data.sizes` and `data.overlap` have no say.
* Personal test samples follow the client's label proportions, no sample twice; they are fewer than
  `data.test` if there are no more.
* The uniform test has `evaluate.uniform // L` samples of every label, at least one; the samples of a
  label that has fewer are repeated. It is the same for all clients of a group of tasks.
* Where targets are no classes, all samples count as of one label, or of a few bins of the target if the task
  says so; the uniform test then has `evaluate.uniform` samples, or as many as there are.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from coterie.core.attack import Attack
from coterie.core.data import Dataset, Federation, Partition, Scaling, Split
from coterie.core.errors import ConfigError, DataError
from coterie.core.models.model_factory import build_model, input_type
from coterie.core.own.home import at_home
from coterie.core.own.own_data import as_dataset
from coterie.core.registry import user_code
from coterie.core.streams import Stream
from coterie.core.tasks.task_kind import TaskKind
from coterie.experiment import Attackers, Data, Experiment, Plugin, World
from coterie.federation.allocation import allocate, personal_test, uniform_test
from coterie.federation.label_bins import Ints, LabelBins, Mask, label_bins, shuffled_within
from coterie.federation.table import Rows, table
from coterie.federation.test_part import test_part
from coterie.federation.validation import validate_dataset
from coterie.federation.views import Views, names, refuse_label_shifts, views
from coterie.plugins.partitions.iid import IidPartitioner

__all__ = ["Dealer"]


class Dealer:
    """Makes federations; what they have in common is read, computed and held in memory once."""

    def __init__(self, root: Path | None, scaling: Scaling | None = None, *, steady: bool = False) -> None:
        """`scaling`: the one that a trained model has, in place of one fitted to the training rows.

        `steady`: a row's own content says whether it is for testing, so that others may be added later.
        """
        self._root, self._scaling, self._steady = root, scaling, steady
        self._tables: dict[str, Rows] = {}
        self._views: dict[str, Views] = {}
        self._federations: dict[tuple[str, int, str, int, int], Federation] = {}
        self._pooled: dict[int, Federation] = {}

    def of(self, world: World) -> Federation:
        """Make the clients of a world; those of an algorithm that `pools` train on the samples of all."""
        found = self.federation(world.experiment, world.seed)
        if not world.algorithm.pools:
            return found
        return self._pooled.setdefault(id(found), dataclasses.replace(found, train=_of_all(found.train)))

    def federation(self, experiment: Experiment, seed: int) -> Federation:
        """Make the clients of an experiment for one seed."""
        data, rows = experiment.data, self._table(experiment)
        key = (
            data.model_dump_json(),
            experiment.evaluate.uniform,
            experiment.attack.model_dump_json(),
            id(rows),
            seed,
        )
        if key not in self._federations:
            if (attack := experiment.attack.attack) is None:
                test = test_part(rows, data.test_share, seed, self._steady)
                seen = self._seen(data, rows)
                found = self._scaled(_federation(experiment, rows, test, seen, seed), rows, seen)
            else:
                honest = experiment.model_copy(update={"attack": Attackers()})
                found = _attacked(self.federation(honest, seed), experiment, attack, seed)
            self._federations[key] = found
        return self._federations[key]

    def _table(self, experiment: Experiment) -> Rows:
        """Load the data set, with whole numbers as the experiment's model takes them."""
        source, models, kind = experiment.data.set, experiment.architectures, experiment.task_kind
        if (key := source.model_dump_json() + experiment.task.model_dump_json()) not in self._tables:
            with at_home(experiment.home):
                self._tables[key] = table(_loaded(source, self._root, kind), kind)
        rows = self._tables[key]
        if rows.x.is_floating_point() or rows.transform == "standard":
            return rows
        if (own := f"{key} {models!r}") not in self._tables:
            shape = tuple(rows.x.shape[1:])
            outputs = kind.shape(shape, rows.classes)[-1]
            made = {one.name: build_model(one.name, one.options, shape, outputs) for one in models}
            dtypes = {name: input_type(model, name, rows.x) for name, model in made.items()}
            if len(set(dtypes.values())) > 1:
                taken = ", ".join(f"{name!r} takes {str(dtype)[6:]}" for name, dtype in dtypes.items())
                raise ConfigError(
                    f"model: samples are whole numbers, which the models take differently: {taken}; "
                    "clients of one federation must take the same, so leave one of them out"
                )
            dtype = next(iter(dtypes.values()))
            typed = self._tables.setdefault(f"{key} {dtype}", rows._replace(x=rows.x.to(dtype)))
            self._tables[own] = typed  # models that take the same share it
        return self._tables[own]

    def _seen(self, data: Data, rows: Rows) -> Views:
        if (key := f"{id(rows)} {data.shift!r}") not in self._views:
            shifts = tuple(_plugin(s, "shift", f"data.shift.{k}", "inputs") for k, s in enumerate(data.shift))
            self._views[key] = views(rows.x, shifts)
        return self._views[key]

    def _scaled(self, found: Federation, rows: Rows, seen: Views) -> Federation:
        """Scale the inputs as the data set wants them, fitted to the rows that some client trains on."""
        pool, scaling = found.pool, None
        if rows.transform == "standard":
            trained = np.unique(found.train.index.numpy() % len(rows.x))  # shifted copies lie end to end
            scaling = self._scaling or Scaling.of(rows.x[torch.from_numpy(trained)])
            pool = views(scaling(rows.x), seen.shifts).pool
        return dataclasses.replace(
            found, pool=pool, columns=rows.columns, transform=rows.transform, scaling=scaling
        )


def _loaded(plugin: Plugin, root: Path | None, kind: TaskKind) -> Dataset:
    where = f"data set {plugin.name!r}"
    source = plugin.build("dataset", "data.set")
    if isinstance(source, functools.partial):
        try:
            inspect.signature(source).bind()
        except TypeError as error:
            raise ConfigError(f"data.set: {plugin.name} has a {error}; give it as an option") from None
        load = source
    else:
        load = functools.partial(_plugin(plugin, "dataset", "data.set", "load").load, root)
    with user_code(f"{where} cannot be loaded", DataError):
        given = load()
    return validate_dataset(as_dataset(given, where), where, kind)


def _plugin(plugin: Plugin, kind: str, where: str, method: str) -> Any:
    built = plugin.build(kind, where)
    if not callable(getattr(built, method, None)):
        raise ConfigError(f"{where}: {kind} {plugin.name!r} must be a dataclass with a method {method!r}")
    return built


def _federation(experiment: Experiment, rows: Rows, test: Mask, seen: Views, seed: int) -> Federation:
    data, uniform, kind = experiment.data, experiment.evaluate.uniform, experiment.task_kind
    assigned = _group_assignment(data, rows, len(seen.start))
    if kind.has_classes:
        target_of = names(rows.y, len(rows.classes), seen.shifts, seed)
    else:
        refuse_label_shifts(seen.shifts, experiment.task.name)
        target_of = rows.y.expand(len(seen.start), *rows.y.shape)
    start = seen.start.numpy()

    def bins(part: Mask, domain: Ints, purpose: str) -> LabelBins:
        shape = int(domain.max()) + 1, rows.strata
        return label_bins(
            np.flatnonzero(part), domain[part], rows.stratum[part], shape, Stream(seed, purpose)
        )

    def split(row: Ints, client: Ints) -> Split:
        combination = assigned.combination[client]
        count = np.bincount(client, minlength=data.clients)
        target = target_of[torch.from_numpy(combination), torch.from_numpy(row)]
        return Split(torch.from_numpy(start[combination] + row), target, torch.from_numpy(count))

    by_task, by_owner = (rows.task, assigned.task), (rows.owner, assigned.client)
    domain, domain_of = by_owner if rows.owned else by_task
    held = allocate(data, _partition(experiment, rows), bins(~test, domain, "training part"), domain_of, seed)
    client = np.repeat(assigned.client, held.train.size)
    shuffled = held.train.rows[shuffled_within(client, Stream(seed, "shuffle"))]

    domain, domain_of = by_owner if rows.owner[test].max() >= 0 else by_task
    personal = personal_test(data, held.weights, bins(test, domain, "personal test part"), domain_of, seed)

    uniform_bins, each = bins(test, rows.task, "uniform test part"), max(1, uniform // rows.strata)
    balanced = uniform_test(uniform_bins, each, repeat=kind.has_classes)
    size = np.array([len(part) for part in balanced])
    return Federation(
        pool=seen.pool,
        train=split(shuffled, client),
        validation=split(held.validation.rows, np.repeat(assigned.client, held.validation.size)),
        personal=split(personal.rows, np.repeat(assigned.client, personal.size)),
        uniform=split(
            np.concatenate([balanced[task] for task in assigned.task]),
            np.repeat(assigned.client, size[assigned.task]),
        ),
        group=torch.from_numpy(assigned.task * len(start) + assigned.combination),
        classes=rows.classes,
        owned=rows.owned,
        owners=_owners(rows, assigned),
    )


def _owners(rows: Rows, assigned: _Assignment) -> tuple[str, ...]:
    """Name the owner of each client's samples, `[M]`; nobody where there are no names."""
    if not rows.owners:
        return ()
    of = assigned.client if rows.owned else assigned.task
    return tuple(rows.owners[i] for i in of.tolist())


def _partition(experiment: Experiment, rows: Rows) -> Partition | None:
    """Build the partition plugin; None where the data come already dealt to their owners."""
    data = experiment.data
    partition: Partition = _plugin(data.partition, "partition", "data.partition", "proportions")
    if isinstance(partition, IidPartitioner):
        return None if rows.owned else partition
    if rows.owned:
        raise ConfigError(
            f"data.partition = {data.partition.name!r}, but the data come already dealt to their owners; "
            f"leave data.partition out"
        )
    if rows.strata == 1:
        remedy = ", or give the task bins of its target" if hasattr(experiment.task_kind, "bins") else ""
        raise ConfigError(
            f"data.partition = {data.partition.name!r} deals by labels, but the targets of the task "
            f"{experiment.task.name!r} are no classes; leave data.partition out{remedy}"
        )
    return partition


def _of_all(split: Split) -> Split:
    """Give every client the samples of all."""
    m, total = len(split.count), int(split.count.sum())
    label = split.label.repeat(m, *(1 for _ in split.label.shape[1:]))
    return Split(split.index.repeat(m), label, torch.full_like(split.count, total))


def _attacked(federation: Federation, experiment: Experiment, attack: Attack, seed: int) -> Federation:
    """Let the attackers among the clients train on the labels that their attack tells them."""
    who, train, classes = experiment.attack, federation.train, len(federation.classes)
    kind, renames = experiment.task_kind, type(attack).labels is not Attack.labels
    if (attack.needs_classes or renames) and not kind.predicts_classes:
        raise ConfigError(
            f"attack: {who.name!r} needs labels, but the targets of the task {experiment.task.name!r} "
            "are no classes; use another attack"
        )
    if not kind.predicts_classes:
        return federation
    lies = who.among(len(train.count), seed).repeat_interleave(train.count)
    with user_code(f"attack: {who.name!r} failed"):
        trains, told = attack.trains, attack.labels(train.label, classes)
    if not isinstance(trains, bool):
        raise ConfigError(f"attack: {who.name!r}: trains must be true or false, got {type(trains).__name__}")
    if (
        not isinstance(told, torch.Tensor)
        or told.shape != train.label.shape
        or told.dtype != train.label.dtype
        or not bool(((told >= 0) & (told < classes)).all())
    ):
        raise ConfigError(
            f"attack: {who.name!r}: labels must stay {len(train.label)} whole numbers from 0 to {classes - 1}"
        )
    label = torch.where(lies, told, train.label)
    return dataclasses.replace(federation, train=dataclasses.replace(train, label=label))


class _Assignment(NamedTuple):
    """The groups that every client belongs to, each `[M]`."""

    client: Ints
    task: Ints
    """The client's group of tasks."""
    combination: Ints
    """The client's combination of the shifts' groups."""


def _group_assignment(data: Data, rows: Rows, combinations: int) -> _Assignment:
    client = np.arange(data.clients)
    tasks = int(rows.task.max()) + 1
    trained = rows.task if rows.test is None else rows.task[~rows.test]
    if (count := np.bincount(trained, minlength=tasks)).min() == 0:
        raise DataError(
            f"group {count.argmin()} of {tasks} has no training samples; number groups without gaps"
        )
    if rows.owned:
        owners, first = np.unique(rows.owner, return_index=True)
        owners, first = owners[owners >= 0], first[owners >= 0]
        if not np.array_equal(owners, client):
            raise DataError(
                f"the data come dealt to {len(owners)} owners, numbered from {owners[0]} to {owners[-1]}, "
                f"but data.clients = {data.clients}; set data.clients = {len(owners)} (and number from 0)"
            )
        task = rows.task[first]
        if (mixed := (rows.owner >= 0) & (rows.task != task[rows.owner])).any():
            raise DataError(
                f"client {rows.owner[mixed.argmax()]} owns samples of several groups, expected one"
            )
        return _Assignment(client, task, client * combinations // data.clients)
    groups = tasks * combinations
    if groups > data.clients:
        raise ConfigError(
            f"data.clients = {data.clients} are too few for {groups} groups ({tasks} of tasks x "
            f"{combinations} of shifts); every group needs a client"
        )
    return _Assignment(client, *np.divmod(client * groups // data.clients, combinations))
