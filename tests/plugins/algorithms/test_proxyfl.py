"""ProxyFL: proxies passed on, whom a star asks, clipping and noise by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from coterie.core.algorithm import guarded_adopt, guarded_mix
from coterie.core.errors import ConfigError
from coterie.core.types import Reachable, State
from coterie.plugins.algorithms.fml import FML
from coterie.plugins.algorithms.proxyfl import ProxyFL, clipped
from tests.conformance import lived, world
from tests.plugins.algorithms.pairs import PAIR, batch, client, inbox, logits
from tests.plugins.algorithms.scalars import probe
from tests.plugins.algorithms.squares import moment
from tests.trees import same

EVEN, SURE = (0.0, 0.0), (log(3), 0.0)


def taken(method: ProxyFL, own: float, *heard: float) -> float:
    """The proxy of a star after an exchange."""
    state, box = client(method, (9, 9), (own, own)), inbox(*((z, z) for z in heard))
    mixed, _ = guarded_mix(method, PAIR, state, box, probe(), moment())
    assert logits(mixed)[0] == [9, 9]
    return logits(mixed)[1][0]


def test_on_a_ring_proxies_are_passed_on() -> None:
    proxies = [1.0, 2.0, 3.0]
    assert [taken(ProxyFL(), own, proxies[i - 1]) for i, own in enumerate(proxies)] == [3, 1, 2]


def test_half_way_and_of_several_the_mean() -> None:
    assert taken(ProxyFL(blend=0.5), 1.0, 3.0) == 2.0
    assert taken(ProxyFL(asked=2), 1.0, 3.0, 5.0) == 4.0


def test_a_broadcast_is_mixed_in_like_a_reply_only_if_it_should() -> None:
    for method, want in ((ProxyFL(blend=0.25, adoption="mix"), 1.5), (ProxyFL(adoption="replace"), 3.0)):
        state = client(method, (9, 9), (1, 1))
        told, _ = guarded_adopt(method, PAIR, state, inbox((3, 3)), probe(), moment())
        assert logits(told) == ([9, 9], [want, want])


def test_a_star_asks_so_many_and_not_always_the_same() -> None:
    method = ProxyFL(asked=2)
    state = client(method, EVEN, EVEN)
    reachable = Reachable(torch.arange(1, 6), torch.tensor([True, True, False, True, True]))
    chosen = [tuple(method.ask(PAIR, state, reachable, moment(t=t)).tolist()) for t in range(20)]
    assert all(sum(one) == 2 and not one[2] for one in chosen)
    assert len(set(chosen)) > 3
    assert method.chooses


def test_gradients_are_clipped_to_a_norm() -> None:
    long = {"a": torch.tensor([3.0]), "b": torch.tensor([[4.0]])}
    assert {k: float(g) for k, g in clipped(long, 1.0).items()} == pytest.approx({"a": 0.6, "b": 0.8})
    assert {k: float(g) for k, g in clipped(long, 6.0).items()} == {"a": 3.0, "b": 4.0}


def step(method: ProxyFL, *labels: int) -> list[float]:
    """The change of the proxy's logits by a step of η = 1."""
    state = client(method, EVEN, EVEN)
    new, _ = method.local(PAIR, state, batch(*labels), moment())
    return logits(new)[1]


def test_each_sample_is_clipped_before_the_mean() -> None:
    # of label 0 twice and of label 1: (1/2, -1/2) twice and the opposite, of norm 1/√2, clipped to 0.1
    method = ProxyFL(beta=1.0, private=True, clip=0.1, noise=0.0)
    each = 0.1 / 2**0.5
    assert step(method, 0, 0, 1) == pytest.approx([each / 3, -each / 3], abs=1e-15)


def test_noise_has_the_clips_size_and_is_of_the_call_alone() -> None:
    def noise(sigma: float, clip: float) -> list[float]:
        return step(ProxyFL(beta=1.0, private=True, clip=clip, noise=sigma), 0, 1)  # no gradient in the mean

    one = noise(1.0, 2.0)
    assert one == noise(1.0, 2.0)
    assert one != [0.0, 0.0]
    assert noise(0.5, 2.0) == pytest.approx([v / 2 for v in one], abs=1e-15)
    assert noise(1.0, 1.0) == pytest.approx([v / 2 for v in one], abs=1e-15)
    assert noise(0.0, 2.0) == [0.0, 0.0]


def test_without_clipping_and_noise_its_gradient_is_fmls() -> None:
    shy = ProxyFL(private=True, clip=1e6, noise=0.0)
    for mine, theirs in zip(lived(shy, world()), lived(ProxyFL(), world()), strict=True):
        mine, theirs = (m if isinstance(m, State) else m[0] for m in (mine, theirs))
        assert shy.proxy == FML().proxy
        same(mine.params, theirs.params, 0.05)  # samples share a mask of dropout there


def test_a_proxy_that_normalises_over_mini_batches_cannot_be_clipped_by_sample() -> None:
    start = world().starts._replace(proxy=({}, {"1.running_mean": torch.zeros(3)}))
    with pytest.raises(ConfigError, match='norm = "layer"'):
        ProxyFL(private=True).init(world().task, start, moment())
