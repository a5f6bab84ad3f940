import pytest

from datamodules.fmnist import FMNIST


@pytest.mark.data
def test_fmnist_is_whole():
    data = FMNIST().load()
    assert (len(data.train), len(data.test)) == FMNIST.size
    assert data.train.y.bincount().tolist() == [6000] * 10
    assert data.test.y.bincount().tolist() == [1000] * 10
    x = data.inputs(data.train.x, normalise=True)
    assert abs(float(x.mean())) < 1e-3
    assert abs(float(x.std()) - 1) < 1e-3
