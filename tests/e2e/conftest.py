"""What the tests of bad input share: runs to resume, and what a refusal has to look like."""

import os
import shutil
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.main import command
from bench.record import Record

SMALL = ["clients=6", "cohort=3", "epochs=1", "rounds=4", "logger=none", "checkpoint_seconds=0"]


def snapshot():
    """Every path below this test's folder, with its contents."""
    return {path: path.read_bytes() if path.is_file() else None for path in Path.cwd().rglob("*")}


@pytest.fixture
def small():
    """Keys of a run that takes a moment."""
    return list(SMALL)


@pytest.fixture
def refused(capsys):
    """Runs a command that must be refused: exit code 2, one sentence with these words, every file as before."""

    def check(argv, words):
        before = snapshot()
        assert command(argv) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith(".\n"), err
        for word in words:
            assert word in err, err
        assert snapshot() == before

    return check


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
