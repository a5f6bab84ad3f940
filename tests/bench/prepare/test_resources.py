import os
import subprocess
import sys
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


BURN = "import time; begun = time.process_time()\nwhile time.process_time() < begun + 0.3: pass\n"


def test_what_a_process_starts_is_of_its_family_also_when_it_has_ended():
    seconds = os.sysconf("SC_CLK_TCK")
    before = resources._family_ticks(os.getpid())
    with subprocess.Popen([sys.executable, "-c", BURN + "input()"], stdin=subprocess.PIPE, text=True) as child:
        while resources._family_ticks(child.pid) < 0.3 * seconds:
            assert child.poll() is None
        assert resources._family_ticks(os.getpid()) - before >= 0.3 * seconds
        child.communicate("\n")
    assert resources._family_ticks(os.getpid()) - before >= 0.3 * seconds  # waited for
    assert resources._family_ticks(child.pid) == 0


@pytest.mark.parametrize(
    ("then", "now", "share"),
    [
        ((1000, 400, 100), (2000, 1000, 600), 0.1),  # of 1,000 ticks 600 were busy, 500 of them ours
        ((1000, 400, 100), (2000, 1000, 710), 0.0),  # the two are read one after the other
        ((1000, 400, 100), (1000, 400, 100), None),
        ((1000, 400, 100), None, None),
        (None, (2000, 1000, 600), None),
    ],
)
def test_the_share_of_other_processes_is_what_is_busy_and_not_ours(monkeypatch, then, now, share):
    ticks = iter([then, now])
    monkeypatch.setattr(resources, "_processor_ticks", lambda: next(ticks))
    assert resources.Neighbours().share() == (None if share is None else pytest.approx(share))


def test_ticks_of_all_processes_are_at_least_those_of_this_one():
    there, busy, ours = resources._processor_ticks()
    assert 0 < ours <= busy <= there
