import pytest

from leaderboards.apart import answers


def test_the_answers_are_the_last_line_that_the_program_prints():
    program = "import json, sys\nprint('a remark')\nprint(json.dumps([2 * n for n in json.load(sys.stdin)]))"
    assert answers(program, [1, 2], "no doubles") == [2, 4]


def test_a_program_that_fails_is_quoted():
    with pytest.raises(RuntimeError, match=r"no doubles:\n(?s:.*)Unknown protocol"):
        answers("raise SystemExit('Unknown protocol')", [1], "no doubles")
