"""leaderboards/results/SHA256SUMS: no committed result is edited, removed, renamed or slipped in unnoticed."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter

import pytest

from bench.errors import UserError
from bench.output import digests
from leaderboards import __main__ as command
from leaderboards import check as checks
from leaderboards import results
from leaderboards.check import check

EDITS = 450


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The committed results, to be edited; each test leaves them as they were."""
    return shutil.copytree(results.FOLDER, tmp_path_factory.mktemp("copied") / "results")


@pytest.fixture
def few(tmp_path):
    """Every tenth of them: what is noticed does not depend on how many there are."""
    folder = tmp_path / "results"
    folder.mkdir()
    lines = (results.FOLDER / digests.LIST).read_text().splitlines(keepends=True)[::10]
    for line in lines:
        shutil.copy(results.FOLDER / line.split()[1], folder)
    (folder / digests.LIST).write_text("".join(lines))
    return folder


def _changed(value, rng):
    if isinstance(value, bool) or value is None:
        return 1
    if isinstance(value, int | float):
        return value + rng.choice([1, -1, 0.05, 1e-7]) * max(1, abs(value))
    return f"{value}x" if isinstance(value, str) else [value]


def in_result(*names):
    def edit(content, rng):
        name = rng.choice(names)
        content["result"][name] = _changed(content["result"][name], rng)

    return edit


def of_source(content, rng):
    content["result"]["data"]["source"] = "synthetic"


def of_row(content, rng):
    column = content["rows"][rng.choice(results.COLUMNS)]
    place = rng.randrange(len(column))
    column[place] = _changed(column[place], rng)


def of_plan(content, rng):
    content["plan"][0]["scale"] = "another"


def of_engine(content, rng):
    content["engine"]["name"] = "another"


def everywhere(content, rng):
    """A better curve, with a result to match."""
    column = content["rows"]["test_accuracy"]
    content["rows"]["test_accuracy"] = [value and round(value + 0.01, 7) for value in column]
    known = [value for value in content["rows"]["test_accuracy"] if value is not None]
    content["result"] |= {"best_accuracy": max(known), "final_accuracy": content["rows"]["test_accuracy"][-1]}


KINDS = {
    "accuracy": in_result("final_accuracy", "best_accuracy", "rounds_to_target"),
    "hash": in_result("weights_sha256"),
    "revision": in_result("git_revision"),
    "number": in_result("seconds_per_round", "upload_bytes", "virtual_seconds", "gradient_evaluations", "seed"),
    "source": of_source,
    "row": of_row,
    "plan": of_plan,
    "engine": of_engine,
    "everywhere": everywhere,
}


def _edit(folder, kind, rng):
    """Does it, and returns what undoes it."""
    path = rng.choice(sorted(folder.glob("*.json")))
    before, other = path.read_bytes(), folder / f"{rng.randrange(16**16):016x}.json"
    undo = [lambda: path.write_bytes(before)]
    if kind == "deletion":
        path.unlink()
    elif kind == "addition":
        other.write_bytes(before)
        undo.append(other.unlink)
    elif kind == "rename":
        path.rename(other)
        undo.append(other.unlink)
    elif kind == "swap":
        second = rng.choice([p for p in folder.glob("*.json") if p != path])
        content = second.read_bytes()
        path.write_bytes(content)
        second.write_bytes(before)
        undo.append(lambda: second.write_bytes(content))
    elif kind == "byte":
        place = rng.randrange(len(before))
        path.write_bytes(before[:place] + bytes([before[place] ^ (1 << rng.randrange(8))]) + before[place + 1 :])
    elif kind == "blank":
        path.write_bytes(before + b"\n")
    else:
        content = json.loads(before)
        KINDS[kind](content, rng)
        path.write_text(json.dumps(content))
        assert json.loads(before) != content
    return undo


def test_every_edit_of_every_kind_is_noticed(few):
    kinds = [*KINDS, "deletion", "addition", "rename", "swap", "byte", "blank"]
    noticed, rng = Counter(), random.Random(0)
    results.check(few)
    for number in range(EDITS):
        kind = kinds[number % len(kinds)]
        undo = _edit(few, kind, rng)
        try:
            results.check(few)
        except UserError as error:
            noticed[kind] += "/results/" in str(error) and str(error).count("\n") == 0
        for step in undo:
            step()
    assert noticed == dict.fromkeys(kinds, EDITS // len(kinds))
    results.check(few)


def test_the_list_itself_cannot_be_cut_or_edited(copied):
    path = copied / digests.LIST
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    assert lines == sorted(lines, key=lambda line: line.split()[1])
    others = ["", text[:-30], "".join(lines[1:]), text.replace("a", "b", 1), text + lines[0], text + "x\n"]
    for other in others:
        path.write_text(other)
        with pytest.raises(UserError):
            results.check(copied)
    path.unlink()
    with pytest.raises(UserError, match="not listed in"):
        results.check(copied)
    path.write_text("".join(reversed(lines)))  # as a merge may leave it
    results.check(copied)
    path.write_text(text)


def test_check_and_every_other_verb_refuse_in_a_sentence(copied, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["leaderboards", "claims"])
    monkeypatch.setattr(results, "committed", lambda: results.load(copied))
    path = next(copied.glob("*.json"))
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"dropped": 0', b'"dropped": 1'))
    try:
        with pytest.raises(UserError, match=f"{path.name} is not as it was written"):
            check(update=False)
        assert command.main() == 2
        assert capsys.readouterr().err.startswith(f"error: {path} is not as it was written")
    finally:
        path.write_bytes(before)


def test_adding_a_result_does_not_launder_the_others(copied):
    path, other = sorted(copied.glob("*.json"))[:2]
    kept, before, text = results.read(other), path.read_bytes(), (copied / digests.LIST).read_text()
    path.write_bytes(before + b" ")
    results.write(kept, copied)
    with pytest.raises(UserError, match=path.name):
        results.check(copied)
    path.write_bytes(before)
    shutil.copy(results.FOLDER / other.name, other)
    (copied / digests.LIST).write_text(text)
    results.check(copied)


def test_results_of_commits_that_nobody_can_check_out_are_named(monkeypatch):
    made_by = [run.result.git_revision for run in results.committed()]
    monkeypatch.setattr(checks, "git_history", lambda: frozenset(made_by))
    assert checks.unknown_commits() == ""
    lost = made_by[0]
    monkeypatch.setattr(checks, "git_history", lambda: frozenset(made_by) - {lost})
    assert (
        checks.unknown_commits().startswith(f"{made_by.count(lost)} results") and lost[:7] in checks.unknown_commits()
    )
    monkeypatch.setattr(checks, "git_history", frozenset)  # no whole checkout: nothing is known
    assert checks.unknown_commits() == ""
