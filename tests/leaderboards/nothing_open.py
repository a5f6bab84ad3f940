"""Made-up results judged as if the papers left nothing open: which reading counts is another matter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from sweeps import readings


@contextmanager
def nothing_open() -> Iterator[None]:
    with mock.patch.object(readings, "questions", lambda paper: ()):
        readings.open_for.cache_clear()
        yield
    readings.open_for.cache_clear()
