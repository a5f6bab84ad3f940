"""One thread per test process: two on each of two cores make a step fifty times slower."""

import os
import signal

import pytest
import torch

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own, so that nothing is written into the tree."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("FEDBENCH_GROUP", "WANDB_"))]:
        monkeypatch.delenv(name)
