"""What a user's own code raises is told by the hook's name and five lines of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import own_code, trust
from bench.errors import UserError

SOURCE = """class Mine:
    def aggregate(self):
        a = 1
        b = a / 0
        return b

    def leave(self):
        raise SystemExit(0)
"""


@pytest.fixture
def mine(tmp_path: Path) -> object:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    trust.name(str(path))
    return own_code.load(f"{path}:Mine")()


def test_what_a_hook_raises_names_it_and_shows_five_lines(mine) -> None:
    with pytest.raises(UserError) as told, own_code.calling(mine, "aggregate"):
        mine.aggregate()
    sentence, *lines = str(told.value).split("\n")
    assert sentence.startswith("aggregate of ") and "mine.py:Mine failed: ZeroDivisionError" in sentence
    assert sentence.endswith("(line 4 of mine.py).")
    assert lines[2] == ">    4 |         b = a / 0" and len(lines) == 4  # a blank line is left out


def test_leaving_python_is_an_error_too(mine) -> None:
    with pytest.raises(UserError, match=r"leave of .* failed: SystemExit: 0"), own_code.calling(mine, "leave"):
        mine.leave()


def test_a_bug_of_fedbench_keeps_its_traceback() -> None:
    from algorithms.fedavg import FedAvg

    with pytest.raises(ZeroDivisionError), own_code.calling(FedAvg, "aggregate"):
        _ = 1 / 0


def test_what_the_user_is_told_already_stays_as_it_is(mine) -> None:
    with pytest.raises(UserError, match=r"^plain$"), own_code.calling(mine, "aggregate"):
        raise UserError("plain")
