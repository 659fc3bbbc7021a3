"""A folder of text files, each of which is one person's: sequences of characters for `next_token`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import located, reading
from coterie.plugins.datasets._texts import sequences

__all__ = ["TextFolder"]


@register("dataset", "text_folder")
@dataclass(frozen=True)
class TextFolder:
    """Files NAME.txt in a folder, one person each, cut into sequences of characters."""

    path: str
    """The folder, relative to the data folder."""
    length: Annotated[int, Ge(1)] = 32
    """Characters of a sequence; a target is the same sequence one character later."""
    alphabet: str = ""
    """All characters that there are, where files may lack some; empty: those that occur."""

    def load(self, root: Path | None) -> Dataset:
        folder = located(root, self.path)
        files = sorted(folder.glob("*.txt"))
        if not files:
            raise DataError(f"{folder}: expected files NAME.txt, one for each person, got none")
        texts = {str(file): _text(file) for file in files}
        tokens = tuple(dict.fromkeys(self.alphabet)) or tuple(sorted(set("".join(texts.values()))))
        x, y, owner = sequences(texts, tokens, self.length)
        persons = tuple(file.stem for file in files)
        return Dataset(Samples(x, y, owner=owner), None, tokens, owners=persons)


def _text(file: Path) -> str:
    with reading(file):
        try:
            return file.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{file}: expected text in UTF-8: {error}") from None
