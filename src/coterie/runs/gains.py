"""Gains by joining: each client against its Local twin, in words, with what goes with its gain or loss.

A client gained if its personal metric (accuracy, or what its task measures) is better than that of its Local
twin, the same client learning alone, on the same test samples; it lost if it is worse, and is level
otherwise. A gain is positive where the client is better, whichever way the metric points.
`coterie.runs.hurt` tells what is beyond noise.

The account of a client names at most three facts (`coterie.runs.facts`) that go with what it gained or lost.
The own group is one if the client gained and listens to it clearly more than by chance, or lost and does not.
Any other is one if the client is at least a standard deviation away from the mean over the clients, if the
fact goes with gain in this run, and if the client's gain is on that side of the mean gain on which the fact
lets expect it.

What goes together in one run need not be a cause; and where a run shows nothing, nothing is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.core.errors import RunError
from coterie.runs.facts import OWN_GROUP, Fact, Recorded, compare, recorded
from coterie.runs.hurt import over_seeds, surely_gained, surely_hurt
from coterie.runs.metrics import WorldMetrics, by_name
from coterie.runs.owners import called, numbered
from coterie.runs.wording import amount, in_words, text, with_unit
from coterie.storage.files import finite

if TYPE_CHECKING:
    from coterie.runs.run import Run

__all__ = ["Account", "WorldGains", "accounts"]

_CLEARLY = 0.1
"""Share of the weight above chance from which a client listens to its own group."""
_MOST = 3
"""Facts that an account names."""


class _Words(NamedTuple):
    low: str
    """What is said of a client whose value is low, with room for the value and what it is compared with."""
    high: str
    lower: str
    """What clients have whose values are lower."""
    higher: str
    number: Callable[[float], str]


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


_ITS_GROUP = "it listens to its own group with {} of its weight (by chance: {})"
_WORDS = {
    OWN_GROUP: _Words(_ITS_GROUP, _ITS_GROUP, "", "", _percent),
    "samples": _Words(
        "it has few training samples: {} (average: {})",
        "it has many training samples: {} (average: {})",
        "fewer training samples",
        "more training samples",
        lambda value: f"{value:.0f}",
    ),
    "distance": _Words(
        "the models it listens to see its data much as it does, at a distance of {} (average: {})",
        "the models it listens to see its data otherwise, at a distance of {} (average: {})",
        "models that are nearer",
        "models that are farther away",
        lambda value: f"{value:.2g}",
    ),
    "from_others": _Words(
        "little of its model comes from others: {} at an exchange (average: {})",
        "much of its model comes from others: {} at an exchange (average: {})",
        "less from others",
        "more from others",
        _percent,
    ),
    "shared_labels": _Words(
        "its labels are rare among those it listens to, who have {} of its mix of labels (average: {})",
        "its labels are common among those it listens to, who have {} of its mix of labels (average: {})",
        "rarer labels",
        "more common labels",
        _percent,
    ),
}


@dataclass(frozen=True)
class Account:
    """One client: its gain by joining, and what goes with that. NaN: not known."""

    client: int
    method: str
    seed: int
    verdict: str | None
    """gained, level or lost; None: not known."""
    surely: str | None
    """gained or lost with 95 % confidence, or neither; None: not known."""
    personal: float
    """The metric on personal samples at the last evaluation."""
    gain: float
    """How much better that is than the Local twin's."""
    average_gain: float
    """The mean over the clients."""
    facts: Mapping[str, Mapping[str, float]]
    """By name: the client's value, the reference to compare with, and the correlation with gain."""
    named: tuple[str, ...]
    """The facts that go with the gain or the loss, the strongest first."""
    text: str
    """All of that in a few sentences."""
    owner: str | None = None
    """The name of the owner of the client's samples; None: not known."""

    def plain(self) -> dict[str, Any]:
        """Give the account as data that JSON can hold."""
        found: dict[str, Any] = finite(asdict(self), 5)
        return found


