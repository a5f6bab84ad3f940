"""A wheel, installed in a venv of its own and used from an empty folder: nothing of the checkout is needed."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from bench.errors import CHECKOUT, INSTALLED, program

ROOT = Path(__file__).parents[2]


def test_the_program_is_called_as_it_was_started(monkeypatch):
    assert program() == CHECKOUT
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/fedbench"])
    assert program() == INSTALLED


def test_the_module_of_the_command_runs_it():
    done = subprocess.run([sys.executable, "-m", "bench.main", "round=3"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nearest: rounds, out; python bench.py --help lists them all." in done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The programs of a venv that has our wheel; what fedbench depends on is this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "runs", "build", "*.so", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source)], check=True)
    venv.create(folder / "venv", with_pip=False)
    [wheel] = folder.glob("fedbench-*.whl")
    subprocess.run([*pip, f"--python={folder / 'venv'}", "install", "--no-deps", str(wheel)], check=True)
    [site] = (folder / "venv/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "venv/bin"


def run(installed, folder, *words):
    done = subprocess.run([str(installed / words[0]), *words[1:]], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_has_all_that_the_commands_need(installed, tmp_path):
    code, text = run(installed, tmp_path, "fedbench", "algo=scaffold", "dataset=digits", "rounds=3", "logger=none")
    assert code == 0 and "engine     native" in text and "accuracy" in text
    [folder] = (tmp_path / "runs").iterdir()
    for words, said in {
        ("fedbench", "--help"): "usage: fedbench [-m]",
        ("fedbench", "round=3"): "nearest: rounds, out; fedbench --help",
        ("python", "-m", "bench", "replay", str(folder)): "identical: 3 rounds",
        ("python", "-m", "datamodules", "list"): "digits",
        ("python", "-m", "sweeps", "fedlga/table4", "dataset=fmnist", "--dry-run"): "fedbench algo=",
        ("python", "-m", "leaderboards", "table"): "scaffold",
        ("python", "-m", "leaderboards", "claims", "--paper", "fedlga", "--where", "Table VI"): "How to re-run one",
        ("python", "-m", "leaderboards", "build", "--out", "site"): "claims",
    }.items():
        code, text = run(installed, tmp_path, *words)
        assert code == (2 if "round=3" in words else 0), text
        assert said in text
    assert (tmp_path / "site/index.html").exists()
