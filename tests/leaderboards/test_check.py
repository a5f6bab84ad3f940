"""python -m leaderboards check: what moved is shown and fails; --update accepts it."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import made
import pytest

from bench import registry
from bench.errors import UserError
from leaderboards import __main__ as command
from leaderboards import golden, ledger, results
from leaderboards.check import check, compare, expected
from leaderboards.ledger import load
from leaderboards.verdict import verdicts as judged

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A checkout in miniature, whose runs come out as the golden files say."""
    shutil.copytree(ROOT / "tests" / "golden", tmp_path / "tests" / "golden")
    (tmp_path / "bench.py").touch()
    runs = golden.load(tmp_path / "tests" / "golden")
    monkeypatch.setattr(golden, "run_now", lambda root: copy.deepcopy(runs))
    return tmp_path


def perturb(root, algo, plan, quantity, place, value):
    file = root / "tests" / "golden" / f"{algo}.json"
    content = json.loads(file.read_text())
    content[plan][quantity][place] = value(content[plan][quantity][place])
    file.write_text(json.dumps(content))


def test_every_algorithm_has_its_golden_runs():
    runs = golden.load(golden.folder(ROOT))
    assert sorted(runs) == sorted(registry.classes("algo"))
    for plans in runs.values():
        assert {"plain", "with_replacement"} <= set(plans) <= set(golden.PLANS)
        assert {len(values) for trajectory in plans.values() for values in trajectory.values()} == {5}
        assert all(set(trajectory) == set(golden.QUANTITIES) for trajectory in plans.values())
    assert "semi_async" in runs["fedavg"]


def test_golden_runs_can_tell_the_methods_apart():
    runs = golden.load(golden.folder(ROOT))
    for a, b in combinations(runs, 2):
        plans = runs[a].keys() & runs[b].keys()
        assert any(list(golden._differences("", runs[a][plan], runs[b][plan])) for plan in plans), (a, b)


def test_nothing_moved(root, capsys):
    assert check(update=False, root=root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Nothing moved."
    assert lines[0].startswith("claims ") and "inconsistent" in lines[0]
    assert [line.split()[0] for line in lines[1:6]] == ["fedlga", "fed2a", "fedlc", "fedagg", "all"]
    assert [int(line.split()[-1]) for line in lines[1:6]] == [112, 182, 77, 255, 626]


def test_a_moved_number_fails_with_a_table(root, capsys):
    perturb(root, "fedavg", "plain", "test_loss", 2, lambda loss: loss * 1.001)
    perturb(root, "fedavg", "plain", "test_loss", 4, lambda loss: loss * 1.001)
    perturb(root, "scaffold", "with_replacement", "bytes_up", 0, lambda count: count + 4)
    assert check(update=False, root=root) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["what", "moved", "golden", "now", "difference"]
    assert lines[2].startswith("fedavg plain test_loss, round 3 and 1 more")
    assert lines[3].startswith("scaffold with_replacement bytes_up, round 1 ")
    assert lines[3].split()[-1] == "-4"
    assert "CHANGELOG" in lines[-1]


def test_update_accepts_what_is_now_and_asks_for_the_reason(root, capsys):
    before = (root / "tests" / "golden" / "fedavg.json").read_text()
    perturb(root, "fedavg", "plain", "virtual_seconds", 0, lambda seconds: seconds + 1)
    (root / "tests" / "golden" / "verdicts.csv").write_text("id,verdict,measured,seeds,scale\nx,exact,3,,\n")
    assert check(update=True, root=root) == 0
    out = capsys.readouterr().out
    assert "fedavg plain virtual_seconds, round 1" in out
    assert 'Say why under "Numbers" in CHANGELOG.md' in out
    assert (root / "tests" / "golden" / "fedavg.json").read_text() == before
    assert check(update=False, root=root) == 0
    golden_verdicts = (ROOT / "tests" / "golden" / "verdicts.csv").read_text()
    assert (root / "tests" / "golden" / "verdicts.csv").read_text() == golden_verdicts


def test_a_moved_verdict_fails(root, capsys):
    file = root / "tests" / "golden" / "verdicts.csv"
    name = "fed2a/table-4/fedavg/fmnist/r=300/upload_to_target"
    [line] = [line for line in file.read_text().splitlines() if line.startswith(name)]
    assert line == f"{name},consistent,1.2678,,"
    file.write_text(file.read_text().replace(line, f"{name},exact,1.2,,"))
    assert check(update=False, root=root) == 1
    assert capsys.readouterr().out.splitlines()[2].split() == [name, "exact", "1.2", "consistent", "1.2678", "+0.0678"]


def test_new_and_missing_algorithms_are_changes(root, capsys):
    folder = root / "tests" / "golden"
    (folder / "fedprox.json").rename(folder / "fedgone.json")
    assert check(update=False, root=root) == 1
    out = capsys.readouterr().out
    assert "fedgone plain" in out and "not run" in out
    assert "fedprox plain" in out and "none yet" in out
    assert check(update=True, root=root) == 0
    assert (folder / "fedprox.json").exists() and not (folder / "fedgone.json").exists()


def test_rounding_is_no_change_and_counts_are_exact():
    run = {"test_loss": [1.0], "test_accuracy": [0.5], "version": [1]}
    near = {"test_loss": [1.00005], "test_accuracy": [0.5 + 2 / 360], "version": [1]}
    far = {"test_loss": [1.0002], "test_accuracy": [0.5 + 3 / 360], "version": [2]}
    assert golden.compare({"a": {"plain": run}}, {"a": {"plain": near}}) == []
    assert len(golden.compare({"a": {"plain": run}}, {"a": {"plain": far}})) == 3
    [short] = golden.compare({"a": {"plain": {"version": [1, 2]}}}, {"a": {"plain": {"version": [1]}}})
    assert (short.golden, short.now) == ("2 rounds", "1 rounds")


def test_a_nan_is_a_change():
    run, bad = {"test_loss": [1.0]}, {"test_loss": [float("nan")]}
    assert golden.compare({"a": {"plain": run}}, {"a": {"plain": bad}})


def test_outside_a_checkout_there_is_nothing_to_compare_with(tmp_path):
    with pytest.raises(UserError, match="in a checkout of fedbench"):
        check(update=False, root=tmp_path)


def test_unreadable_expectations_are_named(root):
    (root / "tests" / "golden" / "fedavg.json").write_text("{")
    with pytest.raises(UserError, match=r"fedavg\.json is not readable"):
        check(update=False, root=root)


def test_a_run_that_fails_is_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    (tmp_path / "bench.py").write_text("import sys; sys.exit('error: no such luck')")
    assert check(update=True, root=tmp_path) == 1
    out = capsys.readouterr().out
    assert "algo=glob(*)" in out and "no such luck" in out
    assert list((tmp_path / "tests" / "golden").iterdir()) == []


def test_broken_claims_fail(root, monkeypatch, capsys):
    monkeypatch.setattr(ledger, "COUNT", 627)
    ledger.load.cache_clear()
    assert check(update=False, root=root) == 1
    assert "There are 626 claims, not 627." in capsys.readouterr().out
    ledger.load.cache_clear()


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["leaderboards", *words])
    return command.main()


