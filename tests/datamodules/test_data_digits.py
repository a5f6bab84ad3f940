import gzip
from importlib.util import spec_from_file_location

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from datamodules.base import DataError
from datamodules.digits import Digits, _bundled


def test_split_is_fixed_and_stratified():
    data, again = Digits().load(), Digits().load()
    assert (len(data.train), len(data.test), data.classes) == (*Digits.size, 10)
    assert torch.equal(data.train.x, again.train.x) and torch.equal(data.test.y, again.test.y)
    assert data.test.y[:20].tolist() == [9, 2, 5, 7, 6, 9, 7, 3, 3, 3, 4, 6, 9, 2, 0, 0, 7, 2, 4, 3]
    share = data.test.y.bincount() / (data.test.y.bincount() + data.train.y.bincount())
    assert torch.allclose(share, torch.tensor(0.2), atol=0.01)


def test_inputs_are_scaled_and_normalised():
    data = Digits().load()
    assert data.train.x.dtype == torch.uint8 and data.train.y.dtype == torch.int64
    plain = data.inputs(data.train.x, normalise=False)
    assert plain.shape == (1437, 64) and plain.min() == 0 and plain.max() == 1
    normal = data.inputs(data.train.x, normalise=True, dtype=torch.float64)
    assert normal.dtype == torch.float64
    assert abs(float(normal.mean())) < 1e-3 and abs(float(normal.std()) - 1) < 1e-3
    assert data.inputs(data.train.x[:0], normalise=True).shape == (0, 64)


def test_samples_and_their_order_are_those_of_scikit_learns_reader():
    images, labels = load_digits(return_X_y=True)
    ours, numbers = _bundled()
    assert ours.dtype == numbers.dtype == np.uint8
    assert np.array_equal(ours, images) and np.array_equal(numbers, labels)


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"0,1\n")], ids=["empty", "damaged", "other"])
def test_a_damaged_scikit_learn_is_one_sentence(content, tmp_path, monkeypatch):
    data = tmp_path / "sklearn" / "datasets" / "data"
    data.mkdir(parents=True)
    (data / "digits.csv.gz").write_bytes(content)
    (tmp_path / "sklearn" / "__init__.py").touch()
    spec = spec_from_file_location(
        "sklearn", tmp_path / "sklearn" / "__init__.py", submodule_search_locations=[str(tmp_path / "sklearn")]
    )
    monkeypatch.setattr("datamodules._sklearn.find_spec", lambda name: spec)
    with pytest.raises(DataError, match=r"digits\.csv\.gz (cannot be read|is not the original)"):
        _bundled.__wrapped__()
    monkeypatch.setattr("datamodules._sklearn.find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        _bundled.__wrapped__()
