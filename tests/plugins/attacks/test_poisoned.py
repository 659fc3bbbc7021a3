"""Attackers among simulated clients: what they send and train on, who is tested, who is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from coterie import Run, run
from coterie.core.errors import ConfigError, UnknownNameError
from coterie.core.registry import registered
from coterie.engine.layout import take_clients
from coterie.engine.plan import prepare
from coterie.experiment import Experiment
from coterie.schedule import Schedule
from tests.engine.small import experiment, finished, hard, simulator
from tests.trees import pick, same

# What to run ------------------------------------------------------------------------------------


def test_nobody_attacks_unless_told_to() -> None:
    e = experiment()
    assert e.attack.attack is None
    assert not any(w.attackers.any() for w in e.worlds())
    assert not any(w.attackers.any() for w in experiment(attack__share=0.5).worlds())
    assert not any(w.attackers.any() for w in experiment(attack={"name": "sign_flip", "share": 0.0}).worlds())


def test_every_method_and_setting_of_a_seed_has_the_same_attackers() -> None:
    e = experiment(
        methods=["Local", "FedAvg"], seeds=[0, 1], grid={"attack.name": ["sign_flip", "label_flip"]}
    )
    found = {(w.seed, tuple(w.attackers.tolist())) for w in e.worlds()}
    assert len(found) == 2


def test_a_whole_attack_can_be_compared_and_is_named_briefly() -> None:
    grid = {
        "attack": ["none", {"name": "sign_flip", "share": 0.3}, {"name": "free_rider", "sends": "random"}]
    }
    names = [w.name for w in experiment(grid=grid).worlds()]
    assert names == [
        "FedAvg [attack=none]",
        "FedAvg [attack=sign_flip 0.3]",
        "FedAvg [attack=free_rider random]",
    ]


@pytest.mark.parametrize(
    ("attack", "error", "message"),
    [
        ("sign_flop", UnknownNameError, "unknown attack 'sign_flop'.*Did you mean 'sign_flip'"),
        ({"name": "sign_flip", "share": 1.0}, ConfigError, "attack.share: .* less than 1"),
        ({"name": "sign_flip", "scale": 0}, ConfigError, "attack.scale: .* greater than 0"),
        (
            {"name": "sign_flip", "budget": 1},
            UnknownNameError,
            "option 'attack.budget' of attack 'sign_flip'",
        ),
        ({"name": "adaptive", "distance": "nearness"}, ConfigError, "attack: unknown distance 'nearness'"),
        ({"name": "coterie.plugins.algorithms.fedavg:FedAvg"}, ConfigError, "is not an Attack but FedAvg"),
    ],
)
def test_mistakes_are_told(attack: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        experiment(attack=attack)


# What attackers do ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registered("attack"))
def test_a_star_hears_what_the_bare_attack_sends(name: str) -> None:
    """The simulator's messages are those of a peer that calls the attack on its own state and samples."""
    e = hard(
        attack={"name": name, "share": 0.3}, methods={"FedAvg": {"adoption": "ignore"}}, exchange__loss=0
    )
    s = simulator(e)
    while s.stack.members[0].schedule.phase(s.t + 1) == "local":
        s.step_to_next_event()
    t, before = s.t + 1, take_clients(s.clients.whole, torch.arange(s.stack.size))
    s.step_to_next_event()
    (group,), feed, task = s.stack.groups, s.stack.data, s.stack.task
    attack, attacker = e.attack.attack, group.members[0].world.attackers
    assert attack is not None
    meeting = group.members[0].schedule.meeting(t)
    assert bool(attacker[meeting.neighbour[meeting.heard]].any())

    def message(client: int) -> dict[str, torch.Tensor]:
        own, clients = take_clients(before, torch.tensor(client)), torch.tensor([client])
        honest = task.select(own)
        if not attacker[client]:
            return honest
        return attack.offer(
            task,
            own,
            honest,
            pick(feed.probe(clients, t), 0),
            s.stack.context("attack", t, torch.tensor(client)),
        )

    for star, neighbours, heard in zip(*meeting[:2], meeting.heard, strict=True):
        own = task.select(take_clients(before, star))
        models = [own, *(message(int(n)) for n in neighbours[heard])]
        want = {k: torch.stack([m[k] for m in models]).mean(dim=0) for k in own}
        same(task.select(take_clients(s.clients.whole, star)), want, 1e-10)


