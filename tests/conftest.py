"""One thread per test process: two on each of two cores make a step fifty times slower."""

import gc
import os
import signal
from pathlib import Path

import pytest
import torch

from bench.main import command

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it


def pytest_collection_finish():
    """What is there by now stays: every run looks through all that may go, a fifth of a second in this process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own, so that nothing is written into the tree."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("FEDBENCH_GROUP", "WANDB_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def refused(capsys):
    """Gives bench.py's command words that it must refuse: exit code 2, one sentence with these `parts`, every file as
    before; and, if it is to be `silent`, nothing said about the run that is not to be."""

    def snapshot():
        return {path: path.read_bytes() if path.is_file() else None for path in Path.cwd().rglob("*")}

    def check(words, parts, silent=False):
        before = snapshot()
        assert command(words) == 2
        out, err = capsys.readouterr()
        assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith(".\n"), err
        assert [part for part in parts if part not in err] == [], err
        assert snapshot() == before and not (silent and out), out

    return check
