"""python -m leaderboards check: what moved is shown and fails; --update accepts it."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import made
import pytest
from nothing_open import nothing_open

from bench.errors import UserError
from bench.prepare import registry
from leaderboards import __main__ as command
from leaderboards import golden, ledger, results
from leaderboards.check import check, compare, expected, pin
from leaderboards.ledger import load
from leaderboards.papers import papers
from leaderboards.verdict import verdicts as judged

ROOT = Path(__file__).parents[2]
PAPERS = {"fedlga": 143, "fed2a": 194, "fedlc": 91, "fedagg": 263}  # of the first four: their claims
FOUR = tuple(f"{paper}/" for paper in PAPERS)
METHODS = {
    *("fedavg", "fedprox", "fednova", "scaffold", "feddyn", "fedcm", "mimelite", "fedsam", "fedadam", "fedadagrad"),
    *("fedyogi", "fedbabu", "fedgh", "fedlga", "fedagg", "fed2a", "fedlc", "sc_fedlc", "fedlc_t", "fedasync", "afo"),
    "ce_afl",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A checkout in miniature, whose runs come out as the golden files say."""
    shutil.copytree(ROOT / "tests" / "golden", tmp_path / "tests" / "golden")
    (tmp_path / "bench.py").touch()
    runs = golden.load(tmp_path / "tests" / "golden")
    monkeypatch.setattr(golden, "run_now", lambda root, names=runs: {name: copy.deepcopy(runs[name]) for name in names})
    return tmp_path


def perturb(root, algo, plan, quantity, place, value):
    file = root / "tests" / "golden" / f"{algo}.json"
    content = json.loads(file.read_text())
    content[plan][quantity][place] = value(content[plan][quantity][place])
    file.write_text(json.dumps(content))


def test_every_algorithm_of_the_papers_has_its_golden_runs_and_each_of_the_four_its_verdicts():
    runs = golden.load(golden.folder(ROOT))
    assert set(registry.classes("algo")) >= set(runs) >= METHODS
    verdicts = (ROOT / "tests" / "golden" / "verdicts.csv").read_text().splitlines()[1:]
    assert {line.partition("/")[0] for line in verdicts} >= set(PAPERS)
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


