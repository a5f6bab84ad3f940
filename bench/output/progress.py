"""How far a run is: one line that is redrawn on a terminal; elsewhere a plain line soon, and one at every tenth.

NO_COLOR asks for plain lines on a terminal too (https://no-color.org); colours are not used anywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

REDRAW_SECONDS = 0.1
LOOK_SECONDS = 0.5  # how often it is asked how far a round is
SOON_SECONDS = 3.0  # after which a plain line says so, whether or not a round has ended
Ask = Callable[[], tuple[str, float]]


def duration(seconds: float) -> str:
    """3.2 s, 48 s, 12:05, 3:12:05."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def roughly(seconds: float) -> str:
    """40 s, 12 min, 7.5 h, 3.2 days."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.{1 if seconds < 9.5 * unit and unit > 60 else 0}f} {name}"
    return f"{seconds:.0f} s"


class Progress:
    """`begin` when the run starts, `update` after every round, `end` when it is over, whatever happened. Within rounds
    a thread asks, since training gives nothing back before its last device is done."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() and not os.environ.get("NO_COLOR")
        self._from = self._printed = 0.0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0
        self._measured = ""
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._said = False
        self._expected = float("inf")

    def begin(self, fraction: float, ask: Ask | None = None, expected: float = float("inf")) -> None:
        """A resumed run begins where it was left; `ask` gives what `update` is given, `expected` are the seconds of the
        whole run, as they were forecast."""
        self._from = self._printed = fraction
        self._started, self._expected = time.monotonic(), expected
        if ask is not None:
            self._thread = threading.Thread(target=self._watch, args=(ask,), name="progress", daemon=True)
            self._thread.start()

    def left(self, fraction: float) -> float:
        """Seconds to go, at the pace since `begin`."""
        done = fraction - self._from
        elapsed = time.monotonic() - self._started
        return elapsed * (1 - fraction) / done if done > 0 else self._expected * (1 - fraction)

    def update(self, label: str, fraction: float, measured: str) -> None:
        """`fraction` of the whole run is done; `measured` is empty in a round that was not evaluated."""
        self._measured = measured or self._measured
        with self._lock:
            if self._terminal:
                self._draw("  ".join(self._words(label, fraction)), fraction)
            elif fraction >= 1 or int(10 * fraction) > int(10 * self._printed):
                self._printed = fraction
                self._print(label, fraction)

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()  # before anybody forks
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _watch(self, ask: Ask) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more: the next round's line will say so
            while not self._over.wait(LOOK_SECONDS):
                with self._lock:
                    label, fraction = ask()
                    if self._terminal:
                        self._draw("  ".join(self._words(label, fraction)), fraction)
                    elif not self._said and time.monotonic() - self._started >= SOON_SECONDS:
                        self._print(label, fraction)

    def _words(self, label: str, fraction: float) -> list[str]:
        words = [label]
        if self._measured:
            words.append(self._measured)
        left = self.left(fraction)
        return words if left == float("inf") else [*words, f"{duration(left)} left"]

    def _print(self, label: str, fraction: float) -> None:
        self._said = True
        print(", ".join(self._words(label, fraction)), file=self._stream, flush=True)

    def _draw(self, text: str, fraction: float) -> None:
        now = time.monotonic()
        if now - self._drawn < REDRAW_SECONDS and fraction < 1:
            return
        self._drawn = now
        room = shutil.get_terminal_size().columns - 1
        cells = min(30, room - len(text) - 2)
        full = round(max(cells, 0) * min(fraction, 1))
        line = f"{'━' * full}{'·' * (cells - full)}  {text}" if cells >= 8 else text[:room]
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)
