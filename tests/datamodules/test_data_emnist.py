"""EMNIST from its IDX files, from sets derived from them, and from its MATLAB file, which names writers."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat

from datamodules.base import DataError
from datamodules.emnist import EMNIST


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("prefix", "derived"), [("emnist-letters", ""), ("letters26-derived", "letters26-derived")])
def test_emnist_is_upright_and_counts_from_zero(here, write_idx, prefix, derived):
    write_idx(here / "plain", [1, 26, 3])
    (here / "emnist").mkdir()
    for part, theirs in (("train", "train"), ("t10k", "test")):
        for kind in ("images-idx3", "labels-idx1"):
            (here / "plain" / f"{part}-{kind}-ubyte").rename(here / "emnist" / f"{prefix}-{theirs}-{kind}-ubyte")
    path = here / "emnist" / f"{prefix}-train-images-idx3-ubyte"
    content = bytearray(path.read_bytes())
    content[16 + 3 * 28 + 20] = 255  # row 3, column 20 of the first image as stored
    path.write_bytes(content)
    data = EMNIST().load()
    assert data.train.y.tolist() == [0, 25, 2] and data.classes == 26
    assert data.train.x[0, 20, 3] == 255 and int(data.train.x[0].sum()) == 255
    assert (derived in data.source) and (derived in data.deviation)
    assert ("derived" in data.source) == bool(derived)
    assert EMNIST(split="byclass").available() is None


def test_emnist_refuses_other_splits_and_labels(here, write_idx):
    with pytest.raises(DataError, match="split of emnist must be letters or byclass, not 'digits'"):
        EMNIST(split="digits")
    write_idx(here, [0, 1])
    (here / "emnist").mkdir()
    for part, theirs in (("train", "train"), ("t10k", "test")):
        for kind in ("images-idx3", "labels-idx1"):
            (here / f"{part}-{kind}-ubyte").rename(here / "emnist" / f"emnist-letters-{theirs}-{kind}-ubyte")
    with pytest.raises(DataError, match="holds label 0, but labels go from 1 to 26"):
        EMNIST().load()


def write_mat(folder, **changes):
    """EMNIST's letters as in its MATLAB file: three images by writers 7, 3400, 7, one white pixel."""
    images = np.zeros((3, 784), dtype=np.uint8)
    images[0, 3 * 28 + 20] = 255
    part = {"images": images, "labels": np.uint8([[1], [26], [3]]), "writers": np.uint16([[7], [3400], [7]])} | changes
    folder.mkdir(parents=True, exist_ok=True)
    savemat(folder / "emnist-letters.mat", {"dataset": {"train": part, "test": part, "mapping": np.eye(2)}})


@pytest.mark.parametrize("compress", [False, True])
def test_emnists_matlab_file_names_writers(here, compress):
    write_mat(here / "emnist")
    if compress:
        path = here / "emnist/emnist-letters.mat"
        path.with_suffix(".mat.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    data = EMNIST().load()
    assert data.train.y.tolist() == data.test.y.tolist() == [0, 25, 2] and data.train.groups.tolist() == [0, 1, 0]
    assert data.train.x[0, 20, 3] == 255 and int(data.train.x.sum()) == 255, "upright, as from the IDX files"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"labels": np.uint8([[1], [27], [3]])}, "holds label 27, but labels go from 1 to 26"),
        ({"labels": np.uint8([[1], [2]])}, "holds 3 images, but .* has 2 labels"),
        ({"writers": np.uint16([[1], [2]])}, "holds 3 labels, but 2 writers"),
        ({"writers": np.array([["a"], ["b"], ["c"]])}, "cannot be read .*: replace it with EMNIST's MATLAB file"),
        ({"images": np.zeros((3, 100), dtype=np.uint8)}, "cannot be read"),
        ({"images": np.zeros((3, 784))}, "cannot be read .images are float64, not uint8."),
        (None, "cannot be read"),
    ],
)
def test_other_matlab_files_are_refused(here, changes, says):
    write_mat(here / "emnist", **(changes or {}))
    if changes is None:
        path = here / "emnist/emnist-letters.mat"
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=says):
        EMNIST().load()
