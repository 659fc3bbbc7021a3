"""All peers' lives again, in an order that respects who heard whom, and how far they agree.

A peer's models form a line from version to version, with a step back where it was killed and resumed
from what it had saved; a mix joins lines. So the journals are a graph without cycles, and any order
that has a model ready before it is heard gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coterie.core.data import Federation
from coterie.core.errors import RunError
from coterie.core.types import Info, Message, State
from coterie.peer.persistence import checkpoint
from coterie.peer.transport.base import Version
from coterie.replay.history import History, find, needed
from coterie.replay.twin import Received, Twin
from coterie.storage.files import finite

__all__ = ["TOLERANCE", "Agreement", "Parting", "replay"]

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-9}
"""The largest difference that two numbers may have, as a share of the larger of them and one. The simulator
batches, so it rounds otherwise; that alone comes to 1e-7 in float32, and to 1e-4 where BatchNorm divides
by little."""
ROUNDED = 0.1
"""The same in float32 where messages are rounded (`exchange.precision`): a number that lies between two steps
falls now to the one, now to the other, and learning carries that on. In float64 that does not happen."""

_REMEMBERED = ("memory/", "rows/")
"""Parts of a state that a method remembers beside its model."""

Progress = Callable[[str, int, int], None]
"""`(peer, rows done, rows)`"""


class Parting(NamedTuple):
    """The first exchange of which a peer's journal tells something else than its twin."""

    line: int
    """The line of the journal."""
    kind: str
    t: int
    what: str
    """The reported value that differs, such as `distance`."""
    apart: float
    after: int
    """Exchanges of all peers that were computed before: the peer that parted first has the fewest."""


class Agreement(NamedTuple):
    """The agreement of one peer's saved model with its twin's."""

    peer: str
    version: Version | None
    """The version of the compared model, the last that the peer saved; None: the peer never saved one."""
    t: int
    steps: int
    mixes: int
    adoptions: int
    lives: int
    model: float
    """The largest difference of all parameters and buffers."""
    graph: float
    """The largest difference of what its method remembers, such as its row of W."""
    tolerance: float
    parted: Parting | None
    """The exchange to look at if peer and twin do not agree."""

    @property
    def agrees(self) -> bool:
        return max(self.model, self.graph) <= self.tolerance


class _Waiting(NamedTuple):
    """A model that must be computed first."""

    peer: str
    version: Version


def replay(
    logs: Sequence[Path],
    root: Path | None = None,
    progress: Progress = lambda peer, done, rows: None,
    tolerance: float | None = None,
) -> list[Agreement]:
    """Compute again what the peers under these folders did, and compare it with what they saved."""
    histories = find(logs)
    wanted = needed(histories)
    twins = _Twins(root)
    lives = {h.peer: _Life(h, wanted[h.peer], twins.of(h), tolerance) for h in histories}
    going = {peer: life.run(lives) for peer, life in lives.items()}
    waiting: dict[str, _Waiting | None] = dict.fromkeys(going)
    while going:
        moved = False
        for peer in list(going):
            want = waiting[peer]
            if want is not None and want.version not in lives[want.peer].kept:
                continue
            moved = True
            try:
                waiting[peer] = next(going[peer])
            except StopIteration:
                del going[peer]
            progress(peer, lives[peer].done, len(lives[peer].history.rows))
        if not moved:
            peer, want = next((p, w) for p in going if (w := waiting[p]) is not None)
            raise RunError(
                f"{peer} heard the model {want.version.incarnation}:{want.version.event} of {want.peer}, "
                f"but the journal of {want.peer} does not tell how it came to be; it is cut short or of "
                "another swarm"
            )
    return [life.agreement() for life in lives.values()]


