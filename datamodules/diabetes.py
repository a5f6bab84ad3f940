from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from datamodules._sklearn import SOURCE, lines
from datamodules.base import Dataset, Loaded, Split

TABLE = "86badf50b4f9436ddd1e497dc0ae1b93166f8120221ee7dca4634fe849f3be7c"  # SHA-256, as scikit-learn ships them
TARGET = "244713a551f62a291a354212d8a048adec6cb1244b2bc44e66a0698f5006d26d"


@dataclass(frozen=True, kw_only=True)
class Diabetes(Dataset):
    """How far diabetes has progressed after a year (25 to 346), from ten numbers a patient: age, sex, body mass index,
    blood pressure and six blood values (Efron, Hastie, Johnstone, Tibshirani: Least Angle Regression, 2004).

    It comes without a split: ours is fixed, one patient in five for testing, in the order of the progression.
    """

    title = "progression of diabetes from ten numbers a patient, bundled with scikit-learn"
    size = (354, 88)
    classes = 1
    defaults: ClassVar = {
        "rounds": 30,
        "clients": 10,
        "cohort": 5,
        "epochs": 2,
        "batch_size": 10,
        "lr": 0.02,
        "target": 56.0,
        "normalise": True,
        "partition": {"name": "iid"},
        "task": {"name": "regression"},
        "model": {"name": "mlp", "hidden": [16]},
    }

    def available(self) -> str:
        return SOURCE

    def load(self) -> Loaded:
        table, target = _bundled()
        test = np.zeros(len(target), dtype=bool)
        test[np.argsort(target, kind="stable")[2::5]] = True
        x, y = (torch.from_numpy(numbers).float() for numbers in (table, target))
        return Loaded(
            train=Split(x[~test], y[~test]),
            test=Split(x[test], y[test]),
            classes=1,
            shape=(10,),
            source=SOURCE,
            scale=1.0,
            mean=tuple(table[~test].mean(0).tolist()),
            std=tuple(table[~test].std(0).tolist()),
            y_mean=float(target[~test].mean()),
            y_std=float(target[~test].std()),
        )


@cache
def _bundled() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ten numbers a patient, and the progression."""
    files = (("diabetes_data_raw.csv.gz", TABLE), ("diabetes_target.csv.gz", TARGET))
    table, target = (np.loadtxt(lines(name, sha256)) for name, sha256 in files)
    return table, target
