"""Every method of the registry, with its options, through every check of `tests.conformance`."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from coterie.core.algorithm import Algorithm
from coterie.core.registry import describe, registered, resolve
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, State
from coterie.plugins.algorithms.fedavg import FedAvg
from tests.conformance import CHECKS, conforms, lived, world
from tests.plugins.algorithms.everything import Everything
from tests.trees import pick, same

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "DFedAlt": [{"order": "base", "adoption": "mix"}],
    "DFedPGP": [{"adoption": "ignore"}, {"variant": "code", "adoption": "mix"}],
    "DFedSalt": [{"sharpness": 0.5, "head": 0.0}, {"order": "base", "adoption": "average"}],
    "DPFL": [{"search": "greedy", "period": 1, "adoption": "mix"}, {"budget": 2, "share": "base"}],
    "Def-KT": [
        {"choice": "best", "adoption": "mix", "steps": 3, "batch": 5},
        {"steps": 0, "share": "base", "adoption": "average"},
    ],
    "DFML": [
        {"average": 0.0, "tested": "last", "steps": 3},
        {"period": 2, "high": 0.8, "low": 0.2, "adoption": "mix", "steps": 2, "batch": 5},
        {"period": 2, "average": 1.0, "share": "base", "adoption": "average", "steps": 3},
        {"adoption": "ignore", "steps": 0},
    ],
    "DisPFL": [{"regrow": "random", "adoption": "ignore"}, {"layers": "uniform", "adoption": "average"}],
    "APFL": [{"adapt": "round", "decay": 0.02, "adoption": "mix"}, {"adapt": "never", "share": "base"}],
    "DFedAvgM": [{"weights": "metropolis", "adoption": "mix"}],
    "DAC": [{"sampled": 1, "schedule": "growing"}, {"tau": 0.0, "adoption": "mix"}, {"adoption": "average"}],
    "CoBo": [{"adoption": "mix", "gamma": 0.1}, {"sides": "one", "adoption": "average"}, {"share": "!norm"}],
    "Dada": [{"mu1": 1.0, "adoption": "average"}, {"share": "base", "mu2": 1.0}, {"adoption": "ignore"}],
    "Ditto": [{"pull": "now", "adoption": "mix"}, {"share": "base", "adoption": "ignore"}],
    "FD": [
        {"targets": "logits", "own": True, "adoption": "mix"},
        {"temperature": 3.0, "adoption": "replace"},
        {"adoption": "ignore"},
    ],
    "FedAMP": [{"form": "kernel", "adoption": "mix"}, {"share": "base", "adoption": "average"}],
    "FedAvg": [{"adoption": "average"}, {"adoption": "mix"}, {"adoption": "ignore"}, {"share": "base"}],
    "FedAvg+": [{"switch": 0}, {"switch": 0, "adoption": "mix"}, {"switch": 3, "adoption": "average"}],
    "FedAvg-Gaussian": [{"clip": 1.0, "adoption": "average"}, {"share": "!norm", "adoption": "mix"}],
    "FedFomo": [
        {"sampled": 1, "epsilon": 1.0},
        {"share": "base", "adoption": "average"},
        {"adoption": "ignore"},
    ],
    "FedProto": [
        {"weights": "samples", "prediction": "own", "adoption": "mix"},
        {"prediction": "head", "adoption": "replace"},
        {"adoption": "ignore"},
    ],
    "FedProx": [{"mu": 1.0, "adoption": "average"}, {"share": "base", "adoption": "ignore"}],
    "FedRep": [{"head": 1.0, "head_rate": 3.0}, {"share": "all", "head": 0.1, "adoption": "mix"}],
    "Gossip": [{"weights": "metropolis"}, {"weights": "metropolis", "adoption": "mix", "share": "base"}],
    "FML": [
        {"alpha": 0.9, "beta": 0.2, "adoption": "average"},
        {"share": "base", "adoption": "mix"},
        {"adoption": "ignore"},
    ],
    "IFCA": [
        {"centres": 1, "adoption": "average"},
        {"centres": 3, "start": "same", "adoption": "mix"},
        {"part": "head", "adoption": "ignore"},
        {"part": "head", "adoption": "average"},
        {"share": "base"},
    ],
    "KD-PDFL": [
        {"adoption": "mix", "share": ("0.*", "1.running_*")},
        {"adoption": "average", "share": "base", "tau": 0.1},
        {"adoption": "ignore", "asked": 1},
        {"reading": "paper"},
        {"reading": "paper", "step": "sign", "adoption": "mix"},
        {"reading": "paper", "step": "fixed", "regularizer": "l2", "outputs": "logits"},
        {"reading": "paper", "step": "softmax", "outputs": "centred", "distance": "jensen_shannon"},
        {"reading": "paper", "adoption": "ignore", "outputs": "0", "distance": "cosine", "share": "base"},
        {"reading": "paper", "share": ("0.*", "1.running_*"), "c_base": 5.0},
    ],
    "L2C": [{"signal": "updates", "switch": 0, "top": 1}, {"adoption": "mix", "rate": 1.0, "share": "base"}],
    "kNN-Per": [{"choice": "leave-one-out", "k": 3, "adoption": "mix"}],
    "Per-FedAvg": [{"order": "HF", "adoption": "mix"}, {"alpha": 0.3, "beta": 0.5, "share": "base"}],
    "ModelPropagation": [
        {"weights": "kernel", "adoption": "average"},
        {"share": "base", "adoption": "mix"},
        {"adoption": "ignore"},
    ],
    "PENS": [{"sampled": 1, "top": 1, "switch": 0}, {"top": 1, "adoption": "mix"}, {"adoption": "average"}],
    "ProxyFL": [
        {"asked": 2, "blend": 0.5, "adoption": "mix"},
        {"private": True, "noise": 0.5, "adoption": "average"},
    ],
    "pFedMe": [{"steps": 1, "share": "base", "adoption": "average"}, {"beta": 2.0, "adoption": "mix"}],
}
"""Options beside the defaults, under which a method must hold the same."""

CASES = [
    pytest.param(plugin, options, id="-".join([name, *map(str, options.values())]))
    for name, plugin in {**registered("algorithm"), "Everything": Everything}.items()
    for options in [{}, *VARIANTS.get(name, [])]
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("plugin", "options"), CASES)
def test_every_method_of_the_registry(plugin: type[Algorithm], options: dict[str, Any], check: str) -> None:
    CHECKS[check](plugin(**options))


@pytest.mark.parametrize("name", registered("algorithm"))
def test_a_method_is_a_frozen_described_dataclass_with_defaults(name: str) -> None:
    plugin = registered("algorithm")[name]
    assert issubclass(plugin, Algorithm)
    assert describe(plugin)
    one = plugin()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.share = "base"
    assert one.lr_scale(0) == 1.0


def test_a_users_own_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_methods.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass
            from coterie.core.algorithm import Algorithm
            from coterie.core.ingredients.messages import weighted_sum

            @dataclass(frozen=True)
            class Halfway(Algorithm):
                "Half way to the mean of the others."
                pull: float = 0.5

                def mix(self, task, state, inbox, probe, ctx):
                    own = self.offer(task, state, probe, ctx)
                    w = inbox.heard.double() / inbox.heard.sum().clamp_min(1)
                    mean = weighted_sum(w, inbox.messages)
                    return task.merge(state, {k: own[k] + self.pull * (mean[k] - own[k]) for k in own}), {}
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    conforms(resolve("algorithm", "my_methods:Halfway"), adoption="mix")


def test_a_method_with_its_own_randomness_does_not_conform() -> None:
    @dataclasses.dataclass(frozen=True)
    class Noisy(Algorithm):
        def mix(
            self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
        ) -> tuple[State, Info]:
            return task.merge(state, {k: v + torch.rand(()) for k, v in state.params.items()}), {}

    with pytest.raises(AssertionError):
        CHECKS["nothing_modified"](Noisy())


def test_a_broadcast_that_nobody_can_use_does_not_conform() -> None:
    @dataclasses.dataclass(frozen=True)
    class Prototypes(FedAvg):
        """Sends what is no model, and inherits an `adopt` that takes models."""

        def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
            return {"prototypes": task.features(state, probe.x).mean(dim=0)}

        def mix(
            self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context
        ) -> tuple[State, Info]:
            return state, {}

    with pytest.raises(AssertionError):
        CHECKS["broadcasts_change_something"](Prototypes())
    CHECKS["broadcasts_change_something"](Prototypes(adoption="ignore"))


def test_randomness_differs_by_client() -> None:
    """Five clients that are equal in all but their number stay equal without noise, and part with it."""
    w = world()
    equal = w._replace(starts=pick(w.starts, [0] * 5), probes=pick(w.probes, [0] * 5))
    first: Any = lived(Everything(), equal)[0]
    for tensor in first.memory.values():
        assert len({tuple(one.flatten().tolist()) for one in tensor}) == 5
    silent: Any = lived(Everything(noise=0.0), equal)[0]
    for tensor in silent.memory.values():
        same(tensor, tensor[:1].expand_as(tensor))
