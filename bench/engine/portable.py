"""Errors that go from one process to another."""

from __future__ import annotations

import pickle
import traceback


def portable(error: Exception) -> Exception:
    """The error with its traceback as a note, in a form that can be sent."""
    text = f"In a worker process:\n{''.join(traceback.format_exception(error)).rstrip()}"
    try:
        error.add_note(text)
        found: Exception = pickle.loads(pickle.dumps(error))
        return found
    except Exception:
        return RuntimeError(text)
