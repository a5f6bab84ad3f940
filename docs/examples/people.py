"""A data set of your own that says whose each sample is: made-up people, whose sensors sit a little differently.

python bench.py dataset=docs/examples/people.py partition=natural
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from datamodules.base import Dataset, Loaded, Split


@dataclass(frozen=True, kw_only=True)
class People(Dataset):
    """Which of five things somebody does, from six sensors; tested on ten people who are not trained on."""

    title = "movements of 40 made-up people, 6 numbers a sample"
    size, classes = (1600, 400), 5
    grouped_by = "person"  # what groups are, for lists
    defaults: ClassVar[Mapping[str, Any]] = {
        "rounds": 30,
        "clients": 40,
        "cohort": 10,
        "epochs": 2,
        "batch_size": 10,
        "lr": 0.05,
        "target": 0.8,
        "normalise": True,
        "partition": {"name": "natural"},
        "model": {"name": "mlp", "hidden": [16]},
    }

    def available(self) -> str:
        return "made up"

    def load(self) -> Loaded:
        rng = np.random.RandomState(0)  # whose stream numpy has frozen for good
        moves, sensors = 1.5 * rng.normal(size=(5, 6)), rng.normal(size=(50, 6))  # of an activity; of a person
        habits = rng.dirichlet(np.ones(5), size=50)
        people = np.repeat(np.arange(50), 40)
        doing = np.concatenate([rng.choice(5, 40, p=habit) for habit in habits])
        table = moves[doing] + sensors[people] + rng.normal(size=(2000, 6))
        x, y, groups = torch.from_numpy(table).float(), torch.from_numpy(doing), torch.from_numpy(people)
        known = groups < 40
        return Loaded(
            train=Split(x[known], y[known], groups=groups[known]),
            test=Split(x[~known], y[~known]),
            classes=5,
            shape=(6,),
            source=self.available(),
            scale=1.0,
            mean=tuple(table.mean(0).tolist()),
            std=tuple(table.std(0).tolist()),
        )
