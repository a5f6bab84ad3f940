import gzip
import hashlib
import io
import os
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from datamodules.base import DataError
from datamodules.digits import Digits
from datamodules.download import _answers, _urls
from datamodules.fmnist import FMNIST
from datamodules.idx import NAMES
from datamodules.mnist import MNIST
from datamodules.sources import Package


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("folder", [".", "mnist", "MNIST/raw"])
def test_found_in_fedbench_data(tmp_path, monkeypatch, folder, compress, write_idx):
    labels = write_idx(tmp_path / folder, compress=compress)
    monkeypatch.setenv("FEDBENCH_DATA", os.pathsep.join(["/nowhere", str(tmp_path)]))
    data = MNIST().load()
    assert data.source == MNIST().available() == f"FEDBENCH_DATA: {tmp_path / folder}"
    assert data.train.y.tolist() == labels and data.test.y.tolist() == labels[::-1]
    assert data.train.x.shape == (10, 28, 28) and data.test.x[3].unique().tolist() == [103]
    x = data.inputs(data.train.x[2:3], normalise=True)
    assert x.shape == (1, 1, 28, 28) and x[0, 0, 0, 0].item() == pytest.approx((2 / 255 - 0.1307) / 0.3081)


def test_a_folder_without_a_name_is_not_taken_for_its_look_alike(tmp_path, monkeypatch, write_idx):
    write_idx(tmp_path, "fmnist")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert FMNIST(source="env").available() and not MNIST(source="env").available()


def test_the_package_comes_after_fedbench_data(tmp_path, monkeypatch, write_idx):
    write_idx(tmp_path / "system", "fmnist", compress=True)
    package = Package("dataset-fashion-mnist", tmp_path / "system")
    monkeypatch.setattr(FMNIST, "files", replace(FMNIST.files, package=package))
    assert FMNIST().load().source == FMNIST(source="system").load().source == "Debian dataset-fashion-mnist"
    write_idx(tmp_path / "mine" / "fmnist", "fmnist")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path / "mine"))
    assert FMNIST().load().source.startswith("FEDBENCH_DATA")
    assert FMNIST(source="system").load().source.startswith("Debian")


def test_an_incomplete_folder_is_not_taken(tmp_path, monkeypatch, write_idx):
    write_idx(tmp_path / "mnist")
    (tmp_path / "mnist" / NAMES[3]).unlink()
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert MNIST().available() is None
    with pytest.raises(DataError, match=f"not in FEDBENCH_DATA={tmp_path}: run .* fetch mnist, or point FEDBENCH_DATA"):
        MNIST(source="env").load()


def test_missing_says_how_to_get_it():
    with pytest.raises(DataError, match="FEDBENCH_DATA, which is not set: install Debian's dataset-fashion-mnist, or"):
        FMNIST(source="env").load()
    with pytest.raises(
        DataError, match=r"not among the system's packages: run python -m datamodules fetch mnist.*dataset=digits"
    ):
        MNIST(source="system").load()


def test_a_source_that_does_not_exist_is_refused():
    with pytest.raises(
        DataError, match="mnist must be auto or env or system or download or registry or synthetic, not 'web'"
    ):
        MNIST(source="web")
    with pytest.raises(DataError, match="digits must be auto or synthetic, not 'env'"):
        Digits(source="env")


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["cut", "empty", "longer", "noise"])
def test_damaged_files_are_named(tmp_path, monkeypatch, name, damage, compress, write_idx):
    write_idx(tmp_path / "mnist", compress=compress)
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    path = tmp_path / "mnist" / (f"{name}.gz" if compress else name)
    whole = path.read_bytes()
    changed = {"cut": whole[:-7], "empty": b"", "longer": whole + b"x" * 9, "noise": b"\x00\x01\x02" * 9}
    path.write_bytes(changed[damage])
    with pytest.raises(DataError, match=str(path)):
        MNIST(source="env").load()


