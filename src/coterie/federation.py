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
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from coterie.core.attack import Attack
from coterie.core.data import Dataset, Federation, Partition, Scaling, Split
from coterie.core.errors import ConfigError, DataError
from coterie.core.home import at_home
from coterie.core.registry import own_code
from coterie.core.streams import Stream
from coterie.datasets._given import dataset, sound
from coterie.datasets._steady import steady_test_part
from coterie.datasets._table import Table, table
from coterie.experiment import Attackers, Data, Experiment, Plugin
from coterie.models._given import model
from coterie.models._tokens import input_type
from coterie.partitions._draw import (
    Floats,
    Ints,
    Shelves,
    apart,
    cut,
    independently,
    position,
    shelves,
    spread,
)
from coterie.partitions.iid import IidPartitioner
from coterie.shifts._views import Views, names, views

__all__ = ["Dealer"]

ATTEMPTS = 10
"""How often all data are dealt anew if some client gets fewer than `data.min_partition_size`."""
TINY = 1e-9
"""Keeps a product such as 0.07 * 100 from being rounded up to 8."""
Mask: TypeAlias = npt.NDArray[np.bool_]


class Dealer:
    """Makes federations; what they have in common is read, computed and held in memory once."""

    def __init__(self, root: Path | None, scaling: Scaling | None = None, *, steady: bool = False) -> None:
        """`scaling`: the one that a trained model has, in place of one fitted to the training rows.

        `steady`: a row's own content says whether it is for testing, so that others may be added later.
        """
        self._root, self._scaling, self._steady = root, scaling, steady
        self._tables: dict[str, Table] = {}
        self._views: dict[str, Views] = {}
        self._federations: dict[tuple[str, int, str, int, int], Federation] = {}

    def federation(self, experiment: Experiment, seed: int) -> Federation:
        """The clients of an experiment for one seed."""
        data, uniform = experiment.data, experiment.evaluate.uniform
        rows = self._table(experiment)
        key = data.model_dump_json(), uniform, experiment.attack.model_dump_json(), id(rows), seed
        if key not in self._federations:
            if (attack := experiment.attack.attack) is None:
                test = _test_part(rows, data.test_share, seed, self._steady)
                seen = self._seen(data, rows)
                found = self._scaled(_federation(data, uniform, rows, test, seen, seed), rows, seen)
            else:
                honest = experiment.model_copy(update={"attack": Attackers()})
                found = _attacked(self.federation(honest, seed), experiment.attack, attack, seed)
            self._federations[key] = found
        return self._federations[key]

    def _table(self, experiment: Experiment) -> Table:
        """The data set, with whole numbers as the experiment's model takes them."""
        source, chosen = experiment.data.set, experiment.model
        if (key := source.model_dump_json()) not in self._tables:
            with at_home(experiment.home):
                self._tables[key] = table(_loaded(source, self._root))
        rows = self._tables[key]
        if rows.x.is_floating_point() or rows.transform == "standard":
            return rows
        if (own := key + chosen.model_dump_json()) not in self._tables:
            made = model(chosen.name, chosen.options, tuple(rows.x.shape[1:]), len(rows.classes))
            kind = input_type(made, chosen.name, rows.x)
            typed = self._tables.setdefault(f"{key} {kind}", rows._replace(x=rows.x.to(kind)))
            self._tables[own] = typed  # models that take the same share it
        return self._tables[own]

    def _seen(self, data: Data, rows: Table) -> Views:
        if (key := f"{id(rows)} {data.shift!r}") not in self._views:
            shifts = tuple(_plugin(s, "shift", f"data.shift.{k}", "inputs") for k, s in enumerate(data.shift))
            self._views[key] = views(rows.x, shifts)
        return self._views[key]

    def _scaled(self, found: Federation, rows: Table, seen: Views) -> Federation:
        """Scale the inputs as the data set wants them, fitted to the rows that some client trains on."""
        pool, scaling = found.pool, None
        if rows.transform == "standard":
            trained = np.unique(found.train.index.numpy() % len(rows.x))  # shifted copies lie end to end
            scaling = self._scaling or Scaling.of(rows.x[torch.from_numpy(trained)])
            pool = views(scaling(rows.x), seen.shifts).pool
        return dataclasses.replace(
            found, pool=pool, columns=rows.columns, transform=rows.transform, scaling=scaling
        )


def _loaded(plugin: Plugin, root: Path | None) -> Dataset:
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
    with own_code(f"{where} cannot be loaded", DataError):
        given = load()
    return sound(dataset(given, where), where)


def _plugin(plugin: Plugin, kind: str, where: str, method: str) -> Any:
    built = plugin.build(kind, where)
    if not callable(getattr(built, method, None)):
        raise ConfigError(f"{where}: {kind} {plugin.name!r} must be a dataclass with a method {method!r}")
    return built