class _Life:
    """One peer, again."""

    def __init__(self, history: History, wanted: set[Version], twin: Twin, tolerance: float | None) -> None:
        self.history, self.wanted, self.twin = history, wanted, twin
        self.tolerance = _tolerance(twin) if tolerance is None else tolerance
        self.kept: dict[Version, tuple[State, int]] = {}
        """The models that are wanted, each with the iteration it was at."""
        self.feedback: dict[Version, dict[str, Message]] = {}
        """What went back to each peer when a model that is wanted was mixed, if the method `feeds_back`."""
        self.version, self.t = Version(0, 0), 0
        self.done = self.steps = self.mixes = self.adoptions = self.lives = 0
        self.parted: Parting | None = None

    def run(self, others: dict[str, _Life]) -> Iterator[_Waiting]:
        """Go through the journal; yields what it has to wait for."""
        for row in self.history.rows:
            self.done += 1
            match row["kind"]:
                case "start":
                    self.lives += 1
                    self._refuse_other_data(row.get("samples"))
                    self.twin.state, self.t = self.twin.first(), 0
                    self._at(Version(row["incarnation"], 0))
                case "resumed":
                    back = Version(*row["version"])
                    if back not in self.kept:
                        raise self._damaged(f"it resumes from {list(back)}, which it never was at")
                    self.twin.state, self.t = self.kept[back]
                    self._at(Version(self.version.incarnation, back.event))
                case "local":
                    self._steps(*row["t"])
                    self._agree(row["event"])
                case "mix":
                    heard = []
                    for (peer, version, slot), asked in zip(row["heard"], self._asked(row), strict=True):
                        yield from self._wait(others, peer, Version(*version))
                        reply = self._reply(others[peer], Version(*version), asked)
                        heard.append(Received(slot, reply, self._architecture(others[peer])))
                    self._compare(row, self.twin.mix(row["t"], heard), others)
                    self.mixes += 1
                    self._changed(row)
                    self._keep_feedback([peer for peer, *_ in row["heard"]])
                case "adopt":
                    peer, version = row["peer"], Version(*row["version"])
                    yield from self._wait(others, peer, version)
                    one = self._told(others[peer], version, row["slot"])
                    self._compare(row, self.twin.adopt(row["t"], one), others)
                    self.adoptions += 1
                    self._changed(row)
                case "slot" if row["event"] is not None:
                    self.twin.reset_slot(row["slot"])
                    self._changed(row)

    def agreement(self) -> Agreement:
        """Compare the last saved model with the twin's of the same version."""
        version, t, model, graph = None, 0, 0.0, 0.0
        if found := self.history.saved():
            version, t, saved = found
            if version not in self.kept:
                raise self._damaged(f"the model on disk is {list(version)}, of which it does not tell")
            mine = checkpoint.tensors(
                State(*({k: v[0] for k, v in part.items()} for part in self.kept[version][0]))
            )
            if mine.keys() != saved.keys():
                raise self._damaged(f"the tensors on disk are others: {sorted(mine.keys() ^ saved.keys())}")
            apart = {name: _apart(mine[name], tensor) for name, tensor in saved.items()}
            graph = max((d for name, d in apart.items() if name.startswith(_REMEMBERED)), default=0.0)
            model = max(d for name, d in apart.items() if not name.startswith(_REMEMBERED))
        return Agreement(
            self.history.peer,
            version,
            t,
            self.steps,
            self.mixes,
            self.adoptions,
            self.lives,
            model,
            graph,
            self.tolerance,
            self.parted,
        )

    def _at(self, version: Version) -> None:
        self.version = version
        if version in self.wanted:
            self.kept[version] = self.twin.state, self.t

    def _steps(self, first: int, last: int) -> None:
        def look(t: int, _state: State) -> None:
            self.steps += 1
            self.t = t
            self._at(Version(self.version.incarnation, self.version.event + 1))

        self.twin.local(first, last, look)

    def _changed(self, row: dict[str, Any]) -> None:
        self._at(Version(self.version.incarnation, self.version.event + 1))
        self._agree(row["event"])

    def _compare(self, row: dict[str, Any], info: Info, others: dict[str, _Life]) -> None:
        """Compare what an exchange came to, as the peer told and as its twin computes."""
        if self.parted is not None:
            return
        twin = {name: _numbers(told) for name, told in finite(info).items()}
        peer = {name: _numbers(told) for name, told in row["info"].items()}
        if any(name not in peer or len(peer[name]) != len(twin[name]) for name in twin):
            raise self._damaged(f"line {self.done} does not report what such an exchange comes to")
        apart = {name: _apart(twin[name], peer[name]) for name in twin}
        what = max(apart, key=apart.__getitem__, default="")
        if what and apart[what] > self.tolerance:
            after = sum(life.mixes + life.adoptions for life in others.values())
            self.parted = Parting(self.done, row["kind"], row["t"], what, apart[what], after)

    def _asked(self, row: dict[str, Any]) -> list[Version | None]:
        """List the own version that asked each model heard; None: replies are alike for everybody."""
        if not self.twin.algorithm.answers:
            return [None] * len(row["heard"])
        asked = [Version(*version) for version in row.get("asked", ())]
        if len(asked) != len(row["heard"]) or not all(version in self.kept for version in asked):
            raise self._damaged(f"line {self.done} does not tell what was asked")
        return [*asked]

    def _reply(self, life: _Life, version: Version, asked: Version | None) -> Message:
        """Compute what a peer of that version replied, to the question of the own version `asked`."""
        if asked is None:
            return _offer(life, version)
        return life.twin.reply(*life.kept[version], self.twin.question(*self.kept[asked]))

    def _keep_feedback(self, heard: Sequence[str]) -> None:
        if self.version in self.wanted:
            back = zip(heard, self.twin.feedback, strict=False)
            self.feedback[self.version] = {peer: message for peer, message in back if message}

    def _told(self, star: _Life, version: Version, slot: int) -> Received:
        """Compute what a star of that version sent to this peer: its offer, or feedback."""
        if not self.twin.algorithm.feeds_back:
            return Received(slot, _offer(star, version), self._architecture(star))
        message = star.feedback.get(version, {}).get(self.history.peer)
        if message is None:
            raise self._damaged(
                f"line {self.done} tells of feedback of {star.history.peer}, which did not hear it then"
            )
        return Received(slot, message, self.twin.client.architectures.own)

    def _architecture(self, other: _Life) -> int:
        """Find the place of another peer's architecture among those that this one knew."""
        among, theirs = self.twin.client.architectures, other.twin.client.architectures
        if (label := theirs.labels[theirs.own]) not in among.labels:
            raise self._damaged(
                f"it heard {other.history.peer}, whose architecture {label!r} is not in its list `model`"
            )
        return among.labels.index(label)

    def _agree(self, event: int) -> None:
        if self.version.event != event:
            raise self._damaged(f"line {self.done} is of event {event}, expected {self.version.event}")

    def _wait(self, others: dict[str, _Life], peer: str, version: Version) -> Iterator[_Waiting]:
        if peer not in others:
            raise RunError(
                f"{self.history.peer} heard {peer}, whose journal is not among those given; name its state "
                "folder too"
            )
        if version not in others[peer].kept:
            yield _Waiting(peer, version)

    def _refuse_other_data(self, samples: int | None) -> None:
        """Refuse data of another size: a file of a peer's own may have got more rows since."""
        now = len(self.twin.client.own.train.y)
        if self.history.settings.client is None and samples not in (None, now):
            raise RunError(
                f"in life {self.lives} {self.history.peer} had {samples} samples to train on, but the data "
                f"have {now} now, so its models cannot be computed again; bring back the data that it had"
            )

    def _damaged(self, why: str) -> RunError:
        return RunError(f"the journal of {self.history.peer} in {self.history.folder} is damaged: {why}")


