"""A stopped multirun: the same words go on, with the table over all; runs that were finished are not repeated."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from bench import run as module
from bench.main import command
from bench.record import read_all

SMALL = ["clients=6", "cohort=3", "epochs=1", "rounds=3", "logger=none"]
WORDS = ["-m", "seed=0,1", *SMALL]


@pytest.fixture
def started(monkeypatch):
    """Counts the runs that begin; `stop_at` asks for one to be stopped after its second round."""
    real, seen = module.run, []

    def run(config, **more):
        job = (config["algo"]["name"], config["seed"])
        seen.append((*job, more.get("resume") is not None))

        def on_round(number, accuracy):
            if job == run.stop_at and number == 2:
                run.stop_at = None
                os.kill(os.getpid(), signal.SIGINT)

        return real(config, on_round=on_round, **more)

    run.stop_at = None
    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr("bench.output.curves.learning_curves", lambda runs, path: None)
    return run, seen


def test_the_same_words_go_on_after_ctrl_c(started, capsys):
    run, seen = started
    words = ["-m", "algo=fedavg", "seed=0,1,2", *SMALL]
    run.stop_at = ("fedavg", 1)
    assert command([*words, "out=a"]) == 130
    out = capsys.readouterr().out
    assert "Stopped in job 2 of 3. To go on with all of them: python bench.py -m algo=fedavg seed=0,1,2" in out
    seen.clear()
    assert command([*words, "out=a"]) == 0
    out = capsys.readouterr().out
    assert seen == [("fedavg", 1, True), ("fedavg", 2, False)]
    assert "1 of 3 runs are finished" in out and "finished before: a/" in out
    runs = read_all(Path("a"))
    assert len({found.config["group"] for found in runs}) == 1 and len(runs) == 3
    table = next(line for line in out.splitlines() if line.startswith("fedavg "))
    assert table.split()[1] == "3"  # seeds
    assert not list(Path("a").glob(".multirun*"))
    assert command([*words, "out=b"]) == 0
    assert [r.result.weights_sha256 for r in runs] == [r.result.weights_sha256 for r in read_all(Path("b"))]


def test_words_that_came_to_their_end_are_a_new_multirun(started):
    _, seen = started
    for _ in range(2):
        assert command(["-m", "seed=0", *SMALL, "rounds=1", "out=a"]) == 0
    assert len(seen) == 2 and len({found.config["group"] for found in read_all(Path("a"))}) == 2


def stopped_once(started):
    run, seen = started
    run.stop_at = ("fedavg", 0)
    assert command([*WORDS, "out=a"]) == 130
    seen.clear()
    return seen


def test_other_words_are_another_multirun(started):
    seen = stopped_once(started)
    assert command([*WORDS, "out=a", "lr=0.05"]) == 0
    assert len(seen) == 2 and not any(resumed for *_, resumed in seen)


def test_a_method_that_changed_since_begins_afresh(started, capsys, monkeypatch):
    seen = stopped_once(started)
    monkeypatch.setattr("bench.multirun._changed_since", lambda folder, algo: "fedavg.py")
    assert command([*WORDS, "out=a"]) == 0
    assert len(seen) == 2 and not any(resumed for *_, resumed in seen)
    assert "fedavg.py has changed since" in capsys.readouterr().out
    assert len({found.config["group"] for found in read_all(Path("a"))}) == 2


def test_the_same_words_at_work_elsewhere_are_left_alone(started):
    seen = stopped_once(started)
    (path,) = Path("a").glob(".multirun*")
    before = path.read_text()
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert command([*WORDS, "out=a"]) == 0
    assert len(seen) == 2 and path.read_text() == before


@pytest.mark.parametrize("text", ["", "x\n1 ../../etc\n\xff\n99 a\nno number\n"])
def test_a_damaged_list_begins_afresh(text, started):
    seen = stopped_once(started)
    (path,) = Path("a").glob(".multirun*")
    path.write_bytes(text.encode("latin-1"))
    assert command([*WORDS, "out=a"]) == 0
    assert len(seen) == 2


def test_a_link_in_place_of_the_list_is_not_followed(started, tmp_path, capsys):
    stopped_once(started)
    (path,) = Path("a").glob(".multirun*")
    path.unlink()
    precious = tmp_path / "precious"
    precious.write_text("kept")
    path.symlink_to(precious)
    assert command([*WORDS, "out=a"]) == 2
    assert precious.read_text() == "kept" and "Cannot write" in capsys.readouterr().err
