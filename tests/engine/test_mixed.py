"""Worlds whose clients have several architectures: one stack for each, exchanges across them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.errors import CoterieError
from coterie.core.ingredients.messages import alike
from coterie.core.sampling import Purpose
from coterie.core.types import Batch, Context, Foreign, Inbox, Message, Probe, State
from coterie.engine.checkpoint import load
from coterie.engine.layout import Stack
from coterie.engine.plan import Plan, prepare
from coterie.engine.runner import simulate
from coterie.experiment import Experiment
from coterie.schedule import Meeting, Schedule
from tests.engine.recording import Recording, Watcher
from tests.engine.small import KINDS, experiment, hard
from tests.trees import close, pick, same

SMALL, TWIN = {"name": "mlp", "hidden": [5]}, {"name": "tests.engine.nets:five_hidden"}
WIDE, DEEP = {"name": "mlp", "hidden": [7], "norm": "batch"}, {"name": "mlp", "hidden": [4, 3]}


def lived(plan: Plan, folder: Path, **options: Any) -> Recording:
    folder.mkdir(exist_ok=True)
    recording = Recording(folder)
    assert simulate(plan, recording, **options)
    return recording


def final(plan: Plan, recording: Recording) -> dict[str, Tensor]:
    file = recording.path / "checkpoint-0.safetensors"
    return load(file, plan.experiment.fingerprint(), plan.data_hash()).tensors


def test_two_entries_of_one_shape_are_as_one_model(tmp_path: Path) -> None:
    """Two stacks, whose messages all cross, give what one stack gives: rows, bytes, gradients."""
    methods, changes = [*KINDS, "KD-PDFL"], {"train__init": "shared", "data__clients": 5}
    one = hard(methods=methods, **changes).replace(model=SMALL)
    two = one.replace(model=[SMALL, TWIN])
    plan = prepare(two)
    assert [len(stack.together) for stack in plan.stacks] == [2]
    assert {task.foreign for task in (stack.task for stack in plan.stacks[0].together)} == {()}
    want, got = lived(prepare(one), tmp_path / "one"), lived(plan, tmp_path / "two")
    for name in ("metrics", "exchanges"):
        order = [sorted(r.rows[name], key=lambda row: (row["t"], row["world"])) for r in (got, want)]
        close(order[0], order[1])


def test_an_entry_given_twice_is_one_stack(tmp_path: Path) -> None:
    one, twice = (experiment().replace(model=model) for model in (SMALL, [SMALL, SMALL]))
    plan = prepare(twice)
    assert [len(stack.together) for stack in plan.stacks] == [1]
    got, want = lived(plan, tmp_path / "a"), lived(prepare(one), tmp_path / "b")
    assert repr(got.rows) == repr(want.rows)


MIXED = {"data__clients": 7, "exchange__stars": 2, "train__personalize": 0.0, "exchange__channel": "ideal"}


@pytest.mark.parametrize("method", ["FedAvg", "KD-PDFL", "L2C"])
def test_mixed_is_client_by_client(tmp_path: Path, method: str) -> None:
    """Three architectures in stacks, and every client on its own by bare calls."""
    e = experiment(methods=[method], **MIXED).replace(model=[SMALL, WIDE, DEEP])
    plan = prepare(e)
    recording = lived(plan, tmp_path / "run")
    tensors = final(plan, recording)
    reference = Alone(plan)
    reference.live()
    moved = False
    for a, part in enumerate(plan.stacks[0].together):
        first = part.initial().whole.params
        for i, client in enumerate(part.members[0].numbers.tolist()):
            for name, want in reference.states[client].params.items():
                same(tensors[f"{a}/params/{name}"][i], want, 1e-10)
                moved |= not torch.equal(first[name][i], want)
    assert moved


class Alone:
    """The only world of a plan, client by client."""

    def __init__(self, plan: Plan) -> None:
        (self.stack,) = plan.stacks
        members = [part.members[0] for part in self.stack.together]
        self.schedule: Schedule = members[0].schedule
        self.algorithm = members[0].algorithm
        self.where: dict[int, tuple[Stack, int]] = {
            int(number): (part, i)
            for part, member in zip(self.stack.together, members, strict=True)
            for i, number in enumerate(member.numbers)
        }
        self.states = {}
        for number, (part, i) in self.where.items():
            clients = part.initial()
            self.states[number] = State(*(pick(p, i) for p in clients.parts[0]))

    def live(self) -> None:
        met: Meeting
        for t in range(1, self.stack.iterations + 1):
            phase = self.schedule.phase(t)
            if phase == "local":
                for number in self.where:
                    self.learn(number, t)
            elif phase == "exchange":
                met = self.schedule.meeting(t)
                pairs = {int(s): met.neighbour[k][met.heard[k]].tolist() for k, s in enumerate(met.star)}
                before = dict(self.states)
                self.states |= {star: self.read("mix", before, star, who, t) for star, who in pairs.items()}
            else:
                heard = {int(s) for k, s in enumerate(met.star) if self.hears_any(int(s), met, k)}
                told = [
                    (int(n), int(s)) for k, s in enumerate(met.star) for n in met.neighbour[k][met.told[k]]
                ]
                before = dict(self.states)
                for reader, star in told:
                    if star in heard:
                        self.states[reader] = self.read("adopt", before, reader, [star], t)

    def hears_any(self, star: int, met: Meeting, k: int) -> bool:
        """Whether a star has something to say: it heard somebody whom it could use."""
        return bool(self.inbox(self.states, star, met.neighbour[k][met.heard[k]].tolist(), 0).heard.any())

    def context(self, purpose: Purpose, number: int, t: int) -> Context:
        part, i = self.where[number]
        return Context(*(c[0] for c in part.context(purpose, t, torch.tensor([i]))))

    def probe(self, number: int, t: int) -> Probe:
        part, i = self.where[number]
        return Probe(*(p[0] for p in part.data.probe(torch.tensor([i]), t)))

    def learn(self, number: int, t: int) -> None:
        part, i = self.where[number]
        at = part.data.batch_positions(torch.tensor([t]), slice(i, i + 1), part.experiment.train.batch)[0, 0]
        x, y = part.data.samples(part.data.train, at)
        key = part.data.keys(torch.tensor([t]), slice(i, i + 1))[0, 0]
        lr = torch.tensor(self.schedule.lr(t, self.algorithm), dtype=torch.float64)
        state, _ = self.algorithm.local(
            part.task, self.states[number], Batch(x, y, lr, key), self.context("local", number, t)
        )
        self.states[number] = state

    def inbox(self, states: dict[int, State], reader: int, senders: list[int], t: int) -> Inbox:
        """What a reader hears, message by message."""
        part, _ = self.where[reader]
        task = part.task
        offers = [
            self.algorithm.offer(
                self.where[s][0].task, states[s], self.probe(s, t), self.context("offer", s, t)
            )
            for s in senders
        ]
        own = self.algorithm.offer(
            task, states[reader], self.probe(reader, t), self.context("offer", reader, t)
        )
        mine = [alike(own, offer) for offer in offers]
        foreign = []
        for other in task.foreign if self.algorithm.crosses else ():
            theirs = [self.where[s][0].task.model is other.model for s in senders]
            some = [offer for offer, yes in zip(offers, theirs, strict=True) if yes]
            foreign.append(Foreign(stacked(some[0], offers, theirs) if some else {}, torch.tensor(theirs)))
        usable = torch.tensor(mine)
        for part_ in foreign:
            usable = usable | part_.mask
        return Inbox(stacked(own, offers, mine), usable, torch.tensor(senders), tuple(foreign))

    def read(self, act: Purpose, states: dict[int, State], reader: int, senders: list[int], t: int) -> State:
        part, _ = self.where[reader]
        call = guarded_mix if act == "mix" else guarded_adopt
        given = self.inbox(states, reader, senders, t), self.probe(reader, t), self.context(act, reader, t)
        return call(self.algorithm, part.task, states[reader], *given)[0]


def stacked(like: Message, offers: list[Message], mask: list[bool]) -> Message:
    """Messages `[K, ...]`, zeros where the mask is false."""
    return {
        k: torch.stack([o[k] if yes else torch.zeros_like(m) for o, yes in zip(offers, mask, strict=True)])
        for k, m in like.items()
    }


def test_the_order_of_entries_does_not_matter(tmp_path: Path) -> None:
    """The same clients with the same models, from stacks in another order."""
    entries = [{**SMALL, "clients": [0, 3, 5]}, {**WIDE, "clients": [1, 6]}, {**DEEP, "clients": [2, 4]}]
    found = []
    for k, order in enumerate(itertools.permutations(entries)):
        e = experiment(methods=["FedAvg", "KD-PDFL"], **MIXED).replace(model=list(order))
        found.append(lived(prepare(e), tmp_path / str(k)).rows)
    for rows in found[1:]:
        close(rows, found[0])


def second(calls: Iterator[int]) -> bool:
    return next(calls) >= 1


def test_stopped_and_resumed(tmp_path: Path) -> None:
    """To the bit, wherever it stopped."""

    def mixed() -> Experiment:
        return hard(methods=["Local", "KD-PDFL", "CoBo"]).replace(model=[SMALL, DEEP])

    plan = prepare(mixed())
    want = lived(plan, tmp_path / "whole")
    recording, stops, done = Recording(tmp_path / "stopped"), 0, False
    recording.path.mkdir()
    while not done:
        stop = partial(second, itertools.count())
        done = simulate(prepare(mixed()), recording, resume=stops > 0, stop=stop)
        stops += 1
    assert stops > 5
    assert repr(recording.rows) == repr(want.rows)
    assert recording.clients == want.clients
    same(final(plan, recording), final(plan, want))


def test_bytes_are_those_of_each_senders_model(tmp_path: Path) -> None:
    """Everybody hears everybody: KD-PDFL all, FedAvg those of its own architecture alone."""
    e = experiment(
        methods=["FedAvg", "KD-PDFL"],
        data__clients=4,
        train__iterations=7,
        exchange__stars=1,
        evaluate__every=7,
    ).replace(model=[{**SMALL, "clients": [0, 1]}, {**DEEP, "clients": [2, 3]}])
    plan = prepare(e)
    rows = {plan.worlds[r["world"]].label: r for r in lived(plan, tmp_path / "run").rows["metrics"]}
    sizes = [sum(v.numel() for v in s.task.given()[0].values()) * 8 for s in plan.stacks[0].together]
    star = int(plan.stacks[0].members[0].schedule.meeting(5).star[0])
    own, other = sizes if star < 2 else sizes[::-1]
    assert rows["FedAvg"]["bytes"] == own + own  # a reply of the other of its kind, and the broadcast to it
    assert rows["KD-PDFL"]["bytes"] == own + 2 * other + 3 * own


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": {"K": {"name": "KD-PDFL", "share": "base"}}}, "is not; set share = 'all'"),
        ({"model": [SMALL, {"name": "tests.engine.nets:one_output_more"}]}, r"need \(4, 3\)"),
        (
            {"methods": {"K": {"name": "KD-PDFL", "reading": "paper", "outputs": "1"}}},
            r"one gives \[\d+, 5\], the other \[\d+, 4\] for the same samples",
        ),
    ],
)
def test_what_cannot_cross_is_told_before_the_start(changes: dict[str, Any], message: str) -> None:
    e = experiment(methods=["KD-PDFL"], data__clients=6).replace(**{"model": [SMALL, DEEP], **changes})
    with pytest.raises(CoterieError, match=message):
        prepare(e)


def test_who_has_which_model_is_written_down(tmp_path: Path) -> None:
    e = experiment(methods=["FedAvg"], data__clients=4).replace(
        model=[{"name": "linear", "clients": [1]}, SMALL, DEEP]
    )
    (clients,) = lived(prepare(e), tmp_path / "run").clients
    assert clients["architecture"][1] == "linear"
    others = {clients["architecture"][i] for i in (0, 2, 3)}
    assert others == {"mlp hidden=[5]", "mlp hidden=[4, 3]"}


def test_a_client_that_diverges_is_named_by_its_number_in_the_world(tmp_path: Path) -> None:
    watcher = Watcher()
    e = experiment(methods=["Local"], train__lr=1e200).replace(
        model=[{**SMALL, "clients": [3]}, {"name": "linear", "clients": [0, 1, 2]}]
    )
    rows = lived(prepare(e), tmp_path / "run", progress=watcher).rows["metrics"]
    assert rows[-1]["diverged"] == [3]
    assert any("client 3 diverged" in text for text in watcher.notices)
