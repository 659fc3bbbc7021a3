"""The contract of an attack: a dishonest client's training and messages, as pure functions.

    trains  whether it takes local steps at all                every ordinary iteration
    labels  rename its own training samples                    before the first iteration
    offer   make a message in place of its algorithm's own     when it is asked, and when it broadcasts
                                                              or gives feedback

In all else an attacker does as its algorithm says: it asks, looks, mixes and adopts like everybody, and is
a member in good standing. Every message is well formed, so only what is in it can give the sender away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coterie.core.streams import Stream
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Message, Probe, State

__all__ = ["Attack", "attackers", "perturb_trainable", "rms"]


@dataclass(frozen=True)
class Attack:
    """An attack; one that overrides nothing is honest."""

    needs_classes: ClassVar[bool] = False
    """Looks at labels: refused where targets are not one class each."""

    @property
    def trains(self) -> bool:
        """True if an attacker takes local steps."""
        return True

    def labels(self, y: Tensor, classes: int) -> Tensor:
        """Rename an attacker's own training samples `[n]`."""
        return y

    def offer(self, task: Task, state: State, honest: Message, probe: Probe, ctx: Context) -> Message:
        """Make what an attacker sends in place of `honest`, its algorithm's; `probe`: its own samples."""
        return honest

    def feedback(self, task: Task, honest: Message, probe: Probe, ctx: Context) -> Message:
        """Make what it sends in place of `honest` feedback to a client of another architecture.

        `task`: of that architecture, of which an attacker has no model but this, so it takes it for its own.
        """
        return self.offer(task, task.merge(task.blank(honest), honest), honest, probe, ctx)


def attackers(clients: int, share: float, seed: int) -> Tensor:
    """Draw who attacks, `[M]` bool: this share of the clients, at least one; a larger share adds to them."""
    count = min(max(1, round(share * clients)), clients - 1) if share else 0
    rank = Stream(seed, "attackers").permutation(clients).argsort()
    return rank < count


def perturb_trainable(state: State, honest: Message, change: Callable[[str, Tensor], Tensor]) -> Message:
    """Change all of a message but the state's buffers; running statistics stay, so that it passes for one."""
    return {k: m if k in state.buffers else change(k, m).to(m.dtype) for k, m in honest.items()}


def rms(tensor: Tensor) -> Tensor:
    """Compute the root mean square of a tensor's numbers."""
    return tensor.square().mean().sqrt()
