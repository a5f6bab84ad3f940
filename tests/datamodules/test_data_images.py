"""Image sets from arrays, from files, and what is made of them per batch."""

import csv
import hashlib
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.base import DataError, Loaded, Split
from datamodules.cifar import CIFAR10, CIFAR100
from datamodules.gtsrb import GTSRB
from datamodules.image100 import Image100

COLOURS = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    return tmp_path


def write_npz(folder, **more):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train.npz", "test.npz"):
        np.savez(folder / name, **({"features": COLOURS, "labels": np.arange(12, dtype=np.uint8) % 10} | more))


def test_arrays_become_channels_first(here):
    write_npz(here / "cifar10")
    data = CIFAR10().load()
    assert torch.equal(data.train.x, torch.from_numpy(COLOURS).permute(0, 3, 1, 2)) and data.train.x.is_contiguous()
    assert data.train.y.tolist() == [*range(10), 0, 1] and data.train.y.dtype == torch.int64
    assert data.source == f"FEDBENCH_DATA: {here / 'cifar10'}"
    assert data.deviation == "12 + 12 samples, not 50,000 + 10,000"


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"labels": np.full(12, 10)}, "labels that are not from 0 to 9"),
        ({"labels": np.arange(5)}, "12 images, but 5 labels"),
        ({"features": COLOURS[:, :16]}, "not \\(3, 32, 32\\)"),
        ({"features": COLOURS.astype(float)}, "float64"),
        ({"features": COLOURS[0]}, "four dimensions"),
        ({"labels": np.array([None] * 12)}, "cannot be read"),
    ],
)
def test_wrong_arrays_are_refused(here, arrays, says):
    write_npz(here / "cifar10", **arrays)
    with pytest.raises(DataError, match=says):
        CIFAR10().load()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "no features"])
def test_damaged_arrays_are_named(here, damage):
    write_npz(here / "cifar10")
    path = here / "cifar10" / "train.npz"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes({"cut": content[:-900], "flip": content, "empty": b"", "no features": b""}[damage])
    if damage == "no features":
        np.savez(path, labels=np.arange(3))
    with pytest.raises(DataError, match=str(path)):
        CIFAR10().load()


def test_published_pickles_are_read_only_when_they_are_the_originals(here):
    folder = here / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test"):
        (folder / name).write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")
    assert CIFAR100().available() == f"FEDBENCH_DATA: {folder}"
    with pytest.raises(DataError, match="not the original file"):
        CIFAR100().load()
    assert not (here / "executed").exists()


def test_a_pickle_runs_nothing_even_with_the_right_md5(here, monkeypatch):
    folder = here / "cifar-100-python"
    folder.mkdir()
    content = b"cos\nsystem\n(S'touch executed'\ntR."
    for name in ("train", "test"):
        (folder / name).write_bytes(content)
    digest = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(CIFAR100, "md5", ({"train": digest}, {"test": digest}))
    with pytest.raises(DataError, match=r"names os\.system, which is no array"):
        CIFAR100().load()
    assert not Path("executed").exists()


def test_gtsrb_leaves_out_what_is_marked_valid(here):
    valid = np.arange(12) % 4 == 3
    write_npz(here / "gtsrb", valid=valid, track=np.arange(12) // 3, labels=np.repeat([0, 42], 6))
    data = GTSRB().load()
    assert (len(data.train), len(data.test)) == (9, 12)
    assert torch.equal(data.train.x[:3], torch.from_numpy(COLOURS[:3]).permute(0, 3, 1, 2))
    assert data.train.alike.tolist() == [0, 0, 0, 1, 1, 420_002, 420_002, 420_003, 420_003], "tracks count by class"
    assert data.train.groups.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3]


