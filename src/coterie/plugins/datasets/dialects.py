"""Little stories by persons of a few villages, each of which has words of its own: text for `next_token`.

A sentence names somebody, what they do, to what, and where. Each village has its own word for each of these
meanings, and each person has favourites among the meanings; which village a person is of is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from coterie.core.data import Dataset, Samples
from coterie.core.registry import register
from coterie.core.streams import Stream
from coterie.plugins.datasets._texts import sequences

__all__ = ["Dialects"]

SLOTS = (
    ("the boy/yon lad/a younker", "the girl/yon lass/a maiden", "the cook/yon hash/a kitchener",
     "the priest/yon vicar/a parson", "the smith/yon farrier/a hammerer"),
    ("sees/spies/beholds", "takes/grabs/fetches", "sells/hawks/barters", "hides/stows/secretes",
     "wants/craves/desires"),
    ("the horse/yon nag/a steed", "the bread/yon loaf/a baguette", "the brook/yon beck/a rivulet",
     "the knife/yon blade/a dagger", "the cap/yon bonnet/a beret"),
    ("at home/by hearth/indoors", "in town/up market/downtown", "at night/come dark/past sunset",
     "in rain/when wet/under drizzle", "on monday/sabbath morn/weekdays"),
)  # fmt: skip
"""The meanings that each part of a sentence may have, and each village's word for it."""
VILLAGES = 3
TOKENS = tuple(sorted({c for slot in SLOTS for meaning in slot for c in meaning if c != "/"} | {"."}))


@register("dataset", "dialects")
@dataclass(frozen=True)
class Dialects:
    """Stories by persons of three villages, each of which has its own words, as characters."""

    persons: Annotated[int, Ge(1)] = 4
    """Persons of a village, each of whom is a client."""
    sentences: Annotated[int, Ge(2)] = 30
    """Sentences of a person to learn from; there are twice as many to be tested on."""
    length: Annotated[int, Ge(1)] = 32
    """Characters of a sequence; a target is the same sequence one character later."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed of favourites and stories; independent of the run's seeds."""

    def load(self, root: Path | None) -> Dataset:
        return Dataset(self._part("train", self.sentences), self._part("test", 2 * self.sentences), TOKENS)

    def _part(self, part: str, count: int) -> Samples:
        person = torch.arange(VILLAGES * self.persons)
        village = person // self.persons
        chosen = self._meanings(part, count, person)
        texts = {
            f"person {i}": "".join(_sentence(meanings, int(village[i])) for meanings in chosen[i].tolist())
            for i in person.tolist()
        }
        x, y, owner = sequences(texts, TOKENS, self.length)
        return Samples(x, y, village[owner], owner)

    def _meanings(self, part: str, count: int, person: Tensor) -> Tensor:
        """Choose the meaning of each part of each person's sentences, `[persons, count, slots]`.

        Of five, each person's favourite is three times as likely as each of the others.
        """
        slots, each = len(SLOTS), len(SLOTS[0])
        favourite = Stream(self.seed, "favourites").integers(slots, client=person, high=each)[:, None]
        shape = len(person), count, slots
        drawn = Stream(self.seed, f"{part} stories").integers(count * slots, client=person, high=each + 2)
        drawn = drawn.view(shape)
        return torch.where(drawn < each, drawn, favourite.expand(shape))


def _sentence(meanings: list[int], village: int) -> str:
    words = (slot[meaning].split("/")[village] for slot, meaning in zip(SLOTS, meanings, strict=True))
    return " ".join(words) + ". "
