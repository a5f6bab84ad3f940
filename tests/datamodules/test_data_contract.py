"""What every data set has to keep, found through the registry: a new one is covered without being named here."""

from dataclasses import fields

import pytest
import torch

from bench.prepare.config import Keys
from bench.prepare.own_files import _check
from bench.prepare.registry import classes
from datamodules.base import DataError


def of_this_machine(cls):
    """The data set itself where it is bundled, its imitation where it has one."""
    return cls(source="synthetic") if "synthetic" in cls.sources else cls()


@pytest.mark.parametrize("name", classes("dataset"))
def test_a_data_set_says_what_it_is_and_what_a_run_on_it_takes(name):
    cls = classes("dataset")[name]
    _check("dataset", cls, name)
    assert cls.title and set(cls.defaults) >= {"rounds", "clients", "cohort", "epochs", "batch_size", "lr", "target"}
    assert set(cls.defaults) <= {f.name for f in fields(Keys)} | {"partition", "task", "model", "devices"}


@pytest.mark.parametrize("name", classes("dataset"))
def test_a_data_set_loads_whole_tensors_or_says_how_to_get_it(name):
    dataset = of_this_machine(classes("dataset")[name])
    if dataset.available() is None:
        with pytest.raises(DataError, match=r"\w+ .*\."):
            dataset.load()
        return
    data, task = dataset.load(), dataset.defaults.get("task", {"name": "classification"})["name"]
    for part, size in zip((data.train, data.test), dataset.size or (None, None), strict=True):
        assert len(part) == len(part.y) == len(part.x) and size in (None, len(part))
        if task == "regression":
            assert part.y.dtype == torch.float32 and data.classes == 1
            assert abs(float(data.labels(part).mean())) < 0.1 and abs(float(data.labels(part).std()) - 1) < 0.1
        else:
            assert part.y.dtype == torch.int64 and set(part.y.unique().tolist()) <= set(range(data.classes))
    assert dataset.classes in (None, data.classes)
    assert task != "classification" or set(data.train.y.tolist()) == set(range(data.classes))
    assert data.source
    assert data.train.groups is None or (dataset.grouped_by and data.train.groups.shape == data.train.y.shape)
    x = data.inputs(data.train.x[:50], normalise=True)
    assert x.shape == (50, *data.shape) and x.dtype == torch.float32 and x.isfinite().all()
    assert x.abs().max() < 100, "mean and std are not those of these numbers"
