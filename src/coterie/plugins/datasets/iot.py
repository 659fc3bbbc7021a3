"""IoT devices told by their network traffic: the two CSV files of Kaggle's "iot-device-identification".

One class occurs in the first file only and is left out. The first column is taken as an index, as in
the paper, which counts 296 features. Values reach 2e18, hence sign(x) log(1 + |x|).

https://www.kaggle.com/datasets/fanbyprinciple/iot-device-identification
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coterie.core.data import Dataset
from coterie.core.registry import register
from coterie.data_files.catalogue import Entry, File
from coterie.plugins.datasets.csv import Csv

__all__ = ["Iot"]

_KAGGLE = "https://www.kaggle.com/datasets/fanbyprinciple/iot-device-identification"

_FILES = Entry(
    name="iot",
    about="network traffic of IoT devices: 1,000 + 900 rows, 9 classes in both files",
    terms=f"{_KAGGLE}, which wants an account and states the terms",
    by_hand=(
        f"download iot_device_train.csv and iot_device_test.csv from {_KAGGLE} (Kaggle wants an account) "
        f"and put them into {{folder}}"
    ),
    folders=("iot", "."),
    files=(
        File(
            "iot_device_train.csv",
            1_369_126,
            "e2fab12a1a911109b344f044b964e46b46199da7b9401766154b1289a46a13e3",
        ),
        File(
            "iot_device_test.csv",
            1_347_580,
            "67a043f161551b49c5925db2d64dd597873cf9fa9591fca750015953c523be33",
        ),
    ),
)


@register("dataset", "iot")
@dataclass(frozen=True)
class Iot:
    """9 kinds of IoT devices by 296 numbers on their traffic; `coterie data fetch iot` says how to get it."""

    split: Literal["pooled", "official", "by_file"] = "pooled"
    """`pooled`: both files together, for the experiment to split; `official`: train on one, test on the
    other, whose rows are distributed differently; `by_file`: half of the clients have rows of one file,
    half of the other."""

    entries = (_FILES,)

    def load(self, root: Path | None) -> Dataset:
        folder = _FILES.held(root)
        return Csv(
            path=str(folder / "iot_device_train.csv"),
            test=str(folder / "iot_device_test.csv"),
            label="device_category",
            drop=("ack",),
            transform="signed_log1p",
            common_classes=True,
            split=self.split,
        ).load(None)
