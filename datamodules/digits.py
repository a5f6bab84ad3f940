from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from datamodules._sklearn import SOURCE, lines
from datamodules.base import Loaded, Split
from datamodules.synthetic import _Known

SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"  # of the table as scikit-learn ships it


@dataclass(frozen=True, kw_only=True)
class Digits(_Known):
    """scikit-learn's bundled 8x8 digits (UCI optdigits, test part), so that everything runs without any download.

    They come without a split: ours is fixed and stratified, one sample in five for testing.
    """

    title = "handwritten digits, 8x8, bundled with scikit-learn"
    size = (1437, 360)
    classes = 10
    shape = (64,)
    defaults: ClassVar = {
        "rounds": 30,
        "clients": 20,
        "cohort": 10,
        "epochs": 2,
        "batch_size": 10,
        "lr": 0.1,
        "target": 0.9,
        "normalise": False,
        "partition": {"name": "dirichlet", "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [64]},
    }

    def found(self) -> str:
        return SOURCE

    def read(self) -> Loaded:
        images, labels = _bundled()
        # RandomState, whose stream numpy has frozen for good: this split must never change
        order = np.random.RandomState(0).permutation(len(labels))
        by_class = order[np.argsort(labels[order], kind="stable")]
        test = np.zeros(len(labels), dtype=bool)
        test[by_class[::5]] = True
        x = torch.from_numpy(images)
        y = torch.from_numpy(labels.astype(np.int64))
        return Loaded(
            train=Split(x[~test], y[~test]),
            test=Split(x[test], y[test]),
            classes=10,
            shape=self.shape,
            source=self.found(),
            scale=1 / 16,
            mean=(0.3054,),
            std=(0.3759,),
        )


@cache
def _bundled() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images and labels; they are text, which a multirun of short runs would spend its time on parsing again."""
    table = np.loadtxt(lines("digits.csv.gz", SHA256), delimiter=",", dtype=np.uint8)
    return table[:, :-1], table[:, -1]