def test_damaged_labels_in_a_folder_without_a_name(tmp_path, monkeypatch, write_idx):
    write_idx(tmp_path)
    (tmp_path / NAMES[1]).write_bytes(b"")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    with pytest.raises(DataError, match=str(tmp_path / NAMES[1])):
        MNIST().load()


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_contents_that_were_not_published_are_refused(tmp_path, monkeypatch, name, compress, write_idx):
    """Digests are of the uncompressed contents, so that a plain and a compressed copy are held to the same one."""
    write_idx(tmp_path / "published")
    digests = {n: hashlib.sha256((tmp_path / "published" / n).read_bytes()).hexdigest() for n in NAMES}
    monkeypatch.setattr(MNIST, "files", replace(MNIST.files, sha256=digests))
    write_idx(tmp_path / "mnist", compress=compress)
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert len(MNIST(source="env").load().train) == 10
    path = tmp_path / "mnist" / (f"{name}.gz" if compress else name)
    changed = bytearray((tmp_path / "published" / name).read_bytes())
    changed[-1] ^= 1
    path.write_bytes(gzip.compress(changed) if compress else changed)
    found = hashlib.sha256(changed).hexdigest()
    with pytest.raises(DataError, match=rf"{path} .*SHA-256 {found[:12]}\.\.\., not {digests[name][:12]}\.\.\."):
        MNIST(source="env").load()


def test_wrong_contents_are_named(tmp_path, monkeypatch, write_idx):
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    write_idx(tmp_path / "mnist", [1, 10])
    with pytest.raises(DataError, match="holds label 10, but labels go from 0 to 9"):
        MNIST().load()
    write_idx(tmp_path / "mnist", [1, 2, 3])
    write_idx(tmp_path / "other", [1, 2])
    (tmp_path / "other" / NAMES[1]).rename(tmp_path / "mnist" / NAMES[1])
    with pytest.raises(DataError, match=r"holds 3 images, but .* has 2 labels"):
        MNIST().load()


@pytest.fixture
def mirror(tmp_path, monkeypatch, write_idx):
    """torchvision's own download, from a server of this test."""
    from datamodules._torchvision import torchvision

    write_idx(tmp_path / "server", compress=True)
    resources = []
    for name in NAMES:
        content = (tmp_path / "server" / f"{name}.gz").read_bytes()
        resources.append((f"{name}.gz", hashlib.md5(content).hexdigest()))

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "server")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [f"http://127.0.0.1:{server.server_port}/"])
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", resources)
    yield server
    server.shutdown()
    server.server_close()


def finished(tmp_path):
    return [p.name for p in (tmp_path / "cache" / "fedbench").iterdir() if not p.name.startswith(".lock-")]


def test_a_download_is_kept(tmp_path, mirror):
    assert MNIST().available() is None
    first = MNIST().load()
    assert first.source == MNIST().available() == "torchvision download" and len(first.train) == 10
    mirror.shutdown()
    assert torch.equal(MNIST(source="download").load().train.x, first.train.x)
    assert finished(tmp_path) == ["MNIST"], "nothing half done is left"


def test_a_spoilt_download_is_not_kept(tmp_path, mirror):
    (tmp_path / "server" / f"{NAMES[0]}.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(
        DataError, match=r"MNIST is not here and could not be downloaded .*: run python -m datamodules fetch"
    ):
        MNIST().load()
    assert finished(tmp_path) == []


def test_no_connection_is_one_sentence(tmp_path, mirror):
    mirror.shutdown()
    mirror.server_close()
    with pytest.raises(DataError, match=r"\(no connection\)") as error:
        MNIST().load()
    assert "\n" not in str(error.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "EMNIST", "CIFAR10", "CIFAR100", "GTSRB"])
def test_it_is_known_whom_to_ask(name):
    from datamodules._torchvision import torchvision

    urls = _urls(getattr(torchvision.datasets, name))
    assert urls and all(url.startswith("http") for url in urls)


def test_a_silent_server_is_given_up(monkeypatch):
    monkeypatch.setattr("datamodules.download.urlopen", lambda *_, **__: time.sleep(5) or io.BytesIO())
    start = time.monotonic()
    assert not _answers(["http://a/", "http://b/"], seconds=0.2)
    assert time.monotonic() - start < 2
