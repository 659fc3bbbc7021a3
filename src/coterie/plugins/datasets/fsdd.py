r"""Six people say the digits: the Free Spoken Digit Dataset, as log spectrograms of 32 x 32.

The first axis is the pitch (32 bands of 125 Hz, from low to high), the second the time, stretched to 32
steps: $\log(10^{-3} + |s|)$, where s is the Fourier transform of 256 samples (32 ms, von Hann's window) and
|s| is averaged over four neighbouring frequencies. The first recordings of each digit by each speaker are
for testing, as their authors have it, the later ones for training.

Jackson: Free Spoken Digit Dataset, v1.0.10. https://github.com/Jakobovski/free-spoken-digit-dataset
"""

from __future__ import annotations

import re
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from annotated_types import Ge
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from coterie.core.data import Dataset, Samples
from coterie.core.errors import DataError
from coterie.core.registry import register
from coterie.data_files.catalogue import Entry, File, reading
from coterie.plugins.datasets.npz import load_owned

__all__ = ["Fsdd"]

_HOME = "https://github.com/Jakobovski/free-spoken-digit-dataset"
_FOLDER = "recordings"
_NAME = re.compile(r"([0-9])_([a-z]+)_([0-9]+)\.wav")
"""The digit, the speaker, and the number of the recording."""
_SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
"""Speakers of the official recordings, in the order of their names."""
_RATE = 8000
"""Samples a second."""
_WINDOW, _HOP = 256, 64
"""Samples of a Fourier transform, and from one to the next."""
_SIDE = 32
"""Bands, and steps in time."""

_FILES = Entry(
    name="fsdd",
    about="6 speakers, 10 digits: 3,000 recordings, as log spectrograms of 32 x 32",
    terms=f"{_HOME}, CC BY-SA 4.0; cite Jackson: Free Spoken Digit Dataset, v1.0.10",
    by_hand=(
        f"download {_HOME}/archive/refs/tags/v1.0.10.zip, unpack it and put its folder "
        f"{_FOLDER} into {{folder}}"
    ),
    folders=("fsdd", "free-spoken-digit-dataset", "free-spoken-digit-dataset-1.0.10", "natural"),
    files=(File(_FOLDER),),
    prepared="fsdd.npz",
)


@register("dataset", "fsdd")
@dataclass(frozen=True)
class Fsdd:
    """6 real speakers, 10 spoken digits as 32 x 32 log spectrograms; `coterie data fetch fsdd` says where."""

    speaker: Literal["client", "group"] = "client"
    """`client`: each speaker is a client; `group`: a group of clients, among whom the speaker's recordings
    are dealt, so that who should work with whom is known."""
    test: Annotated[int, Ge(1)] = 5
    """Recordings of each digit by each speaker that are for testing, the first ones; officially 5 of 50."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        (path,) = _FILES.held_files(root)
        spoken = _parsed(path) if path.name == _FOLDER else _prepared(path)
        first = spoken.number < self.test
        if first.all() or not first.any():
            raise DataError(
                f"{path}: data.set.test = {self.test} leaves nothing for training or nothing for testing: "
                f"the {len(first)} recordings are numbered from {spoken.number.min()} to "
                f"{spoken.number.max()}"
            )
        train, test = (self._part(spoken, torch.from_numpy(part)) for part in (~first, first))
        return Dataset(train, test, tuple("0123456789"), owners=spoken.speakers)

    def _part(self, spoken: _Recordings, rows: Tensor) -> Samples:
        whose = {"owner" if self.speaker == "client" else "group": spoken.speaker[rows]}
        return Samples(spoken.x[rows], spoken.digit[rows], **whose)


class _Recordings(NamedTuple):
    x: Tensor
    digit: Tensor
    speaker: Tensor
    number: npt.NDArray[np.int64]
    """The place of a recording among those of the same digit by the same speaker."""
    speakers: tuple[str, ...]
    """The speakers' names, by their numbers; empty: not known."""


def _prepared(path: Path) -> _Recordings:
    """Read the arrays; recordings are in the order of their names, 0_george_0, 0_george_1, 0_george_10 ..."""
    data, speaker = load_owned(path)
    x, digit = data.train.x, data.train.y
    number = np.empty(len(digit), dtype=np.int64)
    kind = (speaker * 10 + digit).numpy()
    for one in np.unique(kind):
        (rows,) = np.nonzero(kind == one)
        number[rows] = sorted(range(len(rows)), key=str)
    official = _SPEAKERS if int(speaker.max()) + 1 == len(_SPEAKERS) else ()
    return _Recordings(x, digit, speaker, number, data.owners or official)


def _parsed(folder: Path) -> _Recordings:
    """Read the folder of recordings, DIGIT_SPEAKER_NUMBER.wav, in the order of their names."""
    with reading(folder):
        named = [(path, match) for path in sorted(folder.iterdir()) if (match := _NAME.fullmatch(path.name))]
    if not named:
        raise DataError(
            f"{folder}: expected recordings named like 7_jackson_32.wav, got none; get them again"
        )
    pictures = np.stack([_spectrogram(_sound(path)) for path, _ in named])[:, None]
    digits, number = (np.array([int(match[k]) for _, match in named]) for k in (1, 3))
    names, speakers = np.unique([match[2] for _, match in named], return_inverse=True)
    x, digit, speaker = (torch.from_numpy(column) for column in (pictures, digits, speakers))
    return _Recordings(x, digit, speaker, number, tuple(map(str, names)))


def _sound(path: Path) -> npt.NDArray[np.float64]:
    """Read a recording, from -1 to 1."""
    try:
        with reading(path), wave.open(str(path)) as file:
            kind = file.getframerate(), file.getnchannels(), file.getsampwidth()
            content = file.readframes(file.getnframes())
    except wave.Error as error:
        raise DataError(f"cannot read {path}: {error}; the file may be damaged") from None
    if kind != (_RATE, 1, 2) or not content:
        raise DataError(
            f"{path}: expected {_RATE} samples a second, 1 channel and 2 bytes a sample, got {kind[0]}, "
            f"{kind[1]} and {kind[2]}, and {len(content)} bytes in all"
        )
    return np.frombuffer(content, "<i2") / 2**15


def _spectrogram(sound: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Compute the log spectrogram of a recording, `[bands, steps]`."""
    padded = np.pad(sound, (0, max(0, _WINDOW - len(sound))))
    windows = sliding_window_view(padded, _WINDOW)[::_HOP] * np.hanning(_WINDOW)
    size = np.abs(np.fft.rfft(windows))[:, : _WINDOW // 2].reshape(len(windows), _SIDE, -1).mean(axis=2)
    steps = np.linspace(0, len(windows) - 1, _SIDE).round().astype(np.int64)
    picture: npt.NDArray[np.float32] = np.log(size[steps].T + 1e-3).astype(np.float32)
    return picture
