"""The commands that README and docs show, run as they stand but small: smoke scale, two rounds, synthetic data."""

from __future__ import annotations

import shutil
from pathlib import Path

import lines
import pytest
from test_lines import CLAIM

from bench.errors import UserError
from bench.main import command
from bench.record import Record
from tests.running import printed

pytestmark = pytest.mark.slow
SMALL = ["scale=smoke", "logger=none"]
NARROW = ["seed=0", "dataset.source=synthetic", *SMALL]
MORE = {"sampler=tpe": ["--trials", "2"], "sweeps.overhead": ["--trials", "3"]}
RUN = [line for line in lines.every() if line.shown and line.reason is None and line.text.startswith("python ")]


@pytest.fixture(autouse=True)
def _root(tmp_path: Path) -> None:
    """A copy of what the commands look for in the working directory."""
    shutil.copytree(lines.ROOT / "docs/examples", tmp_path / "docs/examples")


def made(*keys: str, stop: int | None = None) -> Path:
    """The folder of a run on digits, finished or stopped after so many rounds."""
    append = Record.append

    def and_stop(record, values):
        append(record, values)
        if len(record.rows) == stop:
            raise UserError("Stopped.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Record, "append", and_stop)
        assert command([*keys, "logger=none", "rounds=3", "checkpoint_seconds=0"]) == (0 if stop is None else 2)
    return max(path.parent for path in Path("runs").glob("*/config.yaml"))


def small(keys: list[str]) -> list[str]:
    """The command line with a smaller budget, and made-up data where it names a data set that is not bundled."""
    kept = [key for key in keys if not key.startswith(("scale=", "rounds=", "virtual_seconds=", "logger="))]
    kept = [key.partition(",")[0] if key.startswith("seed=") else key for key in kept]
    own = any(key == "dataset=digits" or key.startswith("dataset=docs/") for key in kept)
    named = any(key.startswith("dataset=") for key in kept) and "dataset.source=synthetic" not in kept
    return [*kept, *SMALL, "rounds=2", *(["dataset.source=synthetic"] if named and not own else [])]


def tool(module: str, argv: list[str]) -> list[str]:
    """What to add to `python -m module argv`, after making what it reads."""
    if "runs" in argv or "runs/ID" in argv:
        folder = made("clients=6", "cohort=3", "epochs=1")
        argv = [str(folder) if word == "runs/ID" else word for word in argv]
    if module == "bench" and argv[0] == "partition":
        argv = [*argv, "dataset.source=synthetic"]
    if module == "sweeps" and argv[0] not in ("list",) and "--dry-run" not in argv:
        if argv[0] == "results":
            printed("-m", "sweeps", *tool("sweeps", argv[1:]))
        one = [] if any(word.startswith(("algo=", "method=")) for word in argv) else ["algo=fedavg"]
        argv = [*(word for word in argv if not word.startswith(("scale=", "seed="))), *one, *NARROW]
    extra = next((words for mark, words in MORE.items() if mark in (module, *argv)), [])
    return [CLAIM if word == "CLAIM" else word for word in [*argv, *extra]]


@pytest.mark.parametrize("line", RUN, ids=lambda line: f"{line.page}: {line.text[:60]}")
def test_the_command_runs(line: lines.Line, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = line.words()
    if first == "-m":
        assert printed("-m", rest[0], *tool(rest[0], rest[1:])).strip()
    elif first != "bench.py":
        made("-m", "seed=0,1")
        assert printed(first).strip()
    elif "--help" in rest:
        assert command(rest) == 0
    elif "resume=runs/ID" in rest:
        assert command([f"resume={made('clients=6', 'cohort=3', stop=2)}"]) == 0
    else:
        assert command(small(rest)) == 0
        assert "accuracy" in capsys.readouterr().out