class WorldGains:
    """The gains of all clients of one world; `worlds`: those of all seeds of its method."""

    def __init__(self, world: WorldMetrics, worlds: Sequence[WorldMetrics]) -> None:
        self.world, self.worlds, self.metric = world, worlds, world.metric()
        gain = world.gain_or_nan("personal")
        self.gain = np.full_like(gain, np.nan) if world.alone else gain
        """`[M]` in the metric as files hold it, positive where better; NaN: not known."""
        self.surely = surely_gained(world, worlds) - surely_hurt(world, worlds)
        """`[M]` 1: surely gained, -1: surely lost, 0: neither; NaN: not known."""
        self._compared = ~np.isnan(self.gain)
        self._over = f" over all {len(worlds)} seeds" if over_seeds(worlds) else ""

    def tally(self) -> str:
        """Count who gained, who is level and who lost, and who surely did."""
        if (why := self._unknown()) is not None:
            return f"Who gains by joining is not known: {why}."
        level = int((self.gain == 0).sum())
        parts = [
            f"{self._count(1) or 'None'} of {self._compared.sum()} {self._whom()} gained by joining"
            f"{self._sure(1)}",
            *([f"{level} {'is' if level == 1 else 'are'} level"] if level else []),
            f"{self._count(-1) or 'nobody'} lost{self._sure(-1)}",
        ]
        left = int((~self._compared).sum())
        others = f" Not compared: {left}, attackers or without a finite model." if left else ""
        sure = f" Who surely did is told by all {len(self.worlds)} seeds." if self._over else ""
        return f"{', '.join(parts)}.{sure}{others}"

    def account(self, client: int, seeds: Sequence[Recorded]) -> Account:
        """Tell what one client gained, and what goes with that; `seeds`: the facts of each of `worlds`.

        `client`: its place among those recorded.
        """
        facts = compare(self.world, self.worlds, seeds)
        named = self._named(facts, client)
        return Account(
            client=int(self.world.roster.numbers[client]),
            method=self.world.name,
            seed=self.world.seed,
            verdict=_verdict(self.gain[client], "level"),
            surely=_verdict(self.surely[client], "neither"),
            personal=float(self.world.scores["personal"][-1, client]),
            gain=float(self.gain[client]),
            average_gain=self._average(),
            facts={name: _numbers(fact, client) for name, fact in facts.items()},
            named=named,
            text=self._text(client, [(_WORDS[name], facts[name]) for name in named]),
            owner=self.world.owner[client] if self.world.owner else None,
        )

    def _unknown(self) -> str | None:
        """Tell why nobody can be compared; None if somebody can."""
        if self.world.alone:
            return f"{self.world.name} learns alone, and the others are compared with it"
        if self.world.twin is None:
            return "this run has no Local to compare with; add Local to its methods"
        if not self._compared.any():
            return f"no client can be compared with Local at iteration {self.world.t[-1]}"
        return None

    def _whom(self) -> str:
        """Say who is counted."""
        if not self.world.roster.sampled:
            return "clients"
        return f"clients, a sample of all {self.world.roster.total:,},"

    def _count(self, sign: int) -> int:
        return int((np.sign(self.gain) == sign).sum())

    def _sure(self, sign: int) -> str:
        """Tell how many surely gained (1) or lost (-1); nothing where nobody did, or that is not known."""
        sure = int((self.surely == sign).sum())
        if np.isnan(self.surely).all() or not (sure or self._count(sign)):
            return ""
        return f" ({sure or 'nobody'} surely)"

    def _average(self) -> float:
        return float(self.gain[self._compared].mean()) if self._compared.any() else np.nan

    def _named(self, facts: Mapping[str, Fact], client: int) -> tuple[str, ...]:
        """Choose the facts that go with a gain or loss: the own group, then those farthest apart."""
        fitting = [name for name, fact in facts.items() if self._fits(name, fact, client)]
        order = sorted(fitting, key=lambda name: (name != OWN_GROUP, -abs(facts[name].apart[client])))
        return tuple(order[:_MOST])

    def _fits(self, name: str, fact: Fact, client: int) -> bool:
        gain, apart = self.gain[client], fact.apart[client]
        if name == OWN_GROUP:
            return bool(gain * (apart - _CLEARLY) > 0)
        return bool(abs(apart) >= 1 and fact.correlation * apart * (gain - self._average()) > 0)

    def _text(self, client: int, named: Sequence[tuple[_Words, Fact]]) -> str:
        if (why := self._unknown()) is not None:
            return f"Whether {called(self.world, client)} gains by joining is not known: {why}."
        model = self.world.architecture[client] if self.world.architecture else ""
        who = f"C{called(self.world, client, model)[1:]}"
        if client in self.world.attackers:
            return f"{who} is an attacker, so it is not compared with its Local twin."
        if not self._compared[client]:
            return f"{who} cannot be compared with its Local twin: one of them has no finite model."
        average = self._average()
        mean = "is level" if self._is_tiny(average) else self._changed(average)
        moved = f"{who} {self._moved(client)}{self._noise(client)}."
        return f"{moved} The average client {mean}. {_reasons(named, client)}"

    def _moved(self, client: int) -> str:
        own, gain, metric = self.world.scores["personal"][-1, client], self.gain[client], self.metric
        if not gain:
            return f"is level: {in_words(metric, own)}, as alone"
        alone = own - gain if metric.higher_is_better else own + gain
        better = "" if metric.higher_is_better else f" ({metric.direction})"
        values = f"{in_words(metric, own)} against {with_unit(metric, alone)} alone"
        return f"{self._changed(gain)} by joining: {values}{better}"

    def _changed(self, gain: float) -> str:
        """Say that a client gained or lost, and how much."""
        least = 10.0**-self.metric.digits / self.metric.scale
        size = f"less than {amount(self.metric, least)}" if self._is_tiny(gain) else amount(self.metric, gain)
        return f"{'gained' if gain > 0 else 'lost'} {size}"

    def _is_tiny(self, gain: float) -> bool:
        """Tell whether a gain is less than is shown."""
        return text(self.metric, abs(gain)) == text(self.metric, 0.0)

    def _noise(self, client: int) -> str:
        """Tell whether the difference to the twin is more than chance may make."""
        sign, surely = np.sign(self.gain[client]), self.surely[client]
        if surely in (1, -1) and surely != sign:
            return f", but{self._over} it surely {_verdict(surely, '')} (95 %)"
        if not sign:
            return ""
        if np.isnan(surely):
            return "; the run cannot tell whether by chance"
        return f", beyond noise{self._over} (95 %)" if surely else f", which is within noise{self._over}"