def test_only_attackers_train_on_wrong_labels_and_tests_stay() -> None:
    honest, poisoned = (
        prepare(experiment(attack=a)).federations[0] for a in ("none", {"name": "label_flip", "share": 0.5})
    )
    (world,) = experiment(attack={"name": "label_flip", "share": 0.5}).worlds()
    lies = world.attackers.repeat_interleave(honest.train.count)
    assert torch.equal(poisoned.train.label, torch.where(lies, 2 - honest.train.label, honest.train.label))
    assert poisoned.pool is honest.pool or torch.equal(poisoned.pool, honest.pool)
    for part in ("validation", "personal", "uniform"):
        assert torch.equal(getattr(poisoned, part).label, getattr(honest, part).label)


def test_a_free_rider_takes_no_local_step() -> None:
    e = experiment(attack={"name": "free_rider", "share": 0.5}, exchange__every=24)
    (world,) = e.worlds()
    assert not Schedule.of(e, 0).learns(torch.arange(1, 9))[:, world.attackers].any()
    s = simulator(e)
    start = {k: v.clone() for k, v in s.clients.whole.params.items()}
    while s.t < 10:
        s.step_to_next_event()
    moved = torch.stack(
        [(v != start[k]).flatten(1).any(dim=1) for k, v in s.clients.whole.params.items()]
    ).any(dim=0)
    assert torch.equal(moved, ~world.attackers)


def test_worlds_side_by_side_are_worlds_alone(tmp_path: Path) -> None:
    attacks: list[Any] = ["none", *({"name": name, "share": 0.3} for name in registered("attack"))]
    methods = {"FedAvg": {}, "KD-PDFL": {"adoption": "mix"}, "Krum": {}}
    together = finished(prepare(hard(methods=methods, grid={"attack": attacks})), tmp_path / "all")
    assert len(together) == len(attacks) * len(methods)
    for name in ("KD-PDFL", "Krum"):
        one = {"methods": {name: methods[name]}, "attack": attacks[3]}
        (alone,) = finished(prepare(hard(**one)), tmp_path / name).values()
        tag = " ".join(map(str, attacks[3].values()))
        same(together[f"{name} [attack={tag}]", 0].tensors, alone.tensors, 1e-9)


# Who is tested ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Digits, of 12 clients 4 attack, by each attack that is to be demoted."""
    e = Experiment.load(
        "poisoned",
        {
            "seeds": [0],
            "data.clients": 12,
            "train.iterations": 250,
            "evaluate.every": 250,
            "grid": {"attack": ["none", *({"name": name, "share": 0.3} for name in DEMOTED)]},
            "methods": {name: METHODS[name] for name in ("Local", "FedAvg", "KD-PDFL")},
        },
    )
    return run(e, tmp_path_factory.mktemp("poisoned") / "run", plots=False)


DEMOTED = ("sign_flip", "gaussian_noise", "label_flip", "model_replacement")
METHODS: dict[str, dict[str, Any]] = {
    "Local": {},
    "FedAvg": {"adoption": "ignore"},
    "KD-PDFL": {},
}


def test_results_speak_of_honest_clients(poisoned: Run) -> None:
    assert [len(f["attackers"]) for f in poisoned.clients] == [0, 4, 4, 4, 4]
    table = poisoned.per_client()
    for track in poisoned.tracks:
        lies = list(track.attackers)
        mine = table[table.method == track.name].set_index("client")
        assert mine.personal[lies].isna().all()
        assert mine.personal.drop(index=lies).notna().all()
        assert track.means("personal")[-1] == pytest.approx(mine.personal.drop(index=lies).mean())
    assert poisoned.summary()["attackers"] == 4


@pytest.mark.parametrize("attack", DEMOTED)
def test_weights_demote_who_sends_a_poisoned_model(poisoned: Run, attack: str) -> None:
    """A valid member sends a well-formed but poisoned model: measured beside FedAvg."""
    methods = poisoned.summary()["methods"]
    ours, mean = (methods[f"{name} [attack={attack} 0.3]"] for name in ("KD-PDFL", "FedAvg"))
    assert ours["trust_auc"] > 0.6
    assert ours["personal"]["mean"] > mean["personal"]["mean"] + 0.03
    assert methods["KD-PDFL [attack=none]"]["trust_auc"] is None
    assert mean["trust_auc"] is None
