"""Meaning of the numbers that a model takes in and puts out; saved with it, since it fits no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from coterie.core.data import Federation, Scaling
from coterie.peer.errors import PeerError

__all__ = ["Inputs"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Features, classes and scaling of one peer's data."""

    columns: tuple[str, ...]
    """Names of the features, in the order in which the model takes them; empty: they have none."""
    classes: tuple[str, ...]
    """Names of the labels, in the order of the model's outputs."""
    transform: str
    """Treatment of the features before the model."""
    scaling: Scaling | None
    """Scaling of the transform "standard"."""

    @classmethod
    def of(cls, federation: Federation) -> Inputs:
        """Take the inputs of a federation's data."""
        f = federation
        return cls(f.columns, f.classes, f.transform, f.scaling)

    @classmethod
    def parse(cls, facts: Mapping[str, Any]) -> Inputs:
        """Read what `plain` gave."""
        found = (torch.tensor(facts[k], dtype=torch.float64) for k in ("mean", "deviation") if k in facts)
        scaling = Scaling(*found) if "mean" in facts else None
        return cls(tuple(facts["columns"]), tuple(facts["classes"]), facts["transform"], scaling)

    def plain(self) -> dict[str, Any]:
        """Give data fit for JSON; `mean` and `deviation` of each column if inputs are scaled."""
        facts = {"columns": list(self.columns), "classes": list(self.classes), "transform": self.transform}
        if self.scaling is None:
            return facts
        return {**facts, "mean": self.scaling.mean.tolist(), "deviation": self.scaling.deviation.tolist()}

    def refuse_others(self, now: Inputs, where: str) -> None:
        """Raise if the data are no longer what the model, which lies `where`, was trained on."""
        for what in ("columns", "classes", "transform"):
            then, today = (_listed(getattr(inputs, what)) for inputs in (self, now))
            if then != today:
                raise PeerError(
                    f"the model in {where} was trained with the {what} {then}, but the data now have "
                    f"{today}; bring the former ones back, or name an empty folder as `state` to begin anew"
                )


def _listed(names: tuple[str, ...] | str) -> str:
    return names if isinstance(names, str) else ", ".join(names) or "that have no names"
