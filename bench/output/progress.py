"""How far a run is: one line that is redrawn on a terminal, a plain line at every tenth of the run elsewhere.

NO_COLOR asks for plain lines on a terminal too (https://no-color.org); colours are not used anywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TextIO

REDRAW_SECONDS = 0.1


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
    """`begin` when the run starts, `update` after every round, `end` when it is over, whatever happened."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() and not os.environ.get("NO_COLOR")
        self._from = self._printed = 0.0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0
        self._accuracy: float | None = None

    def begin(self, fraction: float) -> None:
        """A resumed run begins where it was left."""
        self._from = self._printed = fraction
        self._started = time.monotonic()

    def left(self, fraction: float) -> float:
        """Seconds to go, at the pace since `begin`."""
        done = fraction - self._from
        return (time.monotonic() - self._started) * (1 - fraction) / done if done > 0 else float("inf")

    def update(self, label: str, fraction: float, accuracy: float | None) -> None:
        """`fraction` of the whole run is done; accuracy is None in a round that was not evaluated."""
        self._accuracy = self._accuracy if accuracy is None else accuracy
        words = [label]
        if self._accuracy is not None:
            words.append(f"accuracy {100 * self._accuracy:.1f} %")
        words.append(f"{duration(self.left(fraction))} left")
        if self._terminal:
            self._draw("  ".join(words), fraction)
        elif fraction >= 1 or int(10 * fraction) > int(10 * self._printed):
            self._printed = fraction
            print(", ".join(words), file=self._stream, flush=True)

    def end(self) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

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
