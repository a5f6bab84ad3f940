import pytest

from bench.apart import answers


def test_the_benchmark_answers_one_by_one():
    small, smaller = answers("bench.answers", ["configs"], [["lr=0.5"], ["lr=0.25"]], "no configs")
    assert (small["lr"], smaller["lr"]) == (0.5, 0.25)


def test_a_question_that_has_no_answer_is_quoted():
    with pytest.raises(RuntimeError, match=r"no configs:\n(?s:.*)Unknown protocol"):
        answers("bench.answers", ["configs"], [["protocol=nosuch"]], "no configs")
