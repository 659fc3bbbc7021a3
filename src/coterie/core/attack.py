"""The contract of an attack: what a dishonest client learns from and what it sends, as pure functions.

    learns  whether it takes local steps at all             every ordinary iteration
    labels  what it calls its own training samples          before the first iteration
    offer   what it sends in place of its method's offer    when it is asked, and when it broadcasts

In all else an attacker does as its method says: it wakes, looks, mixes and adopts like everybody, and is
a member in good standing. Every message is well formed, so only what is in it can give the sender away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from coterie.core.streams import Stream
from coterie.core.task import Task
from coterie.core.types import Message, Probe, State

__all__ = ["Attack", "attack_key", "attackers", "size", "spoiled"]


@dataclass(frozen=True)
class Attack:
    """An attack; one that overrides nothing is honest."""

    @property
    def learns(self) -> bool:
        """Whether an attacker takes local steps."""
        return True

    def labels(self, y: Tensor, classes: int) -> Tensor:
        """What an attacker calls its own training samples `[n]`."""
        return y

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, key: Tensor) -> Message:
        """What an attacker sends; `honest` is what its method would, `probe` its own training samples.

        `key` `[]` int64 seeds whatever is random in it.
        """
        return honest


def attackers(clients: int, share: float, seed: int) -> Tensor:
    """Who attacks, `[M]` bool: this share of the clients, at least one; a larger share adds to them."""
    count = min(max(1, round(share * clients)), clients - 1) if share else 0
    rank = Stream(seed, "attackers").permutation(clients).argsort()
    return rank < count


def attack_key(seed: int | Tensor, t: int | Tensor, client: int | Tensor) -> Tensor:
    """The key of what a client sends at iteration t."""
    words = Stream(seed, "attack", seed.device if isinstance(seed, Tensor) else None).words(2, t, client)
    return words[..., 0] | words[..., 1] << 32


def spoiled(state: State, honest: Message, change: Callable[[str, Tensor], Tensor]) -> Message:
    """The message with all that is trained changed; running statistics stay, so that it passes for one."""
    return {k: change(k, m).to(m.dtype) if k in state.params else m for k, m in honest.items()}


def size(tensor: Tensor) -> Tensor:
    """The root mean square of a tensor's numbers."""
    return tensor.square().mean().sqrt()
