"""Runs to resume."""

import os
import shutil
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.main import command
from bench.record import Record

SMALL = ["clients=6", "cohort=3", "epochs=1", "rounds=4", "logger=none", "checkpoint_seconds=0"]


@pytest.fixture
def small():
    """Keys of a run that takes a moment."""
    return list(SMALL)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished run, and one stopped after its third round with a checkpoint of its second."""
    here, folder = Path.cwd(), tmp_path_factory.mktemp("made")
    os.chdir(folder)
    append = Record.append

    def stop(record, values):
        append(record, values)
        if len(record.rows) == 3:
            raise UserError("Stopped.")

    try:
        assert command([*SMALL, "out=finished"]) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Record, "append", stop)
            assert command([*SMALL, "out=stopped"]) == 2
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def runs(made):
    """Copies of them in this test's folder: runs/finished and runs/stopped."""
    for kind in ("finished", "stopped"):
        (run,) = (made / kind).iterdir()
        shutil.copytree(run, Path("runs") / kind)
    return Path("runs")
