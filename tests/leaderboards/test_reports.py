"""python -m leaderboards wandb, against a local stand-in for the W&B API that keeps what it is sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import made
import pytest
from wandb_stub import Stub

from leaderboards import __main__ as command
from leaderboards.reports import TITLE, rows

ROOT = Path(__file__).parents[2]
KEY = "0123456789abcdef" * 2 + "01234567"
PUBLISH = """
import sys
sys.path.insert(0, {tests!r})
import made
from leaderboards.papers import fed2a
from leaderboards.reports import publish
fed2a.layers = lambda: {{}}  # of Fed2A's models, which take seconds to build and are not in these runs
print(publish("team", "fed", made.table_vi({rounds!r})))
"""


def publish(stub, folder, rounds):
    """In a process of its own: wandb keeps its settings as long as a process lives."""
    code = PUBLISH.format(tests=str(Path(__file__).parent), rounds=rounds)
    homes = {f"WANDB_{name}_DIR": str(folder) for name in ("CACHE", "CONFIG", "DATA")}
    env = os.environ | homes | {"WANDB_BASE_URL": stub.url, "WANDB_API_KEY": KEY, "WANDB_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_results_arrive_once_and_later_ones_join_them_in_the_same_report(tmp_path):
    pytest.importorskip("wandb_workspaces", reason="the extra `reports` is not installed")
    stub = Stub()
    first = publish(stub, tmp_path, {"fedavg": [3], "fedlga": [2]})
    assert first.startswith("2 runs sent, 0 were there; report written: ")
    expected = {result.name: result for result in made.table_vi({"fedavg": [3], "fedlga": [2]})}
    assert stub.runs.keys() == expected.keys()
    assert stub.unknown == []
    for name, result in expected.items():
        sent = stub.runs[name]
        assert (sent["project"], sent["entity"], sent["groupName"]) == ("fed", "team", "one batch")
        history = [sent["history"][step] for step in sorted(sent["history"])]
        assert [line["test_accuracy"] for line in history] == result.rows["test_accuracy"]
        assert [line["round"] for line in history] == list(range(1, 201))
        assert json.loads(sent["config"])["method"]["value"] == result.plan[0].method
    [report] = stub.reports.values()
    assert report["displayName"] == TITLE
    for words in ("116 rounds / 3.0, not confirmed", "Claims by verdict", "test_accuracy", "fedlga/table6"):
        assert words in report["spec"]
    more = publish(stub, tmp_path, {"fedavg": [3, 4], "fedlga": [2]})
    assert more.startswith("1 runs sent, 2 were there; report updated: ")
    assert len(stub.reports) == 1 and len(stub.runs) == 3
    assert KEY not in json.dumps([stub.runs, stub.reports])
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in written)


def test_without_a_key_one_sentence_says_how_to_get_one(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "argv", ["leaderboards", "wandb", "--entity", "e", "--project", "p"])
    assert command.main() == 2
    error = capsys.readouterr().err
    assert "https://wandb.ai/authorize" in error and len(error.splitlines()) == 1


def test_rounds_without_an_evaluation_have_no_accuracy():
    [result] = made.table_vi({"fedavg": [2]})
    result.rows["test_accuracy"][0] = None
    first, second, *_ = rows(result)
    assert "test_accuracy" not in first and first["round"] == 1
    assert second["test_accuracy"] == 0.66 and second["virtual_seconds"] == 4
