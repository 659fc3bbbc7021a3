"""Fifteen speakers of British English, each saying eleven vowels six times. Each speaker is a client.

The groups are women and men. Of the ten features in the official file the second is left out, as in the
prepared one.

Deterding: Speaker normalisation for automatic speech recognition. PhD thesis, Cambridge, 1989.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import Entry, File
from coterie.plugins.datasets._rows import numbers, read_rows
from coterie.plugins.datasets.npz import load_owned

__all__ = ["Vowel"]

_CLASSES = ("hid", "hId", "hEd", "hAd", "hYd", "had", "hOd", "hod", "hUd", "hud", "hed")
_NAMES = (
    "Andrew", "Bill", "David", "Mark", "Jo", "Kate", "Penny", "Rose", "Mike", "Nick", "Rich", "Tim", "Sarah",
    "Sue", "Wendy",
)  # fmt: skip
"""The speakers, 0 to 14, as the official description names them."""
_SPEAKERS = len(_NAMES)
_WOMEN = (4, 5, 6, 7, 12, 13, 14)
_PAGE = "https://archive.ics.uci.edu/dataset/152"
_TEXT = "vowel-context.data"

_FILES = Entry(
    name="vowel",
    about="15 speakers, 11 English vowels: 990 utterances, 9 numbers each",
    terms=(
        f"{_PAGE} (Connectionist Bench, Vowel Recognition, Deterding Data); cite Deterding: Speaker "
        f"normalisation for automatic speech recognition, 1989"
    ),
    by_hand=f"download the files of {_PAGE} and put {_TEXT} into {{folder}}",
    folders=("vowel", "natural", "."),
    files=(File(_TEXT),),
    prepared="vowel.npz",
)


@register("dataset", "vowel")
@dataclass(frozen=True)
class Vowel:
    """15 real speakers, 11 vowels by 9 numbers, women and men; `coterie data fetch vowel` says where."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        (path,) = _FILES.held_files(root)
        data, speaker = _parsed(path) if path.name == _TEXT else load_owned(path)
        women = torch.isin(speaker, torch.tensor(_WOMEN)).long()
        names = data.owners or _NAMES[: int(speaker.max()) + 1]
        return dataclasses.replace(data, train=dataclasses.replace(data.train, group=women), owners=names)


def _parsed(path: Path) -> tuple[Dataset, Tensor]:
    """Read the file of utterances: the part, the speaker, the sex, ten features, and the vowel."""
    rows = read_rows(path, width=14, separator=None)
    table = numbers(rows, slice(None))
    for column, what, most in ((1, "speaker", _SPEAKERS), (13, "vowel", len(_CLASSES))):
        if (bad := ~np.isin(table[:, column], np.arange(most))).any():
            row = rows[int(bad.argmax())]
            raise DataError(f"{row.where}: expected a {what} from 0 to {most - 1}, got {row.cells[column]!r}")
    x = torch.from_numpy(np.delete(table, (0, 1, 2, 4, 13), axis=1)).float()
    speaker, vowel = (torch.from_numpy(table[:, column]).long() for column in (1, 13))
    return Dataset(Samples(x, vowel, owner=speaker), None, _CLASSES), speaker
