"""Handwritten digits and letters, 28 x 28 pixels, in the official IDX files, put upright.

Cohen, Afshar, Tapson, van Schaik: EMNIST: extending MNIST to handwritten letters. IJCNN 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coterie.core.data import Dataset
from coterie.core.registry import register
from coterie.data_files.catalogue import Download, Entry, File
from coterie.plugins.datasets.idx import Idx

__all__ = ["Emnist"]

_CITE = "no licence stated; cite Cohen, Afshar, Tapson, van Schaik: EMNIST, IJCNN 2017, arXiv:1702.05373"
_ARCHIVE = Download(
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", 561_753_746, "58c8d27c78d21e728a6bc7b3cc06412e"
)
_PARTS = (
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "test-images-idx3-ubyte.gz",
    "test-labels-idx1-ubyte.gz", "mapping.txt",
)  # fmt: skip


def _files(prefix: str, *known: tuple[int | None, str | None]) -> tuple[File, ...]:
    """List the five files of a selection with their sizes in bytes and SHA-256, where these are known."""
    return tuple(File(f"{prefix}-{part}", *facts) for part, facts in zip(_PARTS, known, strict=True))


def _official(split: str, about: str, *known: tuple[int, str]) -> Entry:
    """Describe one of the six selections in the official archive, whose files the checksums are of."""
    return Entry(
        name=f"emnist-{split}",
        about=f"EMNIST: {about}",
        terms=f"https://www.nist.gov/itl/products-and-services/emnist-dataset, {_CITE}",
        by_hand=(
            f"download {_ARCHIVE.url} by other means, put it into {{folder}} as gzip.zip and run again: "
            f"{{command}}"
        ),
        folders=("emnist", "emnist/gzip", split, "."),
        files=_files(f"emnist-{split}", *known, (None, None)),
        archive=_ARCHIVE,
    )


_ENTRIES = (
    _official(
        "balanced",
        "112,800 + 18,800 digits and letters, 47 classes, all equally often",
        (28_207_740, "74295e75e4e9fa2c102147460ee7eb763653d5132d883a84fb88932bfb8d2db4"),
        (80_618, "b46d41e5156a0a8aaaa4d18979fdd1588850fa8571018acffd5d93b325a7d6ed"),
        (4_714_707, "117fc12b015e37ea98bfb2cbba3f77c3782c056cdbd219b87abfc8661d7135db"),
        (13_504, "a67cac948379b67270b9a4d0a01c8ec661598accf2f2b1964340b7c83cb175cd"),
    ),
    _official(
        "byclass",
        "697,932 + 116,323 digits and letters, 62 classes",
        (173_367_313, "9e21987f03a6eb8b870187e785883ddad96947299587908f1a7ec2ca0f4be5f0"),
        (491_603, "f7ef403d48dc18a89dae0d83d11ee69cecb6e1c12c3a961d03712e495c02a8fa"),
        (28_908_322, "5ec835bd5d5b1a66378a132e727fef20fe994b3cc666899befcca5ac766f50cd"),
        (81_839, "501e305eeeacb093b162592d80e8a2632040872360fa6d85cfcb2200d91ca92a"),
    ),
    _official(
        "bymerge",
        "697,932 + 116,323 digits and letters, 47 classes",
        (173_375_281, "39bf8c68037dad40db35348895f7e4e056e8c0a005ab78869c9fbc2c96e947be"),
        (476_444, "2c47293b9e62d6abf6ad05fbf67e40baa32adfd380b8d7b44dcc35534b64e1f1"),
        (28_905_295, "5e5815ec1b522089134435f7c55e75a00960b58414793593ffff23efc0821683"),
        (79_351, "8bda1516255683ba9071e141947ca0c91a911176065cdd6259b0b4d8dc5b5f35"),
    ),
    _official(
        "digits",
        "240,000 + 40,000 digits",
        (59_515_779, "f7c95004d14d81af89522e67d8f0c781dfb3bd544181c81bfe1eb6b41c35b726"),
        (113_859, "6638a6ff5fe2eefd9cca2471995b46c82986b8e4b2a70d2f5ce8e05d7edb319e"),
        (9_908_519, "20ebe43509264f7639d37c835a3f0b009e90b29e00a099a03101abe1644a3f63"),
        (19_960, "bad1834c45d5988e270b99d43b13edc3fd898f658ffbc2caf2846ef27f7b05b0"),
    ),
    _official(
        "letters",
        "124,800 + 20,800 letters, 26 classes",
        (30_804_864, "6288f418a917e007bf5fddb823a2dc7a5c6a35031401b93292a539cb12bd881f"),
        (79_283, "9759af91ea6bccdf07a6040fd085861f2ec88e37f7c3f5760f6feb57106fbe5c"),
        (5_039_157, "50f0e93d75b99b463e9760b8345866f22587fa2c2fba472730a5ba09c693412d"),
        (144, "924955c31fe7fd809b7303b5c0141282955f4b8390c74cdfd5d80435e0f4b4cb"),
    ),
    _official(
        "mnist",
        "60,000 + 10,000 digits",
        (14_873_795, "5f9942f441031c0f1f2e4d162059fd6e19ea808b34c328b6d16cab0ed24c78f2"),
        (29_480, "00c6d3c2342fdffb1711e0b5656cac4ce5862d2826399d383a9bac07d612e9f8"),
        (2_484_884, "b25640fa9e356c618132f5df347c95ef5bae6d9c2596be1de40f7e0ae1c3eac6"),
        (5_144, "bcc5385d38f083dba046f5f756e99b32f5ea7fad122c6243c71c2239873065ca"),
    ),
    Entry(
        name="emnist47",
        about="95,755 + 9,400 images out of EMNIST, 47 classes; not its balanced split",
        terms=f"not published by itself; made of EMNIST images: {_CITE}",
        by_hand="put its files into {folder} if somebody gave them to you, or use split = 'balanced'",
        folders=("emnist47", "emnist", "."),
        files=_files(
            "emnist47",
            (23_639_658, "ee1f4b22eb6ca2967352a8f999d001e0787252493d770af2ab09f9f378697338"),
            (67_340, "5112cef0b5ef7b0c53e020762cc8d015472f51c4bc1bff9023409949b021961b"),
            (2_349_735, "6b47d6d8b40dff4daaaec6765b82cba28d1641dbd505b5bc4770b12b395362af"),
            (6_774, "2a49d578d4ee7b5c1b4fb574404cef090fc0a1766ab8b836b4d7d207c9cc091c"),
            (281, "0b57cacbe7536ef91dd14bf1384f726f436dc619f026c03aa8c14a97e8730468"),
        ),
    ),
)


@register("dataset", "emnist")
@dataclass(frozen=True)
class Emnist:
    """EMNIST, handwritten digits and letters of 28 x 28 pixels; get it with `coterie data fetch emnist`."""

    split: Literal["balanced", "byclass", "bymerge", "digits", "letters", "mnist", "emnist47"] = "balanced"
    """One of the six official selections, or `emnist47`: 47 classes in files of the same format."""

    entries = _ENTRIES

    def load(self, root: Path | None) -> Dataset:
        entry = next(e for e in self.entries if e.name in (self.split, f"emnist-{self.split}"))
        folder, first = entry.held(root), int(self.split == "letters")
        return Idx(str(folder), prefix=entry.name, first=first).load(None)
