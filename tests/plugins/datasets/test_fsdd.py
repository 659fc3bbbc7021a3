from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from coterie.core.errors import ConfigError, DataError
from coterie.core.registry import build
from coterie.experiment import Experiment
from coterie.federation import Dealer
from coterie.federation.validation import validate_dataset
from coterie.plugins.datasets.fsdd import Fsdd


def tone(hertz: float, samples: int = 2000) -> npt.NDArray[np.int16]:
    return (2**14 * np.sin(2 * np.pi * hertz * np.arange(samples) / 8000)).astype(np.int16)


def record(path: Path, sound: npt.NDArray[np.int16], rate: int = 8000, channels: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(sound.tobytes())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two speakers say two digits twelve times each; the pitch says which."""
    for digit in (0, 7):
        for s, speaker in enumerate(("jackson", "george")):
            for number in range(12):
                hertz = 500 + 250 * digit + 125 * s
                record(tmp_path / "fsdd" / "recordings" / f"{digit}_{speaker}_{number}.wav", tone(hertz))
    return tmp_path


def test_speakers_are_clients(root: Path) -> None:
    data = validate_dataset(build("dataset", "fsdd", {}, "data.set").load(root), "fsdd")
    assert data.test is not None
    assert data.train.x.shape == (2 * 2 * 7, 1, 32, 32)
    assert data.test.x.shape == (2 * 2 * 5, 1, 32, 32)
    assert data.train.owner is not None
    assert data.train.owner.tolist() == ([0] * 7 + [1] * 7) * 2
    assert data.owners == ("george", "jackson")
    assert data.train.y.tolist() == [0] * 14 + [7] * 14
    assert data.train.group is None
    assert data.classes == tuple("0123456789")


def test_speakers_are_groups(root: Path) -> None:
    data = Fsdd(speaker="group", test=11).load(root)
    assert data.test is not None
    assert data.train.owner is None
    assert data.train.group is not None
    assert data.train.group.tolist() == [0, 1, 0, 1]
    assert data.test.group is not None
    assert len(data.test.group) == 2 * 2 * 11


def test_several_clients_of_each_speaker_have_a_known_group(root: Path) -> None:
    source = {"name": "fsdd", "speaker": "group"}
    data = {"set": source, "clients": 5, "sizes": [2, 4], "test": 4}
    federation = Dealer(root).federation(Experiment().replace(data=data), seed=0)
    assert federation.group.tolist() == [0, 0, 0, 1, 1]
    assert federation.owners == ("george", "george", "george", "jackson", "jackson")
    whose = (
        federation.pool[federation.train.index, 0].mean(dim=2).argmax(dim=1) - 4
    ) % 2  # told by the pitch
    owner = torch.arange(5).repeat_interleave(federation.train.count)
    assert torch.equal(1 - whose, federation.group[owner])  # george, who is first, has the higher one


def test_the_spectrogram_of_a_tone(root: Path) -> None:
    """A tone of size A has |s| = 256 A / 4 at its frequency, as von Hann's window has half the area of a box.

    A = 1/2 gives 32, and half of that at the next frequencies on both sides; the fourth of the band has
    nothing: the mean is (32 + 16 + 16) / 4 = 16.
    """
    hertz = 16.5 * 125 - 125 / 8  # the second or third of the four frequencies of band 16
    record(root / "fsdd" / "recordings" / "0_george_0.wav", tone(hertz))
    data = Fsdd().load(root)
    assert data.test is not None
    picture = data.test.x[0, 0]
    assert picture.argmax(dim=0).tolist() == [16] * 32
    assert float(picture[16].exp().mean()) == pytest.approx(16, rel=0.02)
    assert float(picture.min()) >= np.log(1e-3)


def test_time_is_the_second_axis_and_stretched(root: Path) -> None:
    sound = np.concatenate([tone(1000, 4000), np.zeros(4000, np.int16)])
    record(root / "fsdd" / "recordings" / "0_george_0.wav", sound)
    data = Fsdd().load(root)
    assert data.test is not None
    loud = data.test.x[0, 0].max(dim=0).values > 0
    assert loud.tolist() == [True] * int(loud.sum()) + [False] * int((~loud).sum())
    assert int(loud.sum()) in (16, 17)


def test_a_very_short_recording(root: Path) -> None:
    record(root / "fsdd" / "recordings" / "0_george_0.wav", tone(1000, 10))
    data = Fsdd().load(root)
    assert data.test is not None
    assert bool(torch.isfinite(data.test.x).all())


def test_prepared_arrays_are_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "natural").mkdir()
    path = tmp_path / "natural" / "fsdd.npz"
    order = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]  # as 0_george_0, 0_george_1, 0_george_10 ... are sorted
    x = np.array(order * 2, dtype=np.float32)[:, None, None, None]
    np.savez(path, x=x, y=np.zeros(24, int), owner=np.repeat([0, 1], 12))
    data = Fsdd(test=3).load(tmp_path)
    assert data.test is not None
    assert data.test.x.flatten().tolist() == [0, 1, 2] * 2
    assert data.train.x.flatten().tolist() == [10, 11, 3, 4, 5, 6, 7, 8, 9] * 2
    assert data.owners == ()  # two may be anybody, the official six are known
    np.savez(path, x=x, y=np.zeros(24, int), owner=np.repeat(range(6), 4))
    assert Fsdd(test=3).load(tmp_path).owners == ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
    np.savez(path, x=x, y=np.zeros(24, int))
    with pytest.raises(DataError, match="no array 'owner'"):
        Fsdd().load(tmp_path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no files of fsdd in .*; download https://github\.com/.*recordings into"
    ):
        Fsdd().load(tmp_path)
    (tmp_path / "fsdd" / "recordings").mkdir(parents=True)
    with pytest.raises(DataError, match=r"expected recordings named like 7_jackson_32\.wav, got none"):
        Fsdd().load(tmp_path)


@pytest.mark.parametrize("test", [12, 50])
def test_nothing_left_to_train_on(root: Path, test: int) -> None:
    with pytest.raises(DataError, match=f"test = {test} leaves nothing for training.*from 0 to 11"):
        Fsdd(test=test).load(root)
    with pytest.raises(ConfigError, match=r"data\.set\.test"):
        build("dataset", "fsdd", {"test": 0}, "data.set")


@pytest.mark.parametrize("how", [{"rate": 16000}, {"channels": 2}])
def test_other_sounds(root: Path, how: dict[str, Any]) -> None:
    record(root / "fsdd" / "recordings" / "0_george_3.wav", tone(1000), **how)
    with pytest.raises(DataError, match=r"0_george_3\.wav: expected 8000 samples a second, 1 channel"):
        Fsdd().load(root)


@pytest.mark.parametrize("content", [b"", b"RIFF", b"no sound at all, but text"])
def test_damaged(root: Path, content: bytes) -> None:
    (root / "fsdd" / "recordings" / "0_george_3.wav").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*0_george_3\.wav"):
        Fsdd().load(root)
