"""A data set of your own: one class in one file, here scikit-learn's bundled breast cancer table.

python bench.py dataset=docs/examples/cancer.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from datamodules.base import Dataset, Loaded, Split


@dataclass(frozen=True, kw_only=True)
class Cancer(Dataset):
    """569 tumours, each described by 30 numbers; benign or malignant? (UCI Breast Cancer Wisconsin Diagnostic)"""

    title = "breast cancer, 30 numbers a sample, bundled with scikit-learn"
    size, classes = (455, 114), 2  # training and test samples; may be left out, then lists show "?"
    # what a run takes where the command line does not say otherwise
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 20,
        "clients": 10,
        "cohort": 5,
        "epochs": 2,
        "batch_size": 16,
        "lr": 0.01,
        "target": 0.97,
        "normalise": True,
        "partition": {"name": "dirichlet", "alpha": 0.5},
        "model": {"name": "linear"},
    }

    def available(self) -> str:
        """Where the data would come from; None if they are not on this machine."""
        return "sklearn (bundled)"

    def load(self) -> Loaded:
        """Everything as whole tensors, once a run."""
        from sklearn.datasets import load_breast_cancer

        table, labels = load_breast_cancer(return_X_y=True)
        test = np.zeros(len(labels), dtype=bool)
        test[np.random.RandomState(0).permutation(len(labels))[::5]] = True  # a fixed fifth for testing
        x, y = torch.from_numpy(table).float(), torch.from_numpy(labels)
        return Loaded(
            train=Split(x[~test], y[~test]),
            test=Split(x[test], y[test]),
            classes=2,
            shape=(30,),
            source=self.available(),
            scale=1.0,  # a model sees x * scale, and with normalise=true (x * scale - mean) / std
            mean=tuple(table[~test].mean(0).tolist()),
            std=tuple(table[~test].std(0).tolist()),
        )
