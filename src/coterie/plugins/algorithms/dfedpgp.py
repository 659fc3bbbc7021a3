r"""DFedPGP: own heads on a base that is pushed along directed links, where nobody answers.

$u_j \leftarrow \sum_i p_{ji}\,u_i, \quad \mu_j \leftarrow \sum_i p_{ji}\,\mu_i, \quad z_j = u_j / \mu_j$,
where the columns of P sum to one: the sender splits what it has

z is the base that is tested and learns; its mass μ says how much of the sum of all bases it stands for. A
star with n neighbours splits u and μ into n + 1 equal parts, keeps one and broadcasts the others; a neighbour
adds its part to its own. Replies are not used. A lost message loses u and μ alike, so z stays sound. Head and
base learn in turn, as in FedRep, by steps of z; the paper's are steps of u, which move z by η/μ: a base of
little mass would be thrown far.

The authors' code has no masses: every client averages the bases of random others, in equal parts (`code`).

Liu, Shi, Li, Wu, Wang, Shen: Decentralized directed collaboration for personalized federated learning. CVPR
2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from coterie.core.algorithm import SearchSpace
from coterie.core.registry import register
from coterie.core.tasks.task import Task
from coterie.core.types import Context, Inbox, Info, Message, Probe, Start, State
from coterie.plugins.algorithms.fedrep import FedRep

__all__ = ["MASS", "DFedPGP"]

MASS = "push.mass"
"""The name of μ in memory and in messages, beside the base."""


@register("algorithm", "DFedPGP")
@dataclass(frozen=True)
class DFedPGP(FedRep):
    """A base that is pushed to neighbours with its mass, under own heads; base and head learn in turn."""

    head: Annotated[float, Ge(0), Le(1)] = 1 / 6
    variant: Literal["push", "code"] = "push"
    """The paper's rule (`push`: any `adoption` but `ignore` adds what is pushed), or that of the authors'
    code (`code`: FedRep)."""

    def init(self, task: Task, start: Start, ctx: Context) -> State:
        own = FedRep.init(self, task, start, ctx)
        return own if self.variant == "code" else own._replace(memory={MASS: start.row.new_ones(1)})

    def offer(self, task: Task, state: State, probe: Probe, ctx: Context) -> Message:
        return {**FedRep.offer(self, task, state, probe, ctx), **state.memory}

    def mix(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.variant == "code":
            return FedRep.mix(self, task, state, inbox, probe, ctx)
        return state._replace(memory={MASS: state.memory[MASS] / (inbox.heard.sum() + 1)}), {}

    def adopt(self, task: Task, state: State, inbox: Inbox, probe: Probe, ctx: Context) -> tuple[State, Info]:
        if self.variant == "code" or not self.listens:
            return FedRep.adopt(self, task, state, inbox, probe, ctx)
        ours, added = self.offer(task, state, probe, ctx), inbox.messages[MASS][0].clamp_min(0)
        mass = ours[MASS] + added
        pushed = {k: ours[k] + added / mass * (m[0] - ours[k]) for k, m in inbox.messages.items()}
        return task.merge(state, pushed)._replace(memory={MASS: mass}), {"weight": added / mass}

    def search_space(self) -> SearchSpace:
        space = FedRep.search_space(self)
        return space if self.variant == "code" else {k: v for k, v in space.items() if k != "adoption"}
