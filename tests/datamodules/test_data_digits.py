import torch

from datamodules.digits import Digits


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
