import os
from pathlib import Path

import pytest
import torch

from bench.prepare import resources


def test_the_memory_that_is_left_is_within_what_the_process_may_take(monkeypatch):
    assert 1e7 < resources.available(torch.device("cpu")) < 1e15
    limit = resources.virtual_memory() + 1e6
    monkeypatch.setattr(resources.resource, "getrlimit", lambda what: (limit, limit))
    assert resources.available(torch.device("cpu")) <= 1e6


def test_the_disk_of_a_folder_that_is_not_there_yet_is_that_of_its_parent():
    assert resources.free_disk(Path("not/there/yet")) == pytest.approx(resources.free_disk(Path()), rel=0.1)


def test_the_peak_of_a_process_is_known_by_its_number_and_does_not_fall():
    before = resources.peak_memory()
    assert before > 1e7  # bytes, not kilobytes
    block = bytearray(b"x") * before
    peak = resources.peak_memory(os.getpid())
    del block
    assert min(peak, resources.peak_memory()) > 1.05 * before
