"""Made-up results judged as if the papers left nothing open, by three seeds: what was chosen is another matter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from leaderboards import seeds
from sweeps import readings


@contextmanager
def nothing_open() -> Iterator[None]:
    with mock.patch.object(readings, "questions", lambda paper: ()), mock.patch.object(seeds, "planned", dict):
        readings.open_for.cache_clear()
        yield
    readings.open_for.cache_clear()