def accounts(run: Run, client: int | str, seed: int | None = None) -> list[Account]:
    """Tell what a client of one seed, by default the first, gained with each method but Local.

    `client`: its number, or the name of its owner.
    """
    there = sorted({world.seed for world in run.tracks})
    if not there:
        raise RunError(f"{run.path} has no clients to show yet: no evaluation has been recorded")
    if seed is not None and seed not in there:
        raise RunError(f"{run.path} has no seed {seed}; there are: {', '.join(map(str, there))}")
    found = []
    for worlds in by_name([world for world in run.tracks if not world.alone]).values():
        facts = [recorded(world, run.history(world)) for world in worlds]
        chosen = [world for world in worlds if world.seed == (there[0] if seed is None else seed)]
        for world in chosen:
            place = world.roster.place(numbered(world, client, run.path), run.path)
            found.append(WorldGains(world, worlds).account(place, facts))
    return found


def _verdict(difference: float, none: str) -> str | None:
    return None if np.isnan(difference) else {1: "gained", -1: "lost"}.get(int(np.sign(difference)), none)


def _numbers(fact: Fact, client: int) -> dict[str, float]:
    value, reference = float(fact.value[client]), float(fact.reference[client])
    return {"value": value, "reference": reference, "correlation": fact.correlation}


def _reasons(named: Sequence[tuple[_Words, Fact]], client: int) -> str:
    """Say which facts go with what a client gained or lost, and what the run shows of them."""
    if not named:
        return "Nothing that the run recorded of it goes with that."
    said = "; ".join(_said(words, fact, client) for words, fact in named)
    shown = [_gaining(words, fact) for words, fact in named if not np.isnan(fact.correlation)]
    rule = f" In this run, clients with {_listed(shown)} gain more." if shown else ""
    return f"What goes with that: {said}.{rule}"


def _said(words: _Words, fact: Fact, client: int) -> str:
    sentence = words.high if fact.apart[client] > 0 else words.low
    return sentence.format(words.number(fact.value[client]), words.number(fact.reference[client]))


def _gaining(words: _Words, fact: Fact) -> str:
    return words.higher if fact.correlation > 0 else words.lower


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
