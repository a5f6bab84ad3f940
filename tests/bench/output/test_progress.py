"""A user sees soon that something goes on, and how long it will."""

import io
import os
import sys
import threading
import time

import pytest

from bench.output import progress as module
from bench.output.progress import Progress, duration
from tests.patience import until


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_plain_line_comes_within_five_seconds_however_long_a_round_is(monkeypatch):
    assert module.SOON_SECONDS + 0.5 < 5
    monkeypatch.setattr(module, "SOON_SECONDS", 0.2)
    stream, asked = io.StringIO(), []

    def ask():
        asked.append(time.monotonic())
        return "round 1/60, 30 devices 2 % trained", 0.001

    progress, begin = Progress(stream), time.monotonic()
    progress.begin(0.0, ask)
    assert until(lambda: stream.getvalue(), 10)
    assert time.monotonic() - begin >= 0.2
    count = len(asked)
    assert until(lambda: len(asked) > count + 5, 10)
    (line,) = stream.getvalue().splitlines()  # one: the others come with the tenths of the run
    assert line.startswith("round 1/60, 30 devices 2 % trained, ") and line.endswith(" left")
    progress.update("round 6/60", 0.1, "accuracy 50.0 %")
    assert stream.getvalue().splitlines()[1].startswith("round 6/60, accuracy 50.0 %, ")
    progress.end()
    assert not any(thread.name.startswith("progress") for thread in threading.enumerate())


def test_a_run_that_has_said_something_is_not_asked_for_a_first_line(monkeypatch):
    monkeypatch.setattr(module, "SOON_SECONDS", 0.1)
    stream, asked = io.StringIO(), []
    progress = Progress(stream)
    progress.begin(0.0, lambda: (asked.append(1), ("within", 0.2))[1])
    progress.update("round 1/2", 0.5, "")
    assert until(lambda: len(asked) > 30, 10)
    progress.end()
    assert [line.split(",")[0] for line in stream.getvalue().splitlines()] == ["round 1/2"]


def test_a_terminal_is_redrawn_within_a_round(monkeypatch):
    monkeypatch.setattr(module, "REDRAW_SECONDS", 0.0)
    stream, shares = Terminal(), iter(range(1000))
    progress = Progress(stream)
    progress.begin(0.0, lambda: (f"round 1/2, {(share := next(shares))} % trained", share / 200))
    assert until(lambda: "9 % trained" in stream.getvalue(), 10)
    progress.end()
    seen = stream.getvalue()
    assert seen.index("round 1/2, 1 % trained") < seen.index("round 1/2, 5 % trained") and seen.endswith("\r")
    time.sleep(0.05)
    assert stream.getvalue() == seen  # nothing is drawn after the end


def test_before_anything_is_done_what_is_left_is_what_was_forecast():
    progress = Progress(io.StringIO())
    progress.begin(0.25, expected=400.0)
    assert progress.left(0.25) == 300
    progress.begin(0.0)
    progress.update("round 0/2", 1.0, "")
    assert "inf" not in progress._stream.getvalue()


def test_a_reader_that_has_gone_ends_the_asking_not_the_run(monkeypatch):
    monkeypatch.setattr(module, "SOON_SECONDS", 0.0)

    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    progress = Progress(Broken())
    progress.begin(0.0, lambda: ("round 1/2", 0.1))
    assert until(lambda: not progress._thread.is_alive(), 10)
    progress.end()
    assert failed == []


def test_the_bar_on_a_terminal_fits_its_line(monkeypatch):
    monkeypatch.setattr("bench.output.progress.REDRAW_SECONDS", 0)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 24)))
    terminal = Terminal()
    progress = Progress(terminal)
    progress.begin(0.0)
    for t in range(1, 4):
        progress.update(f"round {t}/4", t / 4, f"accuracy {10 * t}.0 %" if t != 2 else "")
    lines = terminal.getvalue().split("\r")[1:]
    assert all(len(line) < 60 for line in lines)
    assert "round 2/4  accuracy 10.0 %" in lines[1] and lines[2].count("━") > lines[1].count("━") > 0
    assert lines[2].rstrip().endswith("left")
    progress.end()
    assert terminal.getvalue().endswith("\r") and sys.stderr is not terminal


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.5, "9.5 s"), (59, "59 s"), (65, "1:05"), (3725, "1:02:05")]
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text
