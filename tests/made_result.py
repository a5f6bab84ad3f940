"""A result with invented numbers."""

from bench.output.result import RunResult

NUMBERS = {"id": "made", "rounds": 1, "target": 0.9, "rounds_to_target": None, "final": 0.5}


def made_result(**changes):
    found = {**NUMBERS, **changes}
    return RunResult(**{"best": found["final"], **found})