def test_what_has_not_moved_passes(root, capsys):
    assert check(update=False, root=root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Nothing moved."
    assert lines[0].startswith("claims ") and "inconsistent" in lines[0]
    counts = {line.split()[0]: int(line.split()[-1]) for line in lines[1 : len(papers()) + 2]}
    assert counts.items() >= PAPERS.items() and counts.pop("all") == sum(counts.values())


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
    files = [folder / "tests" / "golden" / "verdicts.csv" for folder in (ROOT, root)]
    pinned, written = ([line for line in file.read_text().splitlines() if line.startswith(FOUR)] for file in files)
    assert pinned == written


def bytes_of(root):
    return {path.name: path.read_bytes() for path in (root / "tests" / "golden").iterdir()}


def test_update_leaves_the_bytes_of_what_has_not_moved(root, capsys):
    perturb(root, "fedavg", "plain", "test_loss", 2, lambda loss: loss * (1 + 1e-9))
    before = bytes_of(root)
    assert check(update=True, root=root) == 0
    assert "Nothing moved." in capsys.readouterr().out and bytes_of(root) == before


def test_update_of_one_method_leaves_the_bytes_of_all_others(root, capsys):
    whole = bytes_of(root)
    for algo in ("fedavg", "fedprox", "scaffold"):
        perturb(root, algo, "plain", "test_loss", 2, lambda loss: loss * 1.001)
    (root / "tests/golden/fedsam.json").unlink()
    before = bytes_of(root)
    assert pin(["fedprox", "fedsam"], root) == 0
    after = bytes_of(root)
    assert {name for name in after if after[name] != before.get(name)} == {"fedprox.json", "fedsam.json"}
    assert after["fedprox.json"] == whole["fedprox.json"] and after["fedsam.json"] == whole["fedsam.json"]
    out = capsys.readouterr().out
    assert "fedprox plain test_loss, round 3" in out and "fedprox, fedsam: pinned" in out and "fedsam plain" not in out
    assert pin(["fedprox"], root) == 0 and capsys.readouterr().out == "Nothing moved.\n"


def test_an_unknown_method_is_refused_in_the_commands_own_words(root, monkeypatch):
    def fail(root, names):
        raise golden.RunFailed("bench.py -m algo=fedprix\nerror: Unknown algorithm 'fedprix', nearest: fedprox.")

    monkeypatch.setattr(golden, "run_now", fail)
    with pytest.raises(UserError, match=r"^Unknown algorithm 'fedprix', nearest: fedprox\.$"):
        pin(["fedprix"], root)


def test_only_the_plans_of_the_named_methods_are_run():
    pinned = {"fedavg": {"plain": {}, "semi_async": {}}, "fedprox": {"plain": {}}}
    plans = golden._plans_of(["fedprox", "new"], pinned)
    assert plans["plain"] == ("algo=fedprox,new",) and plans["with_replacement"][0] == "algo=fedprox,new"
    assert (
        "semi_async" not in plans and golden._plans_of(["fedavg"], pinned)["semi_async"] == golden.PLANS["semi_async"]
    )


def test_a_moved_verdict_fails(root, capsys):
    file = root / "tests" / "golden" / "verdicts.csv"
    name = "fed2a/table-4/fedavg/cifar10/r=300/upload_to_target"
    [line] = [line for line in file.read_text().splitlines() if line.startswith(name)]
    assert line == f"{name},consistent,3.7593,,"
    file.write_text(file.read_text().replace(line, f"{name},exact,3.7,,"))
    assert check(update=False, root=root) == 1
    assert capsys.readouterr().out.splitlines()[2].split() == [name, "exact", "3.7", "consistent", "3.7593", "+0.0593"]


def names(out, what):
    """Those of which `check` says this."""
    return [name for line in out.splitlines() if f": {what}" in line for name in line.partition(":")[0].split(", ")]


def test_a_missing_algorithm_is_a_change_and_a_new_one_is_named(root, capsys):
    folder = root / "tests" / "golden"
    (folder / "fedprox.json").rename(folder / "fedgone.json")
    assert check(update=False, root=root) == 1
    out = capsys.readouterr().out
    assert "fedgone plain" in out and "not run" in out
    assert "fedprox plain" not in out and "fedprox" in names(out, "new, and not pinned yet")
    assert check(update=True, root=root) == 0
    assert "fedprox" in names(capsys.readouterr().out, "new, and pinned now")
    assert (folder / "fedprox.json").exists() and not (folder / "fedgone.json").exists()


def test_a_new_paper_is_named_and_no_change_until_one_of_its_verdicts_is_pinned(root, capsys):
    file = root / "tests" / "golden" / "verdicts.csv"
    old = file.read_text().splitlines()
    file.write_text("\n".join(line for line in old if not line.startswith("fed2a/")) + "\n")
    assert check(update=False, root=root) == 0
    assert "fed2a" in names(capsys.readouterr().out, "new, and not pinned yet")
    first = next(line for line in old if line.startswith("fed2a/"))
    file.write_text(file.read_text() + first + "\n")
    assert check(update=False, root=root) == 1
    assert "fed2a" not in names(capsys.readouterr().out, "new, and not pinned yet")


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


def test_a_number_that_is_not_there_is_the_same_where_neither_has_it():
    without, zero = ({"a": {"plain": {"staleness_mean": [1.0, value]}}} for value in (float("nan"), 0.0))
    assert golden.compare(without, without) == []
    assert len(golden.compare(without, zero)) == len(golden.compare(zero, without)) == 1


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
    monkeypatch.delitem(ledger.METRICS, "parameters")
    ledger.load.cache_clear()
    assert check(update=False, root=root) == 1
    assert "check failed: fed2a/table-3/any/fmnist/shallow/parameters: unknown metric" in capsys.readouterr().out
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
    with nothing_open():
        found = judged(
            load(), made.table_vi({"fedavg": [110, 112, 114], "fedlga": [60, 61, 62], "fedprox": [90, None, 92]})
        )
    rows = {name.split("/")[2]: row for name, row in expected(found).items() if "0.8e" in name and "fmnist" in name}
    assert rows["fedavg"] == ("reproduced", "112", "3", "paper")
    assert rows["fedprox"] == ("not confirmed", "never (1)", "3", "paper")
    [change] = compare({"x": ("exact", "1", "", "")}, {"x": ("reproduced", "never (1)", "3", "paper")})
    assert (change.golden, change.now, change.difference) == ("exact 1", "reproduced never (1) 3 paper", "")


def test_claims_are_listed_with_their_verdicts(monkeypatch, capsys):
    monkeypatch.setattr(results, "committed", lambda: ())
    assert run(monkeypatch, "claims", "--paper", "fedlga", "--where", "table v") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[1:] == ["9.4", "s", "not", "run"]
    assert lines[2].split()[1:4] == ["565.8", "s", "consistent"]
    assert len(lines) == 1 + 54 + 1 + 3 + 2 and "python -m leaderboards command" in lines[-1]
    assert run(monkeypatch, "claims", "--verdict", "inconsistent") == 0
    assert len(re.findall(r"^(?:fedlga|fed2a|fedlc|fedagg)/.* inconsistent ", capsys.readouterr().out, re.M)) == 9


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
