import gzip
import struct
from dataclasses import replace

import numpy as np
import pytest

from datamodules.fmnist import FMNIST
from datamodules.mnist import MNIST

FIRST_LABELS = {"mnist": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4], "fmnist": [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]}


@pytest.fixture(autouse=True)
def nothing_here(request, tmp_path, monkeypatch):
    """No data set of this machine, no cache of this user, no proxy between a test and its local server; and the tiny
    sets that tests write are not compared with the published ones."""
    if request.node.get_closest_marker("data"):
        return
    monkeypatch.delenv("FEDBENCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    for cls in (MNIST, FMNIST):
        monkeypatch.setattr(cls, "files", replace(cls.files, sha256={}))


@pytest.fixture
def write_idx():
    """Writes a tiny data set in MNIST's format: the labels that the real one starts with, or those given.

    Test labels are the training labels reversed; image k is filled with k (test: 100 + k).
    """

    def encode(array):
        return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()

    def write(folder, labels="mnist", compress=False):
        labels = FIRST_LABELS[labels] if isinstance(labels, str) else labels
        folder.mkdir(parents=True, exist_ok=True)
        for part, first, y in (("train", 0, labels), ("t10k", 100, labels[::-1])):
            images = np.repeat(np.arange(first, first + len(y), dtype=np.uint8), 28 * 28).reshape(-1, 28, 28)
            for kind, array in (("images-idx3", images), ("labels-idx1", np.array(y, dtype=np.uint8))):
                name = f"{part}-{kind}-ubyte"
                if compress:
                    (folder / f"{name}.gz").write_bytes(gzip.compress(encode(array)))
                else:
                    (folder / name).write_bytes(encode(array))
        return labels

    return write