def test_a_result_that_no_plan_knows_any_more_fails(root, monkeypatch, capsys):
    [result] = made.table_vi({"fedavg": [60]})
    lost = replace(result, plan=(replace(result.plan[0], overrides=("algo=gone",)),))
    monkeypatch.setattr(results, "committed", lambda: (lost,))
    assert check(update=False, root=root) == 1
    assert "no longer planned" in capsys.readouterr().out


def test_a_measured_verdict_is_expected_with_its_seeds_and_scale():
    found = judged(
        load(), made.table_vi({"fedavg": [110, 112, 114], "fedlga": [60, 61, 62], "fedprox": [90, None, 92]})
    )
    rows = {name.split("/")[2]: row for name, row in expected(found).items() if "0.8e" in name and "fmnist" in name}
    assert rows["fedavg"] == ("reproduced", "112", "3", "paper")
    assert rows["fedprox"] == ("direction only", "never (1)", "3", "paper")
    [change] = compare({"x": ("exact", "1", "", "")}, {"x": ("reproduced", "never (1)", "3", "paper")})
    assert (change.golden, change.now, change.difference) == ("exact 1", "reproduced never (1) 3 paper", "")


def test_claims_are_listed_with_their_verdicts(monkeypatch, capsys):
    monkeypatch.setattr(results, "committed", lambda: ())
    assert run(monkeypatch, "claims", "--paper", "fedlga", "--where", "table v") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[1:] == ["9.4", "s", "not", "run"]
    assert lines[2].split()[1:4] == ["565.8", "s", "consistent"]
    assert len(lines) == 1 + 54 + 1 + 6 + 2 and "python -m leaderboards command" in lines[-1]
    assert run(monkeypatch, "claims", "--verdict", "inconsistent") == 0
    assert capsys.readouterr().out.count(" inconsistent ") == 8 + 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--paper", "fedlgb"], "nearest: fedlga"),
        (["--where", "Table XX"], "There are no claims in 'Table XX'"),
        (["--verdict", "exakt"], "nearest: exact"),
    ],
)
def test_unknown_filters_get_a_sentence(monkeypatch, capsys, words, reason):
    assert run(monkeypatch, "claims", *words) == 2
    assert reason in capsys.readouterr().err


def test_audit_prints_a_table(monkeypatch, capsys):
    assert run(monkeypatch, "audit") == 0
    assert capsys.readouterr().out.startswith("| paper | where |")


@pytest.mark.slow
def test_the_real_check_passes():
    done = subprocess.run([sys.executable, "-m", "leaderboards", "check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
