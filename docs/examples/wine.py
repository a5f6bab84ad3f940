"""A regression on data of your own: one class in one file, here scikit-learn's bundled wine table.

python bench.py dataset=docs/examples/wine.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from datamodules.base import Dataset, Loaded, Split


@dataclass(frozen=True, kw_only=True)
class Wine(Dataset):
    """How much alcohol, from twelve other measurements of a wine? (UCI Wine)"""

    title = "alcohol in a wine from twelve measurements, bundled with scikit-learn"
    size, classes = (142, 36), 1  # labels are numbers: a model has one output
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 30,
        "clients": 8,
        "cohort": 4,
        "epochs": 2,
        "batch_size": 8,
        "lr": 0.02,
        "target": 0.6,  # what the metric is to reach, in the labels' own unit
        "normalise": True,
        "partition": {"name": "iid"},  # others deal by class
        "task": {"name": "regression"},
        "model": {"name": "linear"},
    }

    def available(self) -> str:
        """Where the data would come from; None if they are not on this machine."""
        return "sklearn (bundled)"

    def load(self) -> Loaded:
        """Everything as whole tensors, once a run."""
        from sklearn.datasets import load_wine

        table = load_wine().data
        test = np.zeros(len(table), dtype=bool)
        test[np.random.RandomState(0).permutation(len(table))[::5]] = True  # a fixed fifth for testing
        x, y = torch.from_numpy(table[:, 1:]).float(), torch.from_numpy(table[:, 0]).float()
        return Loaded(
            train=Split(x[~test], y[~test]),
            test=Split(x[test], y[test]),
            classes=1,
            shape=(12,),
            source=self.available(),
            scale=1.0,
            mean=tuple(x[~test].mean(0).tolist()),
            std=tuple(x[~test].std(0).tolist()),
            y_mean=float(y[~test].mean()),  # a model sees (y - y_mean) / y_std; the metric is in the unit of y
            y_std=float(y[~test].std()),
        )