def test_gtsrb_from_image_files(here):
    root = here / "gtsrb"
    for label, track in ((0, 0), (0, 1), (42, 0)):
        for frame in range(2):
            path = root / f"GTSRB/Training/{label:05}/{track:05}_{frame:05}.ppm"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40, 50), (label, track, 200)).save(path)
    (root / "GTSRB/Final_Test/Images").mkdir(parents=True)
    Image.new("RGB", (30, 30), (7, 8, 9)).save(root / "GTSRB/Final_Test/Images/00000.ppm")
    with (root / "GT-final_test.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["Filename", "Width", "ClassId"], ["00000.ppm", 30, 16]])
    data = GTSRB().load()
    assert data.train.y.tolist() == [0, 0, 0, 0, 42, 42] and data.test.y.tolist() == [16]
    assert data.train.x.shape == (6, 3, 32, 32) and data.train.x[5, :, 9, 9].tolist() == [42, 0, 200]
    assert data.test.x[0, :, 0, 0].tolist() == [7, 8, 9]
    assert len(set(data.train.alike.tolist())) == 3 and data.train.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.deviation == "6 + 1 samples, not 34,799 + 12,630"
    (root / "GTSRB/Final_Test/Images/00000.ppm").unlink()
    with pytest.raises(DataError, match=r"incomplete: .*00000\.ppm"):
        GTSRB().load()


def picture(path, colour, size=(200, 100)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_image100_is_read_from_a_folder_per_class(here):
    for part, count in (("train", 3), ("val", 1)):
        for label in range(100):
            for k in range(count):
                picture(here / f"image100/{part}/n{label:03}/{k}.png", (label, k, 100 if part == "val" else 0))
    data = Image100().load()
    assert (len(data.train), len(data.test), data.classes, data.deviation) == (300, 100, 100, "")
    x = data.inputs(data.train.x[[4, 299]], normalise=False)
    assert x.shape == (2, 3, 144, 144)
    assert (x[:, :, 5, 5] * 255).round().tolist() == [[1, 1, 0], [99, 2, 0]]
    assert (data.inputs(data.test.x[7:8], normalise=False)[0, :, 0, 0] * 255).round().tolist() == [7, 0, 100]
    assert data.train.y[[4, 299]].tolist() == [1, 99] and data.train.x.dtype == torch.int64, "numbers, not pixels"
    stored = [path for path in (here / "cache" / "fedbench").iterdir() if path.suffix == ".npy"]
    assert len(stored) == 1 and stored[0].stat().st_size < 400 * 3 * 144 * 144 + 1000
    before = stored[0].stat().st_mtime_ns
    Image100().load()
    assert stored[0].stat().st_mtime_ns == before, "decoded once"


def test_image100_with_a_class_list_and_no_test_part(here):
    for name in "abc":
        for k in range(20):
            picture(here / f"image100/{name}/{k:02}.jpg", (k, 0, 0), (8, 8))
    with pytest.raises(DataError, match=r"has 3 classes, not 100: name those to take in dataset\.class_list"):
        Image100().load()
    with pytest.raises(DataError, match="no class d"):
        Image100(class_list=("a", "d")).load()
    data = Image100(class_list=("c", "a")).load()
    assert (len(data.train), len(data.test), data.classes) == (36, 4, 2)
    assert "held out" in data.source and data.deviation == "2 classes, not 100"
    held = data.with_validation(0.25, np.random.default_rng(0))
    assert held.inputs(held.test.x, normalise=True).shape == (9, 3, 144, 144)
    (here / "image100/a/03.jpg").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"a/03\.jpg is not an image"):
        Image100(class_list=("c", "a")).load()


def colours(**more):
    x = torch.from_numpy(np.random.default_rng(1).integers(1, 256, (200, 3, 8, 10), dtype=np.uint8))
    split = Split(x, torch.arange(200) % 4)
    more = {"shape": (3, 8, 10), "source": "here", "scale": 1 / 255, "mean": (0.5,) * 3, "std": (0.5,) * 3} | more
    return Loaded(split, split, 4, **more)


def test_augment_cuts_and_mirrors_each_image_by_itself():
    data = colours(augments=True)
    x = data.train.x
    out = data.augment(x, np.random.default_rng(3))
    assert out.shape == x.shape and out.dtype == torch.uint8 and out.is_contiguous()
    places = set()
    bordered = torch.nn.functional.pad(x, (4, 4, 4, 4))
    for image, whole in zip(out, bordered, strict=True):
        fits = [
            (top, left, mirror)
            for top in range(9)
            for left in range(9)
            for mirror in (False, True)
            if torch.equal(image.flip(2) if mirror else image, whole[:, top : top + 8, left : left + 10])
        ]
        assert len(fits) == 1
        places.add(fits[0])
    assert len(places) > 80 and {mirror for *_, mirror in places} == {False, True}
    assert torch.equal(out, data.augment(x, np.random.default_rng(3)))
    assert not torch.equal(out, data.augment(x, np.random.default_rng(4)))
    assert colours().augment(x, np.random.default_rng(3)) is x


def test_resize_is_what_the_model_sees(here):
    write_npz(here / "cifar10")
    data = CIFAR10(resize=64, augment=True).load()
    assert data.shape == (3, 64, 64) and data.augments
    x = data.inputs(data.augment(data.train.x, np.random.default_rng(0)), normalise=True)
    assert x.shape == (12, 3, 64, 64) and x.dtype == torch.float32
    flat = torch.full_like(data.train.x, 51)
    assert torch.allclose(data.inputs(flat, normalise=False), torch.tensor(0.2))
    with pytest.raises(DataError, match=r"dataset\.resize=0"):
        CIFAR10(resize=0)


@pytest.mark.parametrize("side", [1, 9, 16, 32])
def test_what_is_resized_beforehand_is_what_every_batch_would_have_been_to_the_bit(here, monkeypatch, side):
    monkeypatch.setattr("datamodules.base.PIECE", 5)
    write_npz(here / "cifar10")
    data = CIFAR10(resize=side).load()
    once = data.resized()
    assert once.train.x.shape == (12, 3, side, side) and once.test.y.equal(data.test.y) and once.resize is None
    for index in (torch.tensor([3]), torch.tensor([11, 0, 4]), torch.arange(12)):
        for normalise in (False, True):
            for one, other in ((data.train, once.train), (data.test, once.test)):
                assert data.inputs(one.x[index], normalise).equal(once.inputs(other.x[index], normalise))


@pytest.mark.parametrize("keys", [{}, {"resize": 33}, {"resize": 16, "augment": True}])
def test_what_is_not_shrunk_once_and_for_all_stays_as_it_is_stored(here, keys):
    write_npz(here / "cifar10")
    data = CIFAR10(**keys).load()
    assert data.resized() is data


def test_validation_holds_out_training_samples():
    data = colours()
    held = data.with_validation(0.2, np.random.default_rng(0))
    assert (len(held.train), len(held.test)) == (160, 40)
    together = torch.cat([held.train.x, held.test.x]).flatten(1)
    assert len(together.unique(dim=0)) == 200
    assert held.source == "here; tested on 40 held-out training samples"
    for fraction in (0.0, 1.0, 0.001):
        with pytest.raises(DataError, match="val_fraction"):
            data.with_validation(fraction, np.random.default_rng(0))


def test_validation_keeps_groups_together():
    plain = colours()
    split = Split(plain.train.x, plain.train.y, torch.arange(200) // 30)
    held = Loaded(split, split, 4, (3, 8, 10), "", 1.0, (0.0,), (1.0,)).with_validation(0.3, np.random.default_rng(0))
    assert not set(held.train.alike.tolist()) & set(held.test.alike.tolist())
    assert 60 <= len(held.test) < 90


def test_the_published_pickles_of_cifar_are_read(here, monkeypatch):
    folder = here / "cifar-10-batches-py"
    folder.mkdir()
    flat = COLOURS.transpose(0, 3, 1, 2).reshape(12, -1)  # a row is 1,024 red, then green, then blue values
    md5 = []
    for names, rows in ((["data_batch_1", "data_batch_2"], flat[:8]), (["test_batch"], flat[8:])):
        pieces = np.array_split(rows, len(names))
        content = [pickle.dumps({"data": piece, "labels": [3] * len(piece)}) for piece in pieces]
        for name, text in zip(names, content, strict=True):
            (folder / name).write_bytes(text)
        md5.append({name: hashlib.md5(text).hexdigest() for name, text in zip(names, content, strict=True)})
    monkeypatch.setattr(CIFAR10, "md5", tuple(md5))
    monkeypatch.setattr(
        CIFAR10, "pickles", replace(CIFAR10.pickles, names=("data_batch_1", "data_batch_2", "test_batch"))
    )
    data = CIFAR10().load()
    assert torch.equal(data.train.x, torch.from_numpy(COLOURS[:8]).permute(0, 3, 1, 2))
    assert data.test.x.shape == (4, 3, 32, 32) and data.train.y.tolist() == [3] * 8
