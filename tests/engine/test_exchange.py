"""Meetings: who reads what, what is counted, what is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import Adoption, Algorithm
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Reachable, State
from coterie.engine.layout import take_clients
from coterie.engine.simulator import Simulator
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.schedule import Meeting
from tests.engine.small import EVERY_METHOD, KINDS, experiment, hard, simulator
from tests.trees import clone, same


def at_rest(method: dict[str, Any] | str = "FedAvg", **changes: Any) -> Simulator:
    """Four clients with models of their own that have not yet met."""
    return simulator(experiment(methods={"m": method}, train__init="independent", **changes))


def meeting(s: Simulator, star: list[int], neighbour: list[list[int]], heard: list[list[int]]) -> Any:
    """The same meeting in every world; everybody in reach is asked and told."""
    asked = torch.ones(len(star), len(neighbour[0]), dtype=torch.bool)
    one = Meeting(
        torch.tensor(star), torch.tensor(neighbour), asked, torch.tensor(heard).bool(), asked.clone()
    )
    return {m.id: one for m in s.stack.members}


def client(s: Simulator, i: int) -> State:
    return take_clients(s.clients.parts[0], torch.tensor(i))


def test_the_star_averages_what_it_heard_by_hand() -> None:
    s = at_rest()
    before = clone(s.clients.whole.params)
    s.exchanges.mix(meeting(s, [1], [[0, 2, 3]], [[1, 0, 1]]), 5)
    for k, now in s.clients.whole.params.items():
        mean = (before[k][0] + before[k][1] + before[k][3]) / 3
        torch.testing.assert_close(now[1], mean, rtol=0, atol=1e-15)
        assert torch.equal(now[[0, 2, 3]], before[k][[0, 2, 3]])


def test_stars_that_hear_each_other_read_the_models_from_before() -> None:
    s = at_rest()
    before = clone(s.clients.whole.params)
    s.exchanges.mix(meeting(s, [0, 1], [[1], [0]], [[1], [1]]), 5)
    for k, now in s.clients.whole.params.items():
        mean = (before[k][0] + before[k][1]) / 2
        for star in (0, 1):
            torch.testing.assert_close(now[star], mean, rtol=0, atol=1e-15)


def test_neighbours_adopt_the_new_model_of_their_star() -> None:
    s = at_rest()
    before = clone(s.clients.whole.params)
    met = meeting(s, [3], [[0, 2]], [[1, 1]])
    s.exchanges.mix(met, 5)
    met[0] = met[0]._replace(told=torch.tensor([[True, False]]))
    s.exchanges.adopt(met, 6)
    for k, now in s.clients.whole.params.items():
        assert torch.equal(now[0], now[3])
        assert not torch.equal(now[0], before[k][0])
        assert torch.equal(now[2], before[k][2])


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_lost_replies_never_enter(method: str) -> None:
    """Whatever a client holds whose reply was lost, the star comes to the same."""
    ends = []
    for value in (0.0, 1e6, torch.nan):
        s = at_rest({"name": method})
        for v in s.clients.whole.params.values():
            v[2] = value
        s.exchanges.mix(meeting(s, [1], [[0, 2, 3]], [[1, 0, 1]]), 5)
        ends.append(clone(client(s, 1)))
    same(ends[1], ends[0])
    same(ends[2], ends[0])


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_nobody_heard_changes_nothing(method: str) -> None:
    s = at_rest({"name": method})
    before = clone(s.tensors())
    s.exchanges.mix(meeting(s, [1], [[0, 2, 3]], [[0, 0, 0]]), 5)
    same(s.tensors(), before)


@pytest.mark.parametrize("method", [m for m in EVERY_METHOD if m != "Local"])
def test_a_reply_that_is_not_finite_counts_as_lost(method: str) -> None:
    ends = []
    for heard in (0, 1):
        s = at_rest({"name": method})
        for tensors in (s.clients.whole.params, s.clients.parts[0].memory):  # whichever model is sent
            for tensor in filter(torch.is_floating_point, tensors.values()):
                tensor[2] = torch.inf
        events = s.exchanges.mix(meeting(s, [1], [[0, 2]], [[1, heard]]), 5)
        assert all(e["neighbours"] == [0] for e in events)
        ends.append(clone(client(s, 1)))
    same(ends[1], ends[0])


@pytest.mark.parametrize(
    ("method", "numbers"),
    [
        ("Local", 0),
        ("FedAvg", 6 * 5 + 5 + 5 * 3 + 3),
        ({"name": "FedAvg", "share": "base"}, 6 * 5 + 5),
        ({"name": "FedAvg", "share": "*.bias"}, 5 + 3),
        ({"name": "KD-PDFL", "share": ("1.*", "3.bias")}, 6 * 5 + 5 + 3),
    ],
)
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_the_size_of_a_message(method: Any, numbers: int, dtype: str, size: int) -> None:
    s = at_rest(method, dtype=dtype)
    assert [m.weight for m in s.exchanges.mail] == [numbers * size]


@pytest.mark.parametrize(
    ("method", "precision", "size"),
    [
        ("Local", "int8", 0),
        ("FedAvg", "half", 53 * 2),
        ("FedAvg", "int8", 53 + 4 * (5 + 1 + 3 + 1)),  # rows of two matrices, two biases: ten scales
        # Half of 45 weights, a bit for each, 8 biases and the scales as they are.
        ({"name": "DisPFL", "density": 50}, "half", 45 + 6 + 8 * 2),
        ({"name": "DisPFL", "density": 50}, "int8", 23 + 6 + 8 + 4 * 10),
    ],
)
def test_the_size_of_a_rounded_message(method: Any, precision: str, size: int) -> None:
    s = at_rest(method, exchange__precision=precision)
    assert [m.weight for m in s.exchanges.mail] == [size]


def test_a_model_beyond_half_precision_is_not_heard() -> None:
    s = at_rest(exchange__precision="half", train__iterations=7, train__personalize=0.0)
    (star,) = s.stack.members[0].schedule.meeting(5).star.tolist()
    while s.t < 4:
        s.step_to_next_event()
    huge = (star + 1) % 4
    s.clients.whole.params["1.weight"][huge] = 7e4
    before = clone(s.clients.whole.params)
    s.step_to_next_event()
    for k, own in before.items():
        others = torch.stack([own[i] for i in range(4) if i not in (star, huge)]).half().to(own)
        mean = (own[star] + others.sum(dim=0)) / 3  # the own model is not rounded
        torch.testing.assert_close(s.clients.whole.params[k][star], mean, rtol=0, atol=1e-15)


def test_running_statistics_travel_but_counters_do_not() -> None:
    s = at_rest(model__norm="batch")
    affine, statistics = 2 * 5, 2 * 5
    assert [m.weight for m in s.exchanges.mail] == [(53 + affine + statistics) * 8]


@pytest.mark.parametrize(
    ("method", "each"), [("Local", 0), ("FedAvg", 53), ({"name": "FedAvg", "share": "base"}, 35)]
)
def test_bytes_are_counted_by_hand(method: Any, each: int) -> None:
    """Four clients who always hear each other: three replies, then three broadcasts."""
    s = at_rest(method, train__iterations=12, train__personalize=0.0)
    counted = {}
    while s.t < 12:
        s.step_to_next_event()
        counted[s.t] = s.evaluate()[0]["bytes"]
    assert [counted[t] for t in (4, 5, 6, 9, 10, 11, 12)] == [n * 8 * each for n in (0, 3, 6, 6, 9, 12, 12)]


def test_a_lost_reply_is_sent_all_the_same_but_a_star_that_heard_none_is_silent() -> None:
    s = at_rest(exchange__loss=1.0, train__iterations=7, train__personalize=0.0)
    before = clone(s.clients.whole.params)
    moves = []
    while s.t < 7:
        at = s.t
        s.step_to_next_event()
        if s.t in (5, 6):
            assert s.t == at + 1
            same(s.clients.whole.params, before)
        before = clone(s.clients.whole.params)
        moves.append((s.t, int(s.bytes[0])))
    assert dict(moves) == {4: 0, 5: 3 * 53 * 8, 6: 3 * 53 * 8, 7: 3 * 53 * 8}


def test_what_is_written_down_is_what_is_remembered() -> None:
    """The weights of an event are the entries of the star's row; others' rows stay as they were."""
    s = simulator(hard(methods={"KD-PDFL": {"reading": "paper"}}, seeds=[0, 1]))
    kinds = set()
    rows = 0
    while s.t < s.stack.iterations:
        before = s.clients.parts[0].rows["w"].clone()
        events = s.step_to_next_event()
        after = s.clients.parts[0].rows["w"]
        touched = []
        for row in events:
            kinds.add(row["kind"])
            member = next(m for m in s.stack.members if m.id == row["world"])
            own = member.clients.start + row["client"]
            touched.append(own)
            assert row["neighbours"] == sorted(row["neighbours"])
            assert row["client"] not in row["neighbours"]
            assert len(row["weight"]) == len(row["distance"]) == len(row["neighbours"])
            assert after[own, row["neighbours"]].tolist() == row["weight"]
            heard = len(row["neighbours"])
            size = int(s.stack.data.train.count[own])
            alone = sum(row["weight"]) == 0
            assert row["confidence"] == pytest.approx(1 if alone else min(size / 100, 1 / (heard + 1)))
            rows += 1
        others = torch.ones(len(after), dtype=torch.bool)
        others[touched] = False
        assert torch.equal(after[others], before[others])
    assert kinds == {"mix"}
    assert rows > 10


def test_neighbours_that_mix_write_that_down_too() -> None:
    s = simulator(experiment(methods={"KD-PDFL": {"adoption": "mix"}}))
    rows: list[dict[str, Any]] = []
    while s.t < 6:
        rows += s.step_to_next_event()
    mixed, *adopted = rows
    assert (mixed["kind"], mixed["t"], len(mixed["neighbours"])) == ("mix", 5, 3)
    assert [(r["kind"], r["t"], r["neighbours"]) for r in adopted] == [("adopt", 6, [mixed["client"]])] * 3
    assert [r["client"] for r in adopted] == mixed["neighbours"]
    for r in adopted:
        assert s.clients.parts[0].rows["w"][r["client"], mixed["client"]] == r["weight"][0]


def test_in_several_goes_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found, some = [], {name: EVERY_METHOD[name] for name in (*KINDS, "DisPFL", "IFCA", "FedProto")}
    for chunk in (256 << 20, 1):
        monkeypatch.setattr("coterie.engine.memory_budget.TEMPORARY_BYTES", chunk)
        s = simulator(hard(methods=some))
        rows = []
        while s.t < s.stack.iterations:
            rows += s.step_to_next_event()
        found.append((s.tensors(), rows))
    same(found[1][0], found[0][0], 1e-12)
    assert [(r["t"], r["client"], r["neighbours"]) for r in found[1][1]] == [
        (r["t"], r["client"], r["neighbours"]) for r in found[0][1]
    ]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert one["weight"] == pytest.approx(other["weight"], abs=1e-12)


def test_memory_and_rows_of_a_method_belong_to_each_client_and_name() -> None:
    """A method may begin with one tensor for all clients, or under two names."""
    s = simulator(experiment(methods={"c": "tests.engine.nets:Counting"}, train__iterations=8))
    while s.t < 8:
        s.step_to_next_event()
    (star,) = s.stack.members[0].schedule.meeting(5).star.tolist()
    _, _, _, memory, rows = s.clients.parts[0]
    assert memory["woke"].tolist() == [float(i == star) for i in range(4)]
    assert memory["learned"].tolist() == [6.0] * 4  # all but iterations 5 and 6
    once = (1 - torch.eye(4, dtype=torch.float64)) / 4
    assert torch.equal(rows["row"], once)
    doubled = once.clone()
    doubled[star] *= 2
    assert torch.equal(rows["twice"], doubled)


def test_methods_with_a_step_of_their_own_stand_behind_the_others() -> None:
    counting = "tests.engine.nets:Counting"
    methods = {"one": counting, "FedAvg": {}, "two": {"name": counting, "steps": 2.0}, "Local": {}}
    s = simulator(experiment(methods=methods, train__iterations=8))
    assert [type(g.algorithm).__name__ for g in s.stack.groups] == ["FedAvg", "Local", "Counting"]
    assert [one.clients for one in s.ranges] == [slice(0, 8), slice(8, 16)]
    while s.t < 8:
        s.step_to_next_event()
    assert s.clients.parts[2].memory["learned"].tolist() == [6.0] * 4 + [12.0] * 4
    start = s.stack.initial().whole.params["1.weight"]
    assert ((s.clients.whole.params["1.weight"] - start).abs().amax(dim=(1, 2)) > 0).all()


# Questions, listening, weights of messages ------------------------------------------------------


@dataclass(frozen=True)
class Even(FedAvg):
    """Asks only neighbours of an even number, and says that half of a message is enough."""

    def ask(self, task: Task, state: State, reachable: Reachable, ctx: Context) -> Tensor:
        return reachable.slot % 2 == 0  # of padding, too: it is not asked all the same

    def wire_bytes(self, message: Message) -> int:
        return Algorithm.wire_bytes(self, message) // 2


def test_only_those_who_are_asked_are_heard_told_and_counted() -> None:
    s = at_rest("tests.engine.test_exchange:Even", train__iterations=7, train__personalize=0.0)
    (star,) = s.stack.members[0].schedule.meeting(5).star.tolist()
    while s.t < 4:
        s.step_to_next_event()
    before = clone(s.clients.whole.params)
    asked = [i for i in range(4) if i % 2 == 0 and i != star]
    s.step_to_next_event()
    for k, now in s.clients.whole.params.items():
        mean = torch.stack([before[k][i] for i in (star, *asked)]).mean(dim=0)
        torch.testing.assert_close(now[star], mean, rtol=0, atol=1e-15)
    assert int(s.bytes[0]) == len(asked) * 53 * 8 // 2
    s.step_to_next_event()
    assert int(s.bytes[0]) == 2 * len(asked) * 53 * 8 // 2
    for k, now in s.clients.whole.params.items():
        for i in range(4):
            assert torch.equal(now[i], now[star]) == (i in asked or i == star), k


def test_there_is_no_broadcast_where_nobody_listens() -> None:
    """53 numbers from each of three neighbours, and nothing to them."""
    s = at_rest({"name": "FedAvg", "adoption": "ignore"}, train__iterations=7, train__personalize=0.0)
    while s.t < 7:
        s.step_to_next_event()
    assert int(s.bytes[0]) == 3 * 53 * 8


@dataclass(frozen=True)
class Sized(FedAvg):
    """Sends the number of its samples instead of a model: an offer that looks."""

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {"size": probe.mask.sum().to(probe.size)[None] + 0 * ctx.t}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        return state, {"distance": inbox.messages["size"][:, 0]}


def test_an_offer_that_looks_is_given_the_senders_own_samples() -> None:
    s = at_rest("tests.engine.test_exchange:Sized")
    assert [mail.looks for mail in s.exchanges.mail] == [True]
    (row,) = s.exchanges.mix(meeting(s, [1], [[0, 2, 3]], [[1, 0, 1]]), 5)
    assert row["distance"] == s.stack.data.owned[[0, 3]].tolist()
    assert [mail.looks for mail in at_rest("KD-PDFL").exchanges.mail] == [False]


@dataclass(frozen=True)
class Curious(FedAvg):
    """Asks with the own bias; replies with what it was asked and the own bias, and broadcasts nothing."""

    adoption: Adoption = "ignore"

    def question(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {"asked": state.params["3.bias"] + 0 * probe.x.sum()}

    def reply(self, task: Task, state: State, question: Message, probe: Probe, ctx: Context) -> Message:
        return {**question, "size": probe.mask.sum().to(probe.size)[None], "bias": state.params["3.bias"]}

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        biases = {"3.bias": inbox.messages["bias"].sum(dim=0)}
        return task.merge(state, biases), {k: inbox.messages[k] for k in ("asked", "size", "bias")}


CURIOUS = "tests.engine.test_exchange:Curious"


def test_every_neighbour_replies_to_the_question_of_its_star() -> None:
    s = at_rest(CURIOUS)
    bias = s.clients.whole.params["3.bias"].clone()
    one, other = s.exchanges.mix(meeting(s, [1, 2], [[0, 2, 3], [0, 1, 0]], [[1, 0, 1], [1, 1, 0]]), 5)
    assert one["asked"] == [bias[1].tolist()] * 2
    assert one["bias"] == bias[[0, 3]].tolist()
    assert [n for (n,) in one["size"]] == s.stack.data.owned[[0, 3]].tolist()
    assert other["asked"] == [bias[2].tolist()] * 2
    assert other["bias"] == bias[[0, 1]].tolist()  # as they were before the exchange
    assert torch.equal(s.clients.whole.params["3.bias"][1], bias[0] + bias[3])


def test_questions_and_replies_are_counted() -> None:
    """A question of 3 numbers and a reply of 3 + 1 + 3 of each of three neighbours, and no broadcast."""
    s = at_rest(CURIOUS, train__iterations=7, train__personalize=0.0)
    (mail,) = s.exchanges.mail
    assert (mail.weight, mail.size, mail.question, mail.reply) == (0, 0, 3 * 8, 7 * 8)
    while s.t < 7:
        s.step_to_next_event()
    assert int(s.bytes[0]) == 3 * 10 * 8


def test_the_room_for_replies_is_what_they_are_made_of() -> None:
    s = at_rest(CURIOUS)
    most = int(s.stack.data.owned[0])
    state, question, reply, samples = 53, 3, 7, 6 * most
    assert [mail.room for mail in s.exchanges.mail] == [(state + question + reply + samples) * 8]


def test_attackers_lie_when_they_answer() -> None:
    s = at_rest(CURIOUS, attack={"name": "sign_flip", "share": 0.5, "scale": 1.0})
    lies = s.stack.groups[0].attacker.tolist()
    star = lies.index(False)
    others = [i for i in range(4) if i != star]
    bias = s.clients.whole.params["3.bias"].clone()
    (row,) = s.exchanges.mix(meeting(s, [star], [others], [[1, 1, 1]]), 5)
    for i, reply in zip(others, row["bias"], strict=True):
        assert reply == ((-1 if lies[i] else 1) * bias[i]).tolist()


def test_gradients_of_exchanges_are_counted() -> None:
    """Three neighbours, two replies of whom are heard: each takes one, and the star one for each."""
    methods = {"both": {"name": "CoBo"}, "one": {"name": "CoBo", "sides": "one"}, "FedAvg": {}}
    s = simulator(experiment(methods=methods, train__iterations=7))
    found = s.exchanges.gradients(meeting(s, [1], [[0, 2, 3]], [[1, 0, 1]]))
    names = [m.world.name for m in s.stack.members]
    assert dict(zip(names, found.tolist(), strict=True)) == {"both": 3 + 2, "one": 3 + 1, "FedAvg": 0}
    while s.t < 7:
        s.step_to_next_event()
    # all hear each other: 4 clients with 5 local steps, and one exchange
    assert dict(zip(names, (r["gradients"] for r in s.evaluate()), strict=True)) == {
        "both": 20 + 6,
        "one": 20 + 4,
        "FedAvg": 20,
    }


def test_what_a_method_carries_is_told_in_models() -> None:
    """A model of 53 numbers; Ditto carries two more, KD-PDFL one, its count, and two rows of four."""
    s = simulator(experiment(methods=["FedAvg", "Ditto", "KD-PDFL"]))
    carried = {m.world.name: r["models_carried"] for m, r in zip(s.stack.members, s.evaluate(), strict=True)}
    assert carried == {"FedAvg": 0.0, "Ditto": 2.0, "KD-PDFL": pytest.approx((53 + 1 + 8) / 53)}


def test_gradients_are_counted() -> None:
    methods = {"FedAvg": {}, "all": {"name": "tests.plugins.algorithms.everything:Everything"}}
    s = simulator(experiment(methods=methods, train__iterations=7))
    while s.t < 7:
        s.step_to_next_event()
    # four clients, iterations 1 to 4 and 7
    assert {s.stack.members[r["world"]].world.name: r["gradients"] for r in s.evaluate()} == {
        "FedAvg": 4 * 5,
        "all": 2 * 4 * 5,
    }
