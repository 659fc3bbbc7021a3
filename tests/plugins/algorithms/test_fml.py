"""FML: both steps by hand; apart it is Local and FedAvg; the private model never travels."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
import torch
from torch import Tensor

from coterie.core.algorithm import Adoption, guarded_adopt, guarded_mix
from coterie.core.models.model_choice import SAME
from coterie.core.models.model_factory import with_proxy
from coterie.core.sampling import first_proxy
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, Start, State
from coterie.plugins.algorithms.fedavg import FedAvg
from coterie.plugins.algorithms.fml import FML, proxy_model
from coterie.plugins.algorithms.local import Local
from coterie.plugins.algorithms.proxyfl import ProxyFL
from tests.conformance import lived, world
from tests.plugins.algorithms.pairs import PAIR, batch, client, inbox, logits
from tests.plugins.algorithms.scalars import probe
from tests.plugins.algorithms.squares import moment
from tests.trees import one_by_one, same, stack

EVEN, SURE = (0.0, 0.0), (log(3), 0.0)
"""Probabilities (1/2, 1/2) and (3/4, 1/4)."""


def after(method: FML, t: int = 2) -> tuple[list[float], list[float]]:
    """The logits after a step of η = 1 on a sample of label 0."""
    new, _ = method.local(PAIR, client(method, EVEN, SURE), batch(0), moment(t=t))
    return logits(new)


def test_what_the_other_says_alone() -> None:
    # the private model's gradient p_θ - p_φ = (-1/4, 1/4), the proxy's the opposite
    theta, phi = after(FML(alpha=0.0, beta=0.0))
    assert theta == pytest.approx([0.25, -0.25], abs=1e-15)
    assert phi == pytest.approx([log(3) - 0.25, 0.25], abs=1e-15)


def test_labels_and_the_other_half_and_half() -> None:
    # label 0: p - (1, 0) is (-1/2, 1/2) for θ and (-1/4, 1/4) for φ, which the other's cancels
    theta, phi = after(FML())
    assert theta == pytest.approx([0.375, -0.375], abs=1e-15)
    assert phi == pytest.approx([log(3), 0.0], abs=1e-15)
    assert FML().gradients == 2


def test_labels_alone_in_the_closing_phase() -> None:
    assert after(FML(alpha=0.0, beta=0.0), t=101) == after(FML(alpha=1.0, beta=1.0))


def test_an_exchange_is_of_the_proxy_alone() -> None:
    method, state = FML(), client(FML(), (5, 6), (1, 2))
    mixed, _ = guarded_mix(method, PAIR, state, inbox((3, 6)), probe(), moment())
    assert logits(mixed) == ([5, 6], [2, 4])
    told, _ = guarded_adopt(method, PAIR, state, inbox((3, 6)), probe(), moment())
    assert logits(told) == ([5, 6], [3, 6])


@pytest.mark.parametrize("adoption", ["replace", "average", "mix", "ignore"])
def test_labels_alone_are_local_for_the_private_model_and_fedavg_for_the_proxy(adoption: Adoption) -> None:
    w = world()
    assert w.task.proxy is not None
    proxies = Start(*w.starts.proxy, w.starts.row, w.starts.group)
    common = w._replace(task=w.task.proxy, starts=proxies)
    lives = zip(
        lived(FML(alpha=1.0, beta=1.0, adoption=adoption), w),
        lived(Local(), w),
        lived(FedAvg(adoption=adoption), common),
        strict=True,
    )
    for moments in lives:
        mine, alone, together = (m if isinstance(m, State) else m[0] for m in moments)
        same((mine[:3], proxy_model(mine)[:3]), (alone[:3], together[:3]))


def test_alone_the_private_model_is_locals_whatever_the_proxy_learns() -> None:
    for mine, alone in zip(lived(FML(alpha=1.0), world()), lived(Local(), world()), strict=True):
        mine, alone = (m if isinstance(m, State) else m[0] for m in (mine, alone))
        same(mine[:3], alone[:3])


@pytest.mark.parametrize("base", [FML, ProxyFL])
def test_no_tensor_of_the_private_model_is_ever_sent(base: type[FML]) -> None:
    """Even if both have the same architecture, so that neither names nor shapes can tell."""
    private: list[Tensor] = []
    sent: list[Tensor] = []

    class Watched(base):  # type: ignore[valid-type, misc]
        def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
            private.extend([*state.params.values(), *state.buffers.values()])
            message: Message = base.offer(self, task, state, probe, ctx)
            sent.extend(message.values())
            return message

    w = world()
    task = with_proxy(replace(w.task, proxy=None), SAME, (), (), "shared")
    proxy = stack([first_proxy(task, "shared", 1)] * len(w.ids))
    lived(Watched(), w._replace(task=task, starts=w.starts._replace(proxy=proxy)), one_by_one)
    assert len(sent) == 2 * len(w.ids) * len(task.names())  # a reply and a broadcast of each client
    for tensor in sent:
        assert not any(tensor.shape == own.shape and torch.equal(tensor, own) for own in private)