def _offer(life: _Life, version: Version) -> Message:
    return life.twin.offer(*life.kept[version])


def _tolerance(twin: Twin) -> float:
    rounded = twin.client.precision != "full" and twin.client.dtype == torch.float32
    return ROUNDED if rounded else TOLERANCE[twin.client.dtype]


def _apart(one: Tensor, other: Tensor) -> float:
    """Find the largest difference, as a share of the larger number where that is above one."""
    if not one.numel():
        return 0.0
    a, b = one.double(), other.double()
    return float(((a - b).abs() / torch.maximum(a.abs(), b.abs()).clamp_min(1)).max())


def _numbers(told: Any) -> Tensor:
    """Flatten a report into `[N]` numbers; what is not finite is null there, and zero here."""
    return torch.tensor([float(x or 0) for x in _flat(told)], dtype=torch.float64)


def _flat(told: Any) -> Iterator[Any]:
    if isinstance(told, list):
        for one in told:
            yield from _flat(one)
    else:
        yield told


class _Twins:
    """Makes twins; clients of one experiment share their data in memory, others have their own."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.federations: dict[str, Federation] = {}

    def of(self, history: History) -> Twin:
        settings, scaling = history.settings, history.scaling()
        root = self.root or settings.data_folder(history.folder)
        alike = (
            root,
            settings.client is None,
            settings.seed,
            settings.data,
            settings.task,
            settings.evaluate,
            settings.attack,
            scaling and (scaling.mean.tolist(), scaling.deviation.tolist()),
        )
        key = repr(alike)
        if key not in self.federations:
            self.federations[key] = settings.federation(root, scaling)
        federation = self.federations[key]
        return Twin(settings.client_of(history.peer, federation), federation, settings.slot)