def _federation(data: Data, uniform: int, rows: Table, test: Mask, seen: Views, seed: int) -> Federation:
    classes = len(rows.classes)
    standing = _standing(data, rows, len(seen.start))
    called = names(torch.from_numpy(rows.y), classes, seen.shifts, seed).numpy()
    start = seen.start.numpy()

    def stock(part: Mask, domain: Ints, purpose: str) -> Shelves:
        shape = int(domain.max()) + 1, classes
        return shelves(np.flatnonzero(part), domain[part], rows.y[part], shape, Stream(seed, purpose))

    def split(row: Ints, client: Ints) -> Split:
        combination = standing.combination[client]
        count = np.bincount(client, minlength=data.clients)
        columns = start[combination] + row, called[combination, row], count
        return Split(*(torch.from_numpy(column) for column in columns))

    by_task, by_owner = (rows.task, standing.task), (rows.owner, standing.client)
    domain, mine = by_owner if rows.owned else by_task
    held = _held(data, rows.owned, stock(~test, domain, "training part"), mine, seed)
    client = np.repeat(standing.client, held.train.size)
    shuffled = held.train.rows[np.lexsort((Stream(seed, "shuffle").uniform(len(client)).numpy(), client))]

    domain, mine = by_owner if rows.owner[test].max() >= 0 else by_task
    personal = _personal(data, held.weights, stock(test, domain, "personal test part"), mine, seed)

    balanced = _balanced(stock(test, rows.task, "uniform test part"), max(1, uniform // classes))
    size = np.array([len(part) for part in balanced])
    return Federation(
        pool=seen.pool,
        train=split(shuffled, client),
        validation=split(held.validation.rows, np.repeat(standing.client, held.validation.size)),
        personal=split(personal.rows, np.repeat(standing.client, personal.size)),
        uniform=split(
            np.concatenate([balanced[task] for task in standing.task]),
            np.repeat(standing.client, size[standing.task]),
        ),
        group=torch.from_numpy(standing.task * len(start) + standing.combination),
        classes=rows.classes,
    )


def _attacked(federation: Federation, who: Attackers, attack: Attack, seed: int) -> Federation:
    """The same clients, of whom the attackers train on the labels that their attack tells them."""
    train, classes = federation.train, len(federation.classes)
    lies = who.among(len(train.count), seed).repeat_interleave(train.count)
    with own_code(f"attack: {who.name!r} failed"):
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


class _Standing(NamedTuple):
    """Where every client stands, each `[M]`."""

    client: Ints
    task: Ints
    """Its group of tasks."""
    combination: Ints
    """Its combination of the shifts' groups."""


def _standing(data: Data, rows: Table, combinations: int) -> _Standing:
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
        return _Standing(client, task, client * combinations // data.clients)
    groups = tasks * combinations
    if groups > data.clients:
        raise ConfigError(
            f"data.clients = {data.clients} are too few for {groups} groups ({tasks} of tasks x "
            f"{combinations} of shifts); every group needs a client"
        )
    return _Standing(client, *np.divmod(client * groups // data.clients, combinations))


def _test_part(rows: Table, share: float, seed: int, steady: bool) -> Mask:
    """Which rows are for testing: if it is to be drawn, this share of every owner's, task's and label's."""
    if rows.test is not None:
        return rows.test
    test = steady_test_part(rows, share, seed) if steady else _drawn_test_part(rows, share, seed)
    if not test.any():
        raise DataError(
            f"no test part can be drawn from {len(rows.y)} samples of {len(rows.classes)} classes: every "
            f"class (of every owner and group) has a single sample"
        )
    return test


def _drawn_test_part(rows: Table, share: float, seed: int) -> Mask:
    domain = (rows.owner + 1) * (rows.task.max() + 1) + rows.task
    shape = int(domain.max()) + 1, len(rows.classes)
    stock = shelves(np.arange(len(rows.y)), domain, rows.y, shape, Stream(seed, "test part"))
    test = np.zeros(len(rows.y), dtype=bool)
    chosen = position(stock.size) < np.repeat(_share(stock.size, share).ravel(), stock.size.ravel())
    test[stock.rows[chosen]] = True
    return test


def _share(size: Ints, share: float) -> Ints:
    """Round this share of every shelf: at least one row, but never the last one."""
    rounded: Ints = np.minimum(np.rint(share * size).clip(min=1), (size - 1).clip(min=0)).astype(np.int64)
    return rounded


class _Rows(NamedTuple):
    """Rows of all clients, client after client."""

    rows: Ints
    size: Ints
    """`[M]`: how many rows a client has."""


class _Held(NamedTuple):
    """What clients have for training and validation."""

    train: _Rows
    validation: _Rows
    weights: Floats
    """`[M, L]`: the label proportions by which a client is tested, up to a factor."""


def _held(data: Data, owned: bool, stock: Shelves, mine: Ints, seed: int) -> _Held:
    partition: Partition = _plugin(data.partition, "partition", "data.partition", "proportions")
    if owned and not isinstance(partition, IidPartitioner):
        raise ConfigError(
            f"data.partition = {data.partition.name!r}, but the data come already dealt to their owners; "
            f"leave data.partition out"
        )
    if owned:
        return _owned(data, stock, mine, seed)
    share = data.validation / (1 + data.validation)
    aside, stock = cut(stock, _share(stock.size, share) if share else np.zeros_like(stock.size))
    if data.sizes == "all":
        return _dealt(data, partition, stock, aside, mine, seed)
    return _drawn(data, data.sizes, _proportions(partition, stock, mine, seed, 0), stock, aside, mine, seed)


def _owned(data: Data, stock: Shelves, mine: Ints, seed: int) -> _Held:
    """Set aside for validation the same share of each label of what every client owns."""
    counts = stock.size[mine]
    total = counts.sum(axis=1)
    train = np.floor(total / (1 + data.validation) + TINY).astype(np.int64).clip(min=total.clip(max=1))
    _refuse_few(data, train, stock.size.sum(), "")
    aside = spread(
        total - train, counts.astype(np.float64), counts, _uniforms(seed, "validation", counts.shape)
    )
    validation, rest = cut(stock, aside)  # every client is a domain of its own
    return _Held(
        _Rows(apart(rest, mine, counts - aside), train),
        _Rows(apart(validation, mine, aside), total - train),
        counts.astype(np.float64),
    )


def _drawn(
    data: Data, sizes: tuple[int, int], p: Floats, stock: Shelves, aside: Shelves, mine: Ints, seed: int
) -> _Held:
    """Draw as many samples for every client as `data.sizes` says, by label proportions `p` `[M, L]`."""
    span = sizes[1] - sizes[0] + 1
    clients = torch.arange(data.clients)
    train: Ints = sizes[0] + Stream(seed, "sizes").integers(1, client=clients, high=span)[:, 0].numpy()
    validation = np.ceil(data.validation * train - TINY).astype(np.int64)
    counts = _counts(data.overlap, train, p, stock, mine, _uniforms(seed, "labels", p.shape))
    ran_out = (train[:, None] * p - counts >= 1).any(axis=1, keepdims=True)
    weights = np.where(ran_out, counts, p)
    u = _uniforms(seed, "validation", p.shape)
    others = _counts(data.overlap, validation, weights, aside, mine, u)
    if (short := counts.sum(axis=1) + others.sum(axis=1) < train + validation).any():
        i = int(short.argmax())
        theirs = "" if data.overlap else " left by other clients"
        remedy = "" if data.overlap else "data.overlap = true, fewer clients, "
        raise DataError(
            f"client {i} needs {train[i]} samples for training and {validation[i]} for validation, of "
            f"{np.count_nonzero(p[i])} of the {p.shape[1]} labels, but the training part has only "
            f"{counts[i].sum()} + {others[i].sum()} such samples{theirs}; use smaller data.sizes, {remedy}or "
            f"a data.partition with more labels for each client"
        )

    if data.overlap:
        row = independently(stock, mine, counts, Stream(seed, "training samples"))
        other = independently(aside, mine, others, Stream(seed, "validation samples"))
    else:
        row, other = apart(stock, mine, counts), apart(aside, mine, others)
    return _Held(_Rows(row, train), _Rows(other, validation), weights)


def _counts(overlap: bool, total: Ints, weights: Floats, stock: Shelves, mine: Ints, u: Floats) -> Ints:
    """Count the samples of each label that every client draws, `[M, L]`; without overlap, one by one."""
    if overlap:
        return spread(total, weights, stock.size[mine], u)
    left, counts = stock.size.copy(), np.empty(weights.shape, dtype=np.int64)
    for i, domain in enumerate(mine):
        one = slice(i, i + 1)
        counts[one] = spread(total[one], weights[one], left[[domain]], u[one])
        left[domain] -= counts[i]
    return counts


def _dealt(data: Data, partition: Partition, stock: Shelves, aside: Shelves, mine: Ints, seed: int) -> _Held:
    """Deal out all samples, again and again until every client has enough of them to train on."""
    for attempt in range(ATTEMPTS):
        p = _proportions(partition, stock, mine, seed, attempt)
        counts, weights = _deal(stock, p, mine, seed, f"deal {attempt}")
        train = counts.sum(axis=1)
        if train.min() >= data.min_partition_size:
            break
    remedy = f" in the last of {ATTEMPTS} deals; use fewer clients, a more even data.partition, or data.sizes"
    _refuse_few(data, train, stock.size.sum() + aside.size.sum(), remedy)
    others, _ = _deal(aside, p, mine, seed, f"validation {attempt}")
    validation = _Rows(apart(aside, mine, others), others.sum(axis=1))
    return _Held(_Rows(apart(stock, mine, counts), train), validation, weights)


def _refuse_few(data: Data, train: Ints, total: int, remedy: str) -> None:
    if train.min() < data.min_partition_size:
        raise DataError(
            f"client {train.argmin()} gets {train.min()} of {total} samples for training, fewer than "
            f"data.min_partition_size = {data.min_partition_size}{remedy}"
        )


def _deal(stock: Shelves, p: Floats, mine: Ints, seed: int, purpose: str) -> tuple[Ints, Floats]:
    """All of the stock shared out among clients, `[M, L]`, and what they would get without rounding."""
    counts, exact = np.empty(p.shape, dtype=np.int64), np.empty(p.shape)
    for domain, who in _by_domain(mine):
        weights, there = p[who].T, stock.size[domain]
        u = _uniforms(seed, f"{purpose} {domain}", weights.shape)
        counts[who] = spread(there, weights, np.broadcast_to(there[:, None], weights.shape), u).T
        exact[who] = p[who] * (there / np.maximum(p[who].sum(axis=0), TINY))
    return counts, exact


def _proportions(partition: Partition, stock: Shelves, mine: Ints, seed: int, attempt: int) -> Floats:
    """Label proportions `[M, L]`, drawn in each domain from what it has."""
    classes = stock.size.shape[1]
    p = np.empty((len(mine), classes))
    for domain, who in _by_domain(mine):
        y = torch.arange(classes).repeat_interleave(torch.from_numpy(stock.size[domain]))
        clients = who.stop - who.start
        with own_code("data.partition failed"):
            part = partition.proportions(y, classes, clients, Stream(seed, f"proportions {attempt} {domain}"))
        if not isinstance(part, torch.Tensor):
            raise ConfigError(f"data.partition: proportions must be a tensor, got {type(part).__name__}")
        if flaw := _flaw(part, (clients, classes)):
            raise ConfigError(
                f"data.partition: proportions must have the shape ({clients}, {classes}), no negative entry "
                f"and rows that sum to one; got {flaw}"
            )
        p[who] = part.numpy()
    return p


def _personal(data: Data, weights: Floats, stock: Shelves, mine: Ints, seed: int) -> _Rows:
    """Draw the personal test samples of every client by its label proportions."""
    room = stock.size[mine]
    counts = spread(
        np.full(len(mine), data.test), weights, room, _uniforms(seed, "personal test", room.shape)
    )
    count = counts.sum(axis=1)
    if not count.all():
        i = int(count.argmin())
        raise DataError(
            f"client {i} has no test sample: none of its {np.count_nonzero(weights[i])} labels is among the "
            f"{room[i].sum()} samples of its test part; use a larger data.test_share or more test data"
        )
    return _Rows(independently(stock, mine, counts, Stream(seed, "personal test samples")), count)


def _balanced(stock: Shelves, each: int) -> list[Ints]:
    """For every group of tasks, as many rows of each label that occurs; repeated where there are fewer."""
    parts = []
    for task, (start, count) in enumerate(zip(stock.start, stock.size, strict=True)):
        there = count > 0
        if not there.any():
            raise DataError(f"group {task} has no test samples")
        parts.append(stock.rows[start[there, None] + np.arange(each) % count[there, None]].ravel())
    return parts


def _by_domain(mine: Ints) -> Iterator[tuple[int, slice]]:
    """Every domain and its clients, who stand side by side."""
    domains, first = np.unique(mine, return_index=True)
    for domain, start, stop in zip(domains, first, [*first[1:], len(mine)], strict=True):
        yield int(domain), slice(int(start), int(stop))


def _uniforms(seed: int, purpose: str, shape: tuple[int, ...]) -> Floats:
    """What `spread` needs for that many rows and places."""
    u: Floats = Stream(seed, purpose).uniform(shape[1] + 1, client=torch.arange(shape[0])).numpy()
    return u


def _flaw(p: torch.Tensor, shape: tuple[int, int]) -> str | None:
    """Say what in a partition's answer is no label proportions."""
    if p.shape != shape:
        return f"shape {tuple(p.shape)}"
    sound = (p >= 0).all(dim=1) & ((p.double().sum(dim=1) - 1).abs() <= 1e-6)  # not so where there is a NaN
    return None if bool(sound.all()) else f"a row {[round(share, 6) for share in p[~sound][0].tolist()]}"
