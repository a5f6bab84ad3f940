"""A repeated sweep says which of its finished runs other code made, and --rerun runs these again."""

import sys
from pathlib import Path

import pytest
from made_result import made_result

from bench.errors import UserError
from sweeps import __main__ as command
from sweeps import results, stale
from sweeps.drive import Drive
from sweeps.worker import Options, TrialWorker

KEYS = ("dataset=fmnist", "algo=fedavg,fedprox", "seed=0")


def options(**more):
    return Options("fedlga/table4", KEYS, f"sqlite:///{Path.cwd()}/runs/sweeps.db", "runs", 60, **more)


def ran(accuracy):
    """A worker that has run all there is; and what that was."""
    seen = []

    def execute(task):
        seen.append(task.claimed.words)
        return made_result(final=accuracy, best=accuracy, rounds_to_target=9, git_revision="a" * 40)

    worker = TrialWorker(options(), execute)
    assert worker.work() == 0
    return worker, seen


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch):
    monkeypatch.setattr("sweeps.drive.draw", lambda *given: [])


@pytest.fixture
def edited(monkeypatch):
    """FedProx's file, changed since."""
    monkeypatch.setattr(stale, "git_revision", lambda: "a" * 40)
    ran(0.5)
    code = stale.code_of
    monkeypatch.setattr(stale, "code_of", lambda algo: "other" if algo == "fedprox" else code(algo))
    monkeypatch.setattr("sweeps.worker.code_of", stale.code_of)


def said(capsys, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["sweeps", *words])
    code = command.main()
    out, err = capsys.readouterr()
    return code, out + err


def test_the_same_code_is_not_mentioned(monkeypatch, capsys):
    monkeypatch.setattr(stale, "git_revision", lambda: "a" * 40)
    worker, _ = ran(0.5)
    assert Drive(options(), 1, worker.queue).run() == 0
    assert "6 finished before\n" in capsys.readouterr().out


def test_other_code_is_said_and_run_again_only_when_asked(edited, capsys, monkeypatch):
    words = ("fedlga/table4", *KEYS)
    sentence = "6 finished before, 3 of them with other code of fedprox; --rerun runs 3 again\n"
    assert sentence in said(capsys, monkeypatch, *words)[1]
    assert "6 finished, 3 of them with other code of fedprox" in said(capsys, monkeypatch, "results", *words)[1]
    queue = options().queue()
    queue.set_aside(stale.stale(queue).trials)
    assert queue.state().finished == 3
    worker, again = ran(0.7)
    assert len(again) == 3 and all("algo=fedprox" in run for run in again)
    found = results.by_job(worker.queue.trials())
    assert [run.outcome.final for run in found.values()] == [0.5] * 3 + [0.7] * 3
    assert "6 finished before\n" in said(capsys, monkeypatch, *words)[1]
    assert ran(0.9)[1] == []


def test_rerun_on_the_command_line_opens_them_again(edited, capsys, monkeypatch):
    monkeypatch.setattr("sweeps.drive.Drive._start", lambda drive: None)
    code, text = said(capsys, monkeypatch, "fedlga/table4", *KEYS, "--rerun")
    assert code == 1 and "6 runs, 3 finished before\n" in text and "Not finished: 3/6" in text


def test_another_revision_and_a_database_that_does_not_know_are_said(capsys, monkeypatch):
    monkeypatch.setattr("sweeps.worker.CODE", "something else")
    worker, _ = ran(0.5)
    monkeypatch.setattr(stale, "git_revision", lambda: "b" * 40)
    text = stale.stale(worker.queue).text()
    assert text == (", 6 of them by code that is not known, 6 of them at revision aaaaaaaaaaaa; --rerun runs 6 again")


def test_a_methods_code_is_its_file_and_those_of_its_parents(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text("x = 1")
    before = stale.code_of(str(own))
    own.write_text("x = 2")
    stale.code_of.cache_clear()
    assert stale.code_of(str(own)) != before
    assert stale.code_of("fedavg") not in (None, stale.code_of("fedprox")) and stale.code_of("nothing") is None


def test_a_search_is_not_rerun():
    with pytest.raises(UserError, match="--rerun is for grids"):
        options(sampler="tpe").queue().set_aside([0])
